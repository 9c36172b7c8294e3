"""Streamed labelled texts, tagged sentences and questions equal those that are read into memory."""

import csv
import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.data.prepared import blocks
from harken.data.prepared.disk_rows import DiskRows, Numbering
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.labelled_splits import read_splits
from harken.data.text.questions import DistinctSentences, QuestionIds
from harken.data.tokenizers.base import train_tokenizer
from harken.errors import UserError
from harken.metrics.baselines import fit_label_baseline
from harken.tasks.answer.answerer import Answers
from harken.tasks.answer.recipe import AnswerDataConfig
from harken.tasks.answer.sources import read_questions
from harken.tasks.answer.task import AnswerIds
from harken.tasks.tag.corpus import read_corpus
from harken.tasks.tag.job import baseline_of
from harken.tasks.tag.recipe import TagDataConfig
from harken.tasks.words import Vocabulary, WordRows

WORDS = ["the", "cat", "Cat", "sat", "on", 'a "quoted"', "mat, or", "Zürich", "über\nmorgen", "<br>", "\ud800"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file has many blocks, read by two processes."""
    monkeypatch.setattr(blocks.read_blocks, "__defaults__", (blocks.MAX_LINE_BYTES, 700))
    monkeypatch.setattr("harken.worker_pool.available_cores", lambda: 2)


def phrases(count: int, seed: int, words: list[str]) -> list[str]:
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(words, k=chosen.randint(1, 4))) for _ in range(count)]


def labelled_file(folder: Path, form: str) -> Path:
    """Labels A:x, A:y, B:x ..., some rows without a label or a text."""
    labels = [random.Random(seed).choice(["A:x", "A:y", "B:x", "B:z", "C:x", ""]) for seed in range(300)]
    texts = ["" if number % 50 == 7 else text for number, text in enumerate(phrases(300, 1, WORDS[:-1]))]
    rows = list(zip(texts, labels, strict=True))
    if form == "csv":
        with gzip.open(folder / "all.csv.gz", "wt", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
        return folder / "all.csv.gz"
    if form == "jsonl":
        rows[3] = ("half of a pair \ud800", "B:x")
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
        (folder / "all.jsonl").write_text("\n".join(lines))
        return folder / "all.jsonl"
    if form == "prefix":
        lines = [f"__label__{label or 'C:x'} {text or 'nothing'}".replace("\n", " ") for text, label in rows]
        (folder / "all.txt").write_text("\n".join(lines), encoding="utf-8")
        return folder / "all.txt"
    (folder / "classes").mkdir()
    for name in ("A:x", "B:x"):
        own = [text.replace("\n", " ") for text, label in rows if label == name]
        (folder / "classes" / f"{name}.txt").write_text("\n".join(own), encoding="utf-8")
    return folder / "classes"


CASES: dict[str, dict[str, Any]] = {
    "csv": {"lowercase": True, "drop_tags": True, "label_until": ":"},
    "jsonl": {"valid_size": 20, "test_size": 0.2},
    "prefix": {"label_until": ":", "names": {"A": "first", "B": "second"}, "lowercase": "mark"},
    "folder": {},
}


@pytest.mark.parametrize("form", CASES)
def test_labelled_texts(form: str, tmp_path: Path) -> None:
    said = {"train": str(labelled_file(tmp_path, form)), **CASES[form]}
    inside = read_splits(ExamplesConfig(**said))
    streamed = read_splits(ExamplesConfig(**said, prepared=str(tmp_path / "prepared")))
    train, other = inside.train, streamed.train
    assert isinstance(other.rows, DiskRows) and len(other) == len(train)
    assert list(other) == list(train) and list(other.values) == train.values
    assert (other.fine and list(other.fine)) == train.fine
    assert list(other.label_counts().items()) == list(train.label_counts().items())
    assert list(streamed.valid) == list(inside.valid) and streamed.tests.keys() == inside.tests.keys()
    assert streamed.digests() == inside.digests() and streamed.skipped == inside.skipped
    one, many = (fit_label_baseline(part.values, part.labels) for part in (train, other))
    assert one[1] == many[1] and one[0].predict(inside.valid.values) == many[0].predict(inside.valid.values)


def test_held_out_texts_are_left_out_and_errors_are_the_same(tmp_path: Path) -> None:
    path = labelled_file(tmp_path, "prefix")
    (tmp_path / "dev.txt").write_text("\n".join(path.read_text().splitlines()[40:60]))
    said = {"train": str(path), "valid": str(tmp_path / "dev.txt"), "test_size": 10}
    inside, streamed = (
        read_splits(ExamplesConfig(**said, **more)) for more in ({}, {"prepared": str(tmp_path / "prepared")})
    )
    assert inside.skipped["also in the validation or test data"] > 0
    assert list(streamed.train) == list(inside.train) and streamed.skipped == inside.skipped
    for wrong in ({"names": {"X": "y"}}, {"train": str(path), "format": "table", "text_column": "0", "header": False}):
        with pytest.raises(UserError) as first:
            read_splits(ExamplesConfig(**{**said, **wrong}))
        with pytest.raises(UserError) as second:
            read_splits(ExamplesConfig(**{**said, **wrong}, prepared=str(tmp_path / "prepared")))
        assert str(second.value) == str(first.value)


@pytest.mark.parametrize("form", ["conll", "jsonl"])
def test_tagged_sentences(form: str, tmp_path: Path) -> None:
    chosen, words = random.Random(4), [word for word in WORDS if " " not in word and "\n" not in word]
    sentences = [[chosen.choice(words[:-1]) for _ in range(chosen.randint(1, 6))] for _ in range(300)]
    tags = [[chosen.choice(["DET", "NOUN", "VERB"]) for _ in words] for words in sentences]
    path = tmp_path / f"all.{form}"
    if form == "jsonl":
        rows = [{"tokens": ["two words", *a], "tags": ["X", *b]} for a, b in zip(sentences, tags, strict=True)]
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        rows = ["".join(f"{a}\t{b}\n" for a, b in zip(*one, strict=True)) for one in zip(sentences, tags, strict=True)]
        path.write_text("\n\n".join(rows), encoding="utf-8")
    inside, streamed = (
        read_corpus(TagDataConfig(train=str(path), **more)) for more in ({}, {"prepared": str(tmp_path / "prepared")})
    )
    assert isinstance(streamed.train, DiskRows) and list(streamed.train) == inside.train
    assert streamed.digests() == inside.digests() and streamed.skipped == inside.skipped
    one, other = (Vocabulary.learn(part.train, lowercase=True, min_count=2) for part in (inside, streamed))
    assert one == other
    rows, (mapped, labels) = WordRows.of([x.words for x in inside.train], one), WordRows.of_tagged(streamed.train, one)
    some = np.array([5, 200, 3, 77])
    batch, other_batch = rows.gather(some)[0], mapped.gather(some)[0]
    for name in ("words", "spelled", "spellings"):
        assert getattr(batch, name).tolist() == getattr(other_batch, name).tolist()
    assert labels.gather([7])[0].tolist() == [one.tag_ids(inside.train[7].tags)]
    parts = {"valid": inside.valid}
    assert baseline_of(inside.train, parts, "accuracy") == baseline_of(streamed.train, parts, "accuracy")


@pytest.mark.parametrize("form", ["txt", "jsonl"])
@pytest.mark.parametrize("kind", ["classes", "set", "pointer"])
def test_questions(form: str, kind: Any, tmp_path: Path) -> None:
    chosen, lines, rows = random.Random(9), [], []
    for _ in range(60):
        facts: list[str] = []
        for _ in range(chosen.randint(1, 4)):
            who, where = chosen.choice(["Anna", "Ben"]), chosen.choice(["hall", "garden", "Zürich"])
            facts.append(f"{who} went to the {where}.")
            lines.append(f"{len(facts)} {facts[-1]}")
            question, answer = f"Where is {who}?", where if kind != "set" else f"{where},bed"
            rows.append({"facts": list(facts), "question": question, "answer": answer})
        lines.append(f"{len(facts) + 1} {question}\t{answer}\t{len(facts)}")
    path = tmp_path / f"all.{form}"
    path.write_text("\n".join(lines if form == "txt" else map(json.dumps, rows)), encoding="utf-8")
    inside, streamed = (
        read_questions(AnswerDataConfig(train=str(path), **more))
        for more in ({}, {"prepared": str(tmp_path / "prepared")})
    )
    assert isinstance(streamed.train, DiskRows) and list(streamed.train) == inside.train
    assert streamed.valid == inside.valid and streamed.digests() == inside.digests()
    assert streamed.skipped == inside.skipped
    assert list(DistinctSentences(streamed.train)) == list(DistinctSentences(inside.train))
    tokenizer = train_tokenizer("word", DistinctSentences(inside.train), 100)
    answers, some = Answers.learn((one.answer for one in inside.train), kind), np.array([11, 0, 4])
    ids, mapped = (QuestionIds(part.train, tokenizer, max_facts=2) for part in (inside, streamed))
    assert mapped.lengths.tolist() == ids.lengths.tolist()
    for a, b in zip(ids.batch(some), mapped.batch(some), strict=True):
        assert a.tolist() == b.tolist()
    wanted = [AnswerIds(part.train, answers, tokenizer).gather(some).tolist() for part in (inside, streamed)]
    assert wanted[0] == wanted[1]


def test_a_second_start_reads_no_text_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = ExamplesConfig(train=str(labelled_file(tmp_path, "csv")), prepared=str(tmp_path / "prepared"))
    before = read_splits(said)
    for name in ("harken.data.prepared.scan.read_blocks", "harken.data.text.labelled_splits._examples"):
        monkeypatch.setattr(name, lambda *args: pytest.fail("the text is read again"))
    again = read_splits(said)
    assert again.digests() == before.digests() and again.train.label_counts() == before.train.label_counts()


def test_numbers_are_those_of_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.data.prepared.disk_rows.RECENT", 3)
    known, expected, chosen = Numbering(first=2), dict[int, int](), np.random.default_rng(1)
    for _ in range(50):
        some = np.unique(chosen.integers(0, 60, 7).astype(np.uint64))
        wanted = [expected.setdefault(int(one), 2 + len(expected)) for one in some]
        assert known.number(some)[0].tolist() == wanted


def test_ids_beyond_16_bits_are_not_taken_for_references(tmp_path: Path) -> None:
    """Words of a vocabulary above 65,536 have the type of references to spellings, but are none."""
    path = tmp_path / "all.conll"
    path.write_text("\n\n".join(f"w{number % 40}\tX" for number in range(3000)), encoding="utf-8")
    train = read_corpus(TagDataConfig(train=str(path), prepared=str(tmp_path / "prepared"))).train
    names = [f"w{number}" for number in range(1 << 16)]
    known = Vocabulary(["X"], names, list("w0123456789"))
    rows, _ = WordRows.of_tagged(train, known)
    assert rows.words.flat.dtype == np.uint32
    assert rows.words.flat.tolist() == [known.word_ids(sentence.words)[0] for sentence in train]
