"""The course in the studio: cells and live figures, the outputs of a chapter, written answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harken.inspection.figure import Figure
from harken.learn import EXERCISES, Chapter, chapters
from harken.studio import learning, live
from harken.studio.explorations import Exploration, explore
from harken.studio.learning import check_answer, list_chapters, run_chapter
from harken.studio.live import LIVE, PLACES


@pytest.fixture
def barely_trained(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Networks of live figures learn for two updates."""
    cached = (live._language_model, live._translator, live._masked_model)
    learn = live.learn
    monkeypatch.setattr(live, "learn", lambda model, loss, steps, rate: learn(model, loss, 2, rate))
    yield
    for function in cached:
        function.cache_clear()


def draw(name: str, **values: Any) -> dict[str, Any]:
    return explore(name, values, 1, LIVE)


def panels(found: dict[str, Any]) -> list[dict[str, Any]]:
    return list(found["figures"][0]["panels"])


def test_every_place_is_a_cell_of_code_and_every_chapter_has_one() -> None:
    cells = {(chapter.number, cell.name): cell for chapter in chapters() for cell in chapter.cells}
    assert all(not cells[place].is_text for place in PLACES)
    assert set(LIVE) == set(PLACES.values())
    assert {number for number, _ in PLACES} == {chapter.number for chapter in chapters()}


def test_every_exercise_is_in_a_cell_and_names_its_inputs() -> None:
    cells = [cell for chapter in list_chapters() for cell in chapter["cells"] if cell["exercise"]]
    assert [cell["exercise"] for cell in cells] == list(EXERCISES)
    named = {cell["exercise"]: cell["inputs"] for cell in cells if cell["inputs"]}
    assert named == {"ex2a": ["x", "h", "W_xh", "W_hh", "b"], "ex4c": ["h", "n", "z"]}


def test_the_gates_of_a_latch_keep_what_has_the_star() -> None:
    found = draw("gates", input_star=1, input_else=0, forget_star=0, forget_else=1, output=1)
    read, cell, hidden = (series["y"] for series in panels(found)[0]["series"])
    assert read[6] == 1 and cell[6:] == pytest.approx([0.7616] * 18, abs=5e-3) and cell[5] == pytest.approx(0, abs=5e-3)
    assert hidden[-1] == pytest.approx(0.6420, abs=5e-3) and "it has kept what had the star" in found["said"]
    assert "move the gates" in draw("gates", forget_star=1)["said"]


def test_a_block_grows_by_its_parts() -> None:
    alone = draw("block", words=5, width="32", heads="4")
    assert "sees the last one" in alone["said"] and "reversed outputs" in alone["said"]
    assert alone["table"]["rows"][1] == ["queries, keys, values", "3 x 4 heads x 5 x 8", "3,168"]
    assert len(panels(alone)) == 4 and len(panels(alone)[0]["values"]) == 5
    masked = draw("block", mask="yes")
    assert "does not see the last one" in masked["said"]
    assert [weight > 0 for weight in panels(masked)[0]["values"][1]] == [True, True, False, False, False, False]
    assert "order of the words matters" in draw("block", positions="yes")["said"]
    whole = draw("block", feedforward="yes", residual="yes", norm="yes", width="16")
    assert ["W_1 and ReLU", "6 x 64", "1,088"] in whole["table"]["rows"]
    assert panels(draw("block", attention="no")) == []


def test_a_low_temperature_prefers_the_most_probable_word() -> None:
    def first(temperature: float) -> float:
        return float(panels(draw("next-word", word="she", temperature=temperature))[0]["groups"][0]["values"][0])

    assert first(0.1) > 0.9 > first(1.0) > first(3.0)


@pytest.mark.usefixtures("barely_trained")
def test_networks_of_live_figures_compute_what_they_show() -> None:
    found = draw("steps", words=6, step=3)
    states, gradient = panels(found)
    assert len(states["columns"]) == 6 and all(row[3:] == [0, 0, 0] for row in states["values"])
    assert gradient["series"][0]["x"] == [5, 4, 3, 2, 1, 0] and gradient["series"][0]["y"][-1] == 1
    found = draw("weights", whose="mine", w1=1, w2=0, w3=0.5, w4=0, w5=0.5)
    weights = panels(found)[0]["groups"][0]["values"]
    assert weights == [0.5, 0, 0.25, 0, 0.25] and "Most weight is on “ka”" in found["said"]
    assert sum(panels(draw("weights"))[0]["groups"][0]["values"]) == pytest.approx(1, abs=1e-3)
    found = draw("bottleneck", words=3)
    assert len(panels(found)[0]["groups"]) == 2 and len(found["table"]["rows"]) == 4
    found = draw("gap", place=9)
    assert "the judges will stick to the [MASK]" in found["said"]


@pytest.mark.usefixtures("barely_trained")
def test_a_wider_beam_finds_nothing_worse() -> None:
    def best(beam: int) -> float:
        found = draw("beam", beam=beam, words=4)
        assert len(found["table"]["rows"]) == 4
        return float(max(panels(found)[0]["groups"][0]["values"]))

    assert best(6) >= best(1)


def test_a_chapter_is_run_cell_by_cell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "1-tiny.py"
    path.write_text(
        "# %% title [markdown]\n# # 1. Tiny\n\n# %% first\n"
        "from harken.inspection.figure import Bars, Figure, Group\nfrom harken.learn import check, show\nprint(2 + 3)\n"
        "\n# %% picture\nshow(Figure('', [Bars('', '', '', ['a'], [Group('', [1.5])])]))\nprint('drawn')\n"
        '\n# %% exercise\nanswer = ...\nprint(check("ex1a", answer))\n'
    )
    monkeypatch.setattr(learning, "chapters", lambda: [Chapter.read(path)])
    events: list[dict[str, Any]] = []
    run_chapter(1, events.append)
    assert [event["cell"] for event in events] == ["first", "picture"]
    assert events[0]["outputs"] == ["5\n"] and events[1]["outputs"][1] == "drawn\n"
    assert events[1]["outputs"][0]["figures"][0]["panels"][0]["groups"][0]["values"] == [1.5]


def test_live_figures_and_chapters_compute_on_one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small networks take ten times as long on two threads of a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        path = tmp_path / "1-tiny.py"
        path.write_text(
            "# %% title [markdown]\n# # 1. Tiny\n\n# %% count\nimport torch\nprint(torch.get_num_threads())\n"
        )
        monkeypatch.setattr(learning, "chapters", lambda: [Chapter.read(path)])
        events: list[dict[str, Any]] = []
        run_chapter(1, events.append)
        threads = Exploration((), lambda values, seed: (Figure("", []), str(torch.get_num_threads())))
        assert events == [{"cell": "count", "outputs": ["1\n"]}]
        assert explore("threads", {}, 1, {"threads": threads})["said"] == "1"
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_written_answer_gets_the_hint_of_its_mistake() -> None:
    assert check_answer("ex3c", "3/5, 0.8")["right"]
    assert check_answer("ex2a", "tanh(W_xh @ x + W_hh @ h + b)")["right"]
    assert check_answer("ex2a", "W_xh @ x + W_hh @ h + b")["said"].startswith("Not yet. tanh is missing")
