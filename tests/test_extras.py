"""Without any extra harken trains and translates; what needs one says how to install it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HIDDEN = (
    "fastapi", "starlette", "uvicorn", "multipart", "httptools", "uvloop", "prometheus_client", "py3langid",
    "matplotlib", "sklearn", "soundfile", "scipy", "PIL", "statsmodels", "ray", "onnx", "ctranslate2", "tensorboard",
    "pyarrow", "openpyxl", "zstandard",
)  # fmt: skip
PROGRAM = """
import json, sys
hidden, calls = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(hidden))
from typer.testing import CliRunner
import harken
from harken.cli.app import app

results = []
for call in calls:
    done = CliRunner().invoke(app, call)
    results.append([done.exit_code, done.output, repr(done.exception)])
for name in ("SequenceClassifier", "SequenceTagger", "SequenceForecaster"):
    try:
        getattr(harken, name)
    except harken.UserError as error:
        results.append([2, str(error), ""])
print(json.dumps(results))
"""


def run(calls: list[list[str]]) -> list[list[Any]]:
    """Exit code, output and exception of commands in a process without the extras; then those of estimators."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([HIDDEN, calls])], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results: list[list[Any]] = json.loads(done.stdout.splitlines()[-1])
    return results


def test_what_needs_an_extra_says_how_to_install_it(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder = str(tiny_model("phrasebook-transformer"))
    few = [
        "data.size=60", "model.width=8", "model.heads=2", "model.feedforward=8", "train.max_steps=2",
        "train.max_minutes=none", "train.device=cpu", "train.batch_tokens=200", "train.validate_sentences=2",
    ]  # fmt: skip
    settings = [part for one in few for part in ("--set", one)]
    calls = {
        "train": ["train", "phrasebook-transformer", "--out", str(tmp_path / "run"), *settings],
        "translate": ["translate", folder, str(tmp_path / "in.txt")],
        "serve": ["serve", folder],
        "studio": ["studio", folder],
        "plot": ["attention", folder, "the cat sleeps", "--out", str(tmp_path / "map.png")],
        "onnx": ["export", folder, "--to", "onnx", "--out", str(tmp_path / "onnx")],
        "ctranslate2": ["export", folder, "--to", "ctranslate2", "--out", str(tmp_path / "ct2")],
    }
    (tmp_path / "in.txt").write_text("the black cat sleeps\n")
    results = run(list(calls.values()))
    for name, (code, output, exception) in zip(calls, results, strict=False):
        if name in ("train", "translate"):
            assert code == 0, (name, output, exception)
        else:
            extra = {"studio": "serve"}.get(name, name)
            assert code == 2 and f'which is not installed; pip install "harken[{extra}]"' in output, (name, output)
    for _, message, _ in results[len(calls) :]:
        assert message == 'an estimator needs scikit-learn, which is not installed; pip install "harken[estimators]"'
    assert len(results) == len(calls) + 3


@pytest.mark.parametrize("name", ["all", "serving", "ray", "dev"])
def test_extras_that_name_others_name_existing_ones(name: str) -> None:
    import re
    import tomllib

    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [part for one in extras[name] for part in re.findall(r"^harken\[(.*)\]$", one)]
    assert named and all(part in extras for one in named for part in one.split(","))
    core = {re.split(r"[>=;\[]", one)[0] for one in project["dependencies"]}
    assert core.isdisjoint({"fastapi", "uvicorn", "python-multipart", "matplotlib"})
