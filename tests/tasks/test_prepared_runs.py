"""Runs on prepared data are those on data in memory, to the bit, also when they are killed and resumed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harken
from harken.data.synthetic.opinions import make_splits
from harken.data.synthetic.phrasebook import load_phrasebook
from harken.data.synthetic.phrasebook.splits import load_tagged_phrasebook
from harken.data.synthetic.stories import load_stories
from harken.data.text.tagged import Tagged
from harken.errors import UserError

FEW = [
    *("train.max_steps=6", "train.max_minutes=none", "train.checkpoint_every=3", "train.validate_every=4"),
    *("train.batch_tokens=256", "train.precision=float32", "train.device=cpu", "train.workers=1", "train.log_every=2"),
    *("train.warmup_steps=2", "train.learning_rate=1e-3", "train.average=0.9", "train.label_smoothing=0.1"),
]
SMALL = ["model.width=16", "model.layers=1", "model.heads=2", "model.feedforward=16", "data.corpus=none"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    pairs = load_phrasebook(train=400).train
    (folder / "a.en").write_text("\n".join(pair.source for pair in pairs))
    (folder / "a.fr").write_text("\n".join(pair.target for pair in pairs))
    tagged = ["".join(f"{word}\t{tag}\n" for word, tag in zip(*one, strict=True)) for one in tagged_sentences()]
    (folder / "a.conll").write_text("\n".join(tagged))
    (folder / "a.jsonl").write_text(
        "\n".join(json.dumps({"text": a, "label": b}) for a, b in make_splits(200, 1).train)
    )
    asked = [
        {"facts": one.facts, "question": one.question, "answer": one.answer} for one in load_stories(train=200).train
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, asked)))
    return folder


def tagged_sentences() -> list[Tagged]:
    return load_tagged_phrasebook(1, 200)["train"]


def overrides(job: str, text: Path) -> list[str]:
    if job == "classify":
        narrow = ["model.width=8", "model.embedding=8", "classifier.members=1", "data.size=none"]
        return [*FEW, *narrow, "data.corpus=none", f"data.train={text / 'a.jsonl'}"]
    if job == "tag":
        narrow = ["model.width=8", "model.embedding=8", "words.character_width=8"]
        return [*FEW, *narrow, "data.corpus=none", f"data.train={text / 'a.conll'}"]
    if job == "answer":
        few = [one for one in FEW if "batch_tokens" not in one]
        return [
            *few,
            "train.batch_tokens=16",
            "data.corpus=none",
            "data.size=none",
            f"data.train={text / 'questions.jsonl'}",
        ]
    if job == "translate":
        files = [f"data.source={text / 'a.en'}", f"data.target={text / 'a.fr'}", "data.valid_size=20"]
        return [*FEW, *SMALL, *files, "tokenizer.kind=word", "train.validate_sentences=4"]
    if job == "language":
        narrow = ["model.width=16", "model.embedding=16", "model.layers=1", "data.chunk=8"]
        return [*FEW, *narrow, "data.corpus=none", f"data.train={text / 'a.en'}"]
    if job == "elmo":
        narrow = ["model.width=8", "model.layers=1", "data.max_tokens=6"]
        return [*FEW, *narrow, "data.corpus=none", f"data.train={text / 'a.en'}"]
    return [*FEW, *SMALL, f"data.train={text / 'a.en'}"]


RECIPES = {
    "translate": "phrasebook-transformer",
    "language": "phrasebook-language",
    "masked": "phrasebook-masked",
    "elmo": "phrasebook-elmo",
    "classify": "opinions-classify",
    "tag": "phrasebook-tag",
    "answer": "stories-answer",
}


@pytest.mark.parametrize(
    "job",
    [job if job in ("translate", "classify", "tag") else pytest.param(job, marks=pytest.mark.slow) for job in RECIPES],
)
def test_prepared_equals_in_memory_and_resumed_equals_uninterrupted(
    job: str, text: Path, tmp_path: Path, ends_the_same: Callable[..., Any]
) -> None:
    said, whole = overrides(job, text), tmp_path / "in memory"
    harken.train(RECIPES[job], whole, overrides=said, progress=False)
    ends_the_same(RECIPES[job], [*said, f"data.prepared={tmp_path / 'prepared'}"], at=4, whole=whole)
    one, other = (json.loads((folder / "data.json").read_text()) for folder in (whole, tmp_path / "cut"))
    assert one["fingerprint"] == other["fingerprint"] and one["parts"] == other["parts"]
    entries = [line for line in (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines() if '"train"' in line]
    assert all(0 <= json.loads(line)["data_wait"] < 1 for line in entries) and entries


def test_changed_text_is_noticed_on_resuming(text: Path, tmp_path: Path) -> None:
    for name in ("a.en", "a.fr"):
        (tmp_path / name).write_text((text / name).read_text())
    said = [*overrides("translate", tmp_path), f"data.prepared={tmp_path / 'prepared'}"]
    harken.train(RECIPES["translate"], tmp_path / "run", overrides=said, progress=False)
    (tmp_path / "a.en").write_text((text / "a.en").read_text() + "\none more line")
    with pytest.raises(UserError, match=r"a\.en .*has 401 lines where the run was started on 400"):
        harken.train(RECIPES["translate"], tmp_path / "run", overrides=said, resume=True, progress=False)
