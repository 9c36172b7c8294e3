"""`harken studio`: what can be wrong before the page is served, and the page that is opened."""

import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    done = run("studio", tmp_path / "nowhere")
    assert done.exit_code == 2 and "nowhere is no folder; name the folder that your runs are in" in done.output


def test_runs_are_counted_and_a_port_in_use_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "recipe.toml").write_text('task = "translate"\n')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("studio", tmp_path, "--port", port)
    assert done.exit_code == 2 and f"1 run in {tmp_path}, 0 with a model" in done.output
    assert f"cannot listen on 127.0.0.1:{port}" in done.output


def test_the_page_is_opened_when_the_server_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    from harken.cli.serving.studio import announcer

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("threading.Thread.start", lambda thread: thread.run())
    announcer(open_page=False)("Ready on http://127.0.0.1:5001 (Ctrl-C stops)")
    announcer(open_page=True)("Ready on http://127.0.0.1:5001 (Ctrl-C stops)")
    assert opened == ["http://127.0.0.1:5001"]


def test_the_demo_says_how_to_open_the_studio(
    tiny_model: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from harken.cli.serving import studio as module
    from harken.cli.training.demo import demo
    from harken.data.text.pairs import Pair
    from harken.tasks.translate.job import TranslateJob

    folder = tmp_path / "my demo"
    shutil.copytree(tiny_model("tatoeba-transformer"), folder)
    monkeypatch.setattr(TranslateJob, "examples", lambda *given, **options: [Pair("the cat sleeps", "le chat dort")])
    demo(folder)
    assert capsys.readouterr().out.rstrip().endswith(f"harken studio '{folder}' --open")
    opened: list[Any] = []
    monkeypatch.setattr(module, "studio", lambda runs, open_page: opened.append((runs, open_page)))
    demo(folder, open_page=True)
    assert opened == [(folder, True)]
