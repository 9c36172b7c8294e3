"""`harken.train(data=frame)` for every job: a frame of its rows is trained on; a wrong cell gets one sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harken
from harken.data.audio.recordings import write_wav
from harken.data.io.in_memory import name_of
from harken.registry import JOBS

pandas = pytest.importorskip("pandas")
COUNT = 30
WORDS = ["black", "old", "small", "white", "tired"]
TEXTS = [f"the {WORDS[number % 5]} cat number {number} sleeps" for number in range(COUNT)]
SHORT = [
    *("train.max_steps=2", "train.max_epochs=none", "train.max_minutes=none", "train.average=0.0"),
    *("train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32", "train.warmup_steps=0"),
    "train.batch_tokens=200",
]
NARROW = ["model.width=8", "model.embedding=8"]
RANDOM = np.random.default_rng(1)
SOUNDS = [(RANDOM.integers(-9000, 9000, 4000) / 32768).astype(np.float32) for _ in range(COUNT)]  # as 16 bits have them
PICTURES = [RANDOM.integers(0, 255, (16, 16, 3), np.uint8) for _ in range(COUNT)]
TABLES: dict[str, tuple[Any, list[str], dict[str, list[Any]], Callable[[Any], Any]]] = {
    "translate": (
        "phrasebook-transformer",
        ["model.layers=1", "model.width=16", "model.heads=2", "model.feedforward=16", "train.validate_sentences=2"],
        {"source": TEXTS, "target": [text.upper() for text in TEXTS]},
        lambda model: model.translate(TEXTS[0]).text is not None,
    ),
    "classify": (
        "opinions-classify",
        NARROW,
        {"text": TEXTS, "label": ["odd", "even"] * (COUNT // 2)},
        lambda model: set(model.classes) == {"odd", "even"},
    ),
    "regress": (
        {"task": "regress", "data": {}, "model": {"architecture": "recurrent", "width": 8, "embedding": 8}},
        [],
        {"text": TEXTS, "label": [float(number) for number in range(COUNT)]},
        lambda model: len(model.predict(TEXTS[:2])) == 2,
    ),
    "tag": (
        "phrasebook-tag",
        NARROW,
        {"tokens": [text.split() for text in TEXTS], "tags": [["A", "B", "C", "D", "E", "F"]] * COUNT},
        lambda model: len(model.tag(TEXTS[0]).tags) == 6,
    ),
    "language": ("phrasebook-language", NARROW, {"text": TEXTS}, lambda model: model.perplexity(TEXTS[0]) > 0),
    "masked": (
        "phrasebook-masked",
        ["model.width=16", "model.feedforward=16"],
        {"text": TEXTS},
        lambda model: model.fill("the [MASK] cat"),
    ),
    "elmo": (
        "phrasebook-elmo",
        ["model.width=8", "model.character_width=16"],
        {"text": TEXTS},
        lambda model: model is not None,
    ),
    "forecast": (
        "series-forecast",
        ["model.members=1", *NARROW],
        {"month": [f"{1949 + k // 12}-{k % 12 + 1:02d}" for k in range(120)], "value": [100 + k for k in range(120)]},
        lambda model: len(model.forecast(steps=2).dates) == 2,
    ),
    "answer": (
        "stories-answer",
        ["model.width=8", "model.reader='gru'"],
        {
            "facts": [[f"Anna took the {WORDS[k % 5]} key.", "Anna went to the hall."] for k in range(COUNT)],
            "question": ["Where is Anna?"] * COUNT,
            "answer": ["hall"] * (COUNT - 10) + ["garden"] * 10,
        },
        lambda model: model.answer(["Anna went to the hall."], "Where is Anna?").text in ("hall", "garden"),
    ),
    "transcribe": (
        "tones-transcribe",
        ["model.width=8"],
        {"audio": SOUNDS, "text": ["ab", "ba", "a"] * (COUNT // 3)},
        lambda model: model.transcribe(SOUNDS[0], rate=8000).text is not None,
    ),
    "caption": (
        "scenes-caption",
        ["data.image_size=16", "model.channels=[4, 4]", "model.depth=[0, 0]", "model.width=8", "model.decoder.width=8"],
        {"image": PICTURES, "caption": [["a cat", "the cat"], "a dog"] * (COUNT // 2)},
        lambda model: model.caption(PICTURES[0]).text is not None,
    ),
    "handwriting": (
        "penfont-handwriting",
        ["model.width=8", "sampling.max_points=5"],
        {
            "strokes": [[[[k, 0], [k + 2, 3]], [[1, 1], [4, k]]] for k in range(COUNT)],
            "text": ["ab", "ba"] * (COUNT // 2),
        },
        lambda model: len(model.write("ab").points) > 0,
    ),
}


@pytest.mark.parametrize("task", TABLES)
def test_a_frame_is_trained_on(task: str, tmp_path: Path) -> None:
    recipe, settings, columns, works = TABLES[task]
    model = harken.train(
        recipe, tmp_path / "out", data=pandas.DataFrame(columns), overrides=[*SHORT, *settings], progress=False
    )
    assert model.recipe.task == task and works(model)


@pytest.mark.parametrize("task", ["transcribe", "caption"])
def test_cells_may_be_paths_bytes_or_what_datasets_gives(task: str, tmp_path: Path) -> None:
    recipe, settings, columns, _ = TABLES[task]
    name = next(iter(columns))
    write = write_wav_file if task == "transcribe" else write_png
    cells, files = list(columns[name]), [tmp_path / f"{number}.wav" for number in range(3)]
    for number, file in enumerate(files):
        write(file, cells[number])
    cells[0], cells[1], cells[2] = (
        str(files[0]),
        {"bytes": files[1].read_bytes(), "path": None},
        {"path": str(files[2])},
    )
    if task == "transcribe":
        cells[3] = {"array": cells[3], "sampling_rate": 8000}
    losses = []
    for out, given in (("arrays", columns[name]), ("mixed", cells)):
        table = {**columns, name: given}
        harken.train(recipe, tmp_path / out, data=table, overrides=[*SHORT, *settings], progress=False)
        lines = [json.loads(line) for line in (tmp_path / out / "metrics.jsonl").read_text().splitlines()]
        losses.append([line["loss"] for line in lines if line["kind"] == "valid"])
    assert losses[0] and losses[1] == losses[0]


def write_wav_file(file: Path, samples: np.ndarray) -> None:
    write_wav(file, samples, 8000)


def write_png(file: Path, pixels: np.ndarray) -> None:
    pytest.importorskip("PIL.Image").fromarray(pixels).save(file, format="PNG")


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("transcribe", {"audio": ["none.wav"] * COUNT}, "the table, row 1: none.wav does not exist"),
        ("transcribe", {"audio": [{"path": None, "bytes": None}] * COUNT}, "the table, row 1"),
        ("caption", {"image": [np.zeros(3)] * COUNT}, r"the table, row 1: an array of shape \(3,\) is no picture"),
        ("caption", {"caption": [None] * COUNT}, "the table, row 1 has an empty caption"),
        ("handwriting", {"strokes": [[[1, 2]]] * COUNT}, "the table, row 1 has a stroke that is no list of"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(task: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    recipe, settings, columns, _ = TABLES[task]
    with pytest.raises(harken.UserError, match=message):
        harken.train(recipe, tmp_path / "out", data={**columns, **change}, overrides=settings, progress=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("columns", [TABLES["transcribe"][2], TABLES["caption"][2]])
def test_the_name_of_a_table_depends_on_what_is_in_its_arrays(columns: dict[str, Any]) -> None:
    changed = {name: list(cells) for name, cells in columns.items()}
    name = next(iter(changed))
    assert name_of(columns) == name_of(changed)
    changed[name][0] = changed[name][1]
    assert name_of(columns) != name_of(changed)


def test_every_job_is_here() -> None:
    assert {*TABLES} == set(JOBS)
