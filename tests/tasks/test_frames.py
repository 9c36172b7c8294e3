"""`harken.train(data=frame)` for every job: a frame of its rows is trained on, or one sentence says what to give."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harken
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
}
FILES = {"transcribe": "tones-transcribe", "caption": "scenes-caption", "handwriting": "penfont-handwriting"}


@pytest.mark.parametrize("task", TABLES)
def test_a_frame_is_trained_on(task: str, tmp_path: Path) -> None:
    recipe, settings, columns, works = TABLES[task]
    model = harken.train(
        recipe, tmp_path / "out", data=pandas.DataFrame(columns), overrides=[*SHORT, *settings], progress=False
    )
    assert model.recipe.task == task and works(model)


@pytest.mark.parametrize("task", FILES)
def test_a_job_of_files_says_what_to_give(task: str, tmp_path: Path) -> None:
    with pytest.raises(harken.UserError, match=rf"'{task}' takes no table in memory; save it .*data\.train=FILE"):
        harken.train(FILES[task], tmp_path / "out", data=pandas.DataFrame({"text": TEXTS}), progress=False)
    assert not (tmp_path / "out").exists()


def test_every_job_is_here() -> None:
    assert {*TABLES, *FILES} == set(JOBS)
