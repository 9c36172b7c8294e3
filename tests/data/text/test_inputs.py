"""Inputs of files in the format of the training data: labels, headers and other columns are never part of a text."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import pytest

from harken.data.text.config import DataConfig
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.inputs import evaluated_pairs, labelled_inputs, sentence_inputs, source_inputs
from harken.data.text.labelled_splits import read_files, read_splits
from harken.errors import UserError
from harken.tasks.tag.corpus import read_other_files
from harken.tasks.tag.recipe import TagDataConfig

CSV = 'id,label,text\n1,good,"what, a film"\n2,bad,so dull\n'


def write(path: Path, content: str) -> Path:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_table_gives_its_text_column_alone(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, CSV)
    found = labelled_inputs(path, ExamplesConfig(train="train.csv"), ["good", "bad"])
    assert list(found.values) == ["what, a film", "so dull"]
    assert found.note == f"reading {name} as a table: texts from the column text"
    assert list(labelled_inputs(path, ExamplesConfig(), [], "lines").values) == CSV.splitlines()
    assert list(labelled_inputs(path, ExamplesConfig(), [], column="id").values) == ["1", "2"]
    with pytest.raises(UserError, match=r"no column 'review'; it has 'id', 'label', 'text' \(name it with --text-col"):
        labelled_inputs(path, ExamplesConfig(text_column="review"), [])


def test_quotes_headers_and_columns_are_those_of_training(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", '1\t"Hi" she said\n0\tno "end\n')
    data = ExamplesConfig(train="t.tsv", header=False, quotes=False, text_column="1", label_column="0")
    assert list(labelled_inputs(path, data, ["0", "1"]).values) == ['"Hi" she said', 'no "end']
    data = ExamplesConfig(train="t.csv", test={"files": "news.csv", "text_column": ["title", "body"]})
    path = write(tmp_path / "news.csv", "title,body\nOil,up again\n")
    assert list(labelled_inputs(path, data, []).values) == ["Oil up again"]


def test_a_file_like_the_training_file_is_told_from_plain_text(tmp_path: Path) -> None:
    data = ExamplesConfig(train="train.txt", label_until=":")
    labelled = write(tmp_path / "a.txt", "DESC:manner How did it go ?\nHUM:ind Who was it ?\n")
    plain = write(tmp_path / "b.txt", "DESC:manner How did it go ?\nWho was it ?\n")
    assert list(labelled_inputs(labelled, data, ["DESC", "HUM"]).values) == ["How did it go ?", "Who was it ?"]
    assert labelled_inputs(plain, data, ["DESC", "HUM"]).note is None
    trees = write(tmp_path / "c.txt", "(3 (2 a) (3 film))\n")
    assert list(labelled_inputs(trees, ExamplesConfig(train="t.txt", format="trees"), ["3"]).values) == ["a film"]
    with pytest.raises(UserError, match="--format tabel is not known here; did you mean table"):
        labelled_inputs(plain, data, [], "tabel")


def test_missing_labels_and_texts_are_counted_and_are_no_class(tmp_path: Path) -> None:
    rows = "".join(f"text {number},{'ab'[number % 2]}\n" for number in range(30))
    path = write(tmp_path / "a.csv", f"text,label\n{rows}no label,\n ,a\nnor here,  \n")
    splits = read_splits(ExamplesConfig(train=str(path), valid_size=5))
    assert set(splits.train.labels) == {"a", "b"}
    assert splits.skipped == {"no label": 2, "no text": 1}
    path = write(tmp_path / "a.jsonl", '{"text": "x", "label": "a"}\n{"text": null, "label": "a"}\n')
    found, notes = read_files(ExamplesConfig(), [path])
    assert list(found) == [("x", "a")] and notes == [f"{path}: skipped 1: no text"]
    with pytest.raises(UserError, match="no example with a label and a text"):
        read_files(ExamplesConfig(), [write(tmp_path / "b.csv", "text,label\nx,\n")])


def test_labels_of_another_format_are_said_or_refused(tmp_path: Path) -> None:
    names = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
    data = ExamplesConfig(train="trees.txt", format="trees", names=names)
    path = write(tmp_path / "dev.txt", "0\tso dull\n1\twhat a film\n")
    with pytest.raises(UserError, match=r"the labels 0, 1 all mean 'negative' .* --names 0=negative"):
        read_files(data, [path])
    found, notes = read_files(data, [path], "prefix", names={"0": "negative", "1": "positive"})
    assert list(found) == [("so dull", "negative"), ("what a film", "positive")] and notes == []
    path = write(tmp_path / "dev.csv", "text,label\nso dull,negative\ngreat,4\n")
    found, notes = read_files(data, [path])
    assert found.labels == ["negative", "positive"]
    said = "4 as positive, negative as negative"
    assert notes == [f"{path}: labels are read by data.names: {said}; --names changes that"]


PAIRS = [("Go.", "Va !"), ("Hi.", "Salut !")]


def test_pairs_come_from_every_format(tmp_path: Path) -> None:
    data = DataConfig(train="pairs.txt", source_column=1, target_column=0)
    files: list[list[Path]] = [
        [write(tmp_path / "pairs.txt", "Va !\tGo.\nSalut !\tHi.\n")],
        [write(tmp_path / "a.jsonl", '{"source": "Go.", "target": "Va !"}\n{"source": "Hi.", "target": "Salut !"}\n')],
        [write(tmp_path / "a.csv", 'source;target\n"Go.";"Va !"\nHi.;Salut !\n')],
        [write(tmp_path / "a.json", '[{"source": "Go.", "target": "Va !"}, {"source": "Hi.", "target": "Salut !"}]')],
        [write(tmp_path / "a.en", "Go.\nHi.\n"), write(tmp_path / "a.fr", "Va !\nSalut !\n")],
    ]
    for chosen in files:
        found, notes = evaluated_pairs(data, chosen)
        assert [(pair.source, pair.target) for pair in found] == PAIRS and notes == []
    named = write(tmp_path / "b.tsv", "fr\ten\nVa !\tGo.\n\tHi.\n")
    found, notes = evaluated_pairs(data, [named], source_column="en", target_column="fr")
    assert [(pair.source, pair.target) for pair in found] == PAIRS[:1] and notes == [f"{named}: skipped 1: empty side"]
    with pytest.raises(UserError, match="3 files are given"):
        evaluated_pairs(data, [*files[-1], named])


def test_pairs_of_a_translation_memory_are_those_of_the_languages_of_training(tmp_path: Path) -> None:
    """A model of memory.tmx is trained on its units as JSON Lines; it is scored on a memory as it is."""
    memory, unit = (
        tmp_path / "new.tmx",
        '<tu><tuv xml:lang="{}"><seg>{}</seg></tuv><tuv xml:lang="{}"><seg>{}</seg></tuv></tu>',
    )
    units = unit.format("fr", "un chat", "en-GB", "a cat") + unit.format("de", "ein Hund", "en", "a dog")
    memory.write_text(f"<tmx><body>{units}</body></tmx>")
    data = DataConfig(source="memory.jsonl", format="jsonl", source_column="en-us", target_column="fr-fr")
    pairs, notes = evaluated_pairs(data, [memory])
    assert [(pair.source, pair.target) for pair in pairs] == [("a cat", "un chat")] and "skipped 1" in notes[0]
    second = evaluated_pairs(DataConfig(source="a.tsv"), [memory])[0][1]
    assert (second.source, second.target) == ("ein Hund", "a dog")


def test_sources_come_from_the_source_column(tmp_path: Path) -> None:
    data = DataConfig(train="pairs.txt", source_column=1, target_column=0)
    tabbed = write(tmp_path / "new.txt", "Va !\tGo.\nSalut !\tHi.\n")
    assert list(source_inputs(tabbed, data).values) == ["Go.", "Hi."]
    assert source_inputs(write(tmp_path / "plain.txt", "Go.\nHi.\n"), data).note is None
    sources = write(tmp_path / "only.jsonl", '{"source": "Go."}\n\n')
    assert list(source_inputs(sources, data).values) == ["Go.", ""]
    table = write(tmp_path / "more.csv", 'en,fr\n"Go, ""now"".",Va !\n\n')
    inputs = source_inputs(table, DataConfig(train="pairs.tsv", source_column="en", target_column="fr"))
    assert (
        list(inputs.values) == ['Go, "now".', ""]
        and inputs.note == "reading more.csv as table: sources from the column en"
    )
    assert source_inputs(tabbed, DataConfig(corpus="phrasebook")).note is None  # it was trained on no file of pairs


CONLLU = "# text\n1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def test_sentences_come_without_their_tags(tmp_path: Path) -> None:
    data = TagDataConfig(train="train.conllu", tag_column="xpos")
    contents = {"a.conllu": CONLLU, "a.conll": "the\tDET\ncat\tNOUN\n", "a.jsonl": '{"tokens": ["the", "cat"]}\n'}
    for name, content in contents.items():
        assert list(sentence_inputs(write(tmp_path / name, content), data).values) == [["the", "cat"]], name
    assert sentence_inputs(write(tmp_path / "a.txt", "the cat\n"), data).note is None
    [tagged] = read_other_files(data, [tmp_path / "a.conll"])  # tag_column is for CoNLL-U alone
    assert tagged.words == ("the", "cat") and tagged.tags == ("DET", "NOUN")
    [tagged] = read_other_files(data, [tmp_path / "a.conllu"], tag_column="deprel")
    assert tagged.tags == ("det", "root")


@pytest.mark.parametrize(
    ("recipe", "older", "current"),
    [
        ("imdb-classify", {"label": "3"}, {"label_column": "3"}),
        (
            "series-forecast",
            {"file": str(Path("a.csv").absolute()), "valid": 0.1, "target": "y"},
            {"train": str(Path("a.csv").absolute()), "valid_size": 0.1},
        ),
        ("shakespeare-characters", {"valid_share": 0.1}, {"valid_size": 0.1}),
        ("tones-transcribe", {"speaker": "who"}, {"speaker_column": "who"}),
    ],
)
def test_older_keys_are_accepted_with_a_note(recipe: str, older: dict[str, Any], current: dict[str, Any]) -> None:
    from harken.recipe import load_recipe

    with pytest.warns(FutureWarning, match=f"data.{next(iter(older))} is now called data.{next(iter(current))}"):
        found = load_recipe(recipe, [f"data.{key}={value!r}" for key, value in older.items()], with_data=False)
    for key, value in current.items():
        assert getattr(found.data, key) == value
    for key, value in older.items():
        assert getattr(found.data, key) == value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        type(found).model_validate(found.model_dump())


def test_a_missing_answer_in_other_tables_is_refused(tmp_path: Path) -> None:
    from harken.data.audio.utterances import read_recordings
    from harken.data.images.caption_table import read_captions

    sounds = write(tmp_path / "sounds.jsonl", '{"audio": "a.wav", "text": "one"}\n{"audio": "b.wav", "text": null}\n')
    with pytest.raises(UserError, match="row 2 has no text in its column 'text'"):
        read_recordings(sounds, "audio", "text", 8000)
    (tmp_path / "a.png").write_bytes(b"")
    pictures = write(tmp_path / "pictures.jsonl", '{"image": "a.png", "caption": null}\n')
    with pytest.raises(UserError, match="line 1 has an empty caption"):
        read_captions(pictures, None, 8)
    tags = write(tmp_path / "tags.jsonl", '{"tokens": ["a", "b"], "tags": ["X", null]}\n')
    with pytest.raises(UserError, match="sentence 1 has a word without a tag"):
        read_other_files(TagDataConfig(), [tags])
