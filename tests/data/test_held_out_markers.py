"""Every line has a word of its own: what a job learns before training holds the words of its training part alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harken.data.images.caption_table import read_caption_corpus
from harken.data.strokes.corpus import read_strokes_corpus
from harken.data.text.labelled_splits import read_splits
from harken.data.text.parallel import read_corpus as read_pairs
from harken.data.text.texts import read_line_splits, read_texts
from harken.recipe import load_recipe
from harken.tasks.answer.sources import read_questions
from harken.tasks.registry import job_of
from harken.tasks.tag.corpus import read_corpus as read_tagged

COUNT = 60
MARKER = re.compile("mark[a-z]{2}")


def marker(number: int) -> str:
    return f"mark{chr(97 + number // 26)}{chr(97 + number % 26)}"


def pairs(folder: Path) -> str:
    (folder / "own.tsv").write_text("".join(f"go {marker(n)} now\tva {marker(n)}\n" for n in range(COUNT)))
    return f"data.source={folder / 'own.tsv'}"


def labelled(folder: Path) -> str:
    (folder / "own.csv").write_text("text,label\n" + "".join(f"so {marker(n)} is,{n % 2}\n" for n in range(COUNT)))
    return f"data.train={folder / 'own.csv'}"


def tagged(folder: Path) -> str:
    (folder / "own.conll").write_text("".join(f"the\tDET\n{marker(n)}\tNOUN\n\n" for n in range(COUNT)))
    return f"data.train={folder / 'own.conll'}"


def lines(folder: Path) -> str:
    (folder / "own.txt").write_text("".join(f"here is one {marker(n)} more\n" for n in range(COUNT)))
    return f"data.train={folder / 'own.txt'}"


def questions(folder: Path) -> str:
    rows = [{"facts": [f"Ann has {marker(n)}."], "question": "Who?", "answer": "Ann"} for n in range(COUNT)]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"data.train={folder / 'own.jsonl'}"


def pictures(folder: Path) -> str:
    for number in range(COUNT):
        Image.fromarray(np.full((16, 16, 3), number, np.uint8)).save(folder / f"{number}.png")
    rows = "".join(f"{number}.png,a {marker(number)}\n" for number in range(COUNT))
    (folder / "own.csv").write_text("image,caption\n" + rows)
    return f"data.train={folder / 'own.csv'}"


Case = tuple[str, Callable[[Path], str], list[str], Callable[[Any], Any]]
CASES: list[Case] = [
    ("phrasebook-attention", pairs, ["tokenizer.kind=word", "data.test_size=0.1"], lambda data: read_pairs(data).train),
    ("opinions-classify", labelled, ["tokenizer.kind=word", "data.test_size=8"], lambda data: read_splits(data).train),
    ("phrasebook-tag", tagged, ["data.valid_size=0.2"], lambda data: read_tagged(data).train),
    ("phrasebook-language", lines, ["tokenizer.kind=word"], lambda data: read_texts(data).train),
    (
        "phrasebook-masked",
        lines,
        ["tokenizer.kind=word", "tokenizer.min_count=1"],
        lambda data: read_line_splits(data).train,
    ),
    ("phrasebook-elmo", lines, ["words.min_count=1"], lambda data: read_line_splits(data).train),
    ("stories-answer", questions, [], lambda data: read_questions(data).train),
    (
        "scenes-caption",
        pictures,
        ["tokenizer.kind=word", "data.image_size=16", "data.test_size=5"],
        lambda data: [example.captions for example in read_caption_corpus(data).train],
    ),
]


@pytest.mark.parametrize(("name", "write", "overrides", "train"), CASES, ids=[case[0] for case in CASES])
def test_words_of_held_out_rows_are_not_learnt(
    tmp_path: Path, name: str, write: Callable[[Path], str], overrides: list[str], train: Callable[[Any], Any]
) -> None:
    recipe = load_recipe(name, ["data.corpus=none", write(tmp_path), *overrides])
    job_of(recipe.task).prepare(recipe, tmp_path / "run", False)
    learnt = set(MARKER.findall("".join(path.read_text() for path in (tmp_path / "run").iterdir())))
    trained = set(MARKER.findall(" ".join(map(str, train(recipe.data)))))
    assert learnt == trained and 30 < len(trained) < COUNT


def test_characters_of_held_out_drawings_and_their_scale_are_not_learnt(tmp_path: Path) -> None:
    rows = [
        {"strokes": [[[0, 0], [number + 1, 1]]], "text": chr(0x4E00 + number)}
        for number in range(COUNT)
    ]  # fmt: skip
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = load_recipe("penfont-handwriting", ["data.corpus=none", f"data.train={tmp_path / 'own.jsonl'}"])
    prepared = job_of("handwriting").prepare(recipe, tmp_path / "run", False)
    corpus = read_strokes_corpus(recipe.data)
    learnt = json.loads((tmp_path / "run" / "tokenizer.json").read_text())
    characters = {drawing.text for drawing in corpus.splits["train"]}
    assert {one for one in json.dumps(learnt, ensure_ascii=False) if ord(one) >= 0x4E00} == characters
    moves = np.concatenate([drawing.points[:, :2] for drawing in corpus.splits["train"]])
    assert float(prepared.task.deviation) == pytest.approx(float(np.sqrt(np.square(moves).mean())), rel=1e-6)
