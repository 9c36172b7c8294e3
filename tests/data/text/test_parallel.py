import gzip
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import ValidationError

from harken.data.text.config import DataConfig, TokenizerConfig
from harken.data.text.pairs import Corpus, Pair
from harken.data.text.parallel import read_corpus
from harken.errors import UserError

REMEDY = "change the size, give more examples, or name files for each part"
PAIRS = [(f"source {i}", f"target {i}") for i in range(40)]


def write(path: Path, text: str) -> str:
    opener: Callable = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wb") as file:
        file.write(text.encode())
    return str(path)


def write_lines(path: Path, lines: list[str]) -> str:
    return write(path, "".join(f"{line}\n" for line in lines))


def both(folder: Path, pairs: list[tuple[str, str]], name: str = "train", ending: str = "") -> dict[str, str]:
    return {
        "source": write_lines(folder / f"{name}.en{ending}", [source for source, _ in pairs]),
        "target": write_lines(folder / f"{name}.fr{ending}", [target for _, target in pairs]),
    }


def texts(pairs: object) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]  # type: ignore[attr-defined]


def everything(corpus: Corpus) -> list[tuple[str, str]]:
    return sorted(texts([*corpus.train, *corpus.valid, *(pair for test in corpus.tests.values() for pair in test)]))


def refused(**settings: object) -> str:
    with pytest.raises(UserError) as caught:
        read_corpus(DataConfig(**settings))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_aligned_files(tmp_path: Path, ending: str) -> None:
    corpus = read_corpus(DataConfig(**both(tmp_path, PAIRS, ending=ending)))
    assert everything(corpus) == sorted(PAIRS)
    assert len(corpus.valid) == 4  # 5%: each pair by its own hash
    assert corpus.tests == {} and corpus.skipped == {}
    assert (corpus.name, corpus.source_language, corpus.target_language) == ("train", "source", "target")


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_tsv(tmp_path: Path, ending: str) -> None:
    path = write_lines(tmp_path / f"pairs.tsv{ending}", [f"{i}\t{s}\t{t}" for i, (s, t) in enumerate(PAIRS)])
    assert everything(read_corpus(DataConfig(source=path, source_column=2, target_column=1))) == sorted(
        (target, source) for source, target in PAIRS
    )


def test_tsv_with_header_and_several_files(tmp_path: Path) -> None:
    paths = [
        write_lines(tmp_path / f"{part}.tsv", ["id\ten\tfr", *(f"x\t{s}\t{t}" for s, t in PAIRS[part::2])])
        for part in (0, 1)
    ]
    corpus = read_corpus(DataConfig(source=paths, header=True, source_column="en", target_column="fr"))
    assert everything(corpus) == sorted(PAIRS)
    message = refused(source=paths, header=True, source_column="de", target_column="fr")
    assert message == f'{paths[0]}, line 1 has no column "de": set data.source_column to one of id, en, fr.'
    named = read_corpus(DataConfig(source=paths, source_column="en", target_column="fr"))  # the header is recognised
    assert everything(named) == sorted(PAIRS)
    message = refused(source=paths, header=False, source_column="en")
    assert "does not have it: give a number from 0" in message


def test_txt_without_target_is_tsv(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "fra.txt.xz", [f"{s}\t{t}\tCC-BY" for s, t in PAIRS])
    assert everything(read_corpus(DataConfig(source=path))) == sorted(PAIRS)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_jsonl(tmp_path: Path, ending: str) -> None:
    path = write_lines(
        tmp_path / f"pairs.jsonl{ending}", [json.dumps({"translation": {"en": s, "fr": t}}) for s, t in PAIRS]
    )
    config = DataConfig(source=path, source_column="translation.en", target_column="translation.fr")
    assert everything(read_corpus(config)) == sorted(PAIRS)


def test_several_aligned_files_and_given_splits(tmp_path: Path) -> None:
    first, second = both(tmp_path, PAIRS[:10], "a"), both(tmp_path, PAIRS[10:20], "b", ".gz")
    config = DataConfig(
        source=[first["source"], second["source"]],
        target=[first["target"], second["target"]],
        valid=both(tmp_path, PAIRS[20:25], "valid"),
        test={"near": both(tmp_path, PAIRS[25:30], "near"), "far": both(tmp_path, PAIRS[30:], "far")},
        source_language="en",
        name="mine",
    )
    corpus = read_corpus(config)
    assert texts(corpus.train) == PAIRS[:20]
    assert texts(corpus.valid) == PAIRS[20:25]
    assert {name: texts(pairs) for name, pairs in corpus.tests.items()} == {"near": PAIRS[25:30], "far": PAIRS[30:]}
    assert (corpus.name, corpus.source_language, corpus.target_language) == ("mine", "en", "target")


def test_one_test_table_is_called_test(tmp_path: Path) -> None:
    config = DataConfig(**both(tmp_path, PAIRS), test=both(tmp_path, PAIRS[:3], "t"))
    assert texts(read_corpus(config).tests["test"]) == PAIRS[:3]
    assert DataConfig(**config.model_dump()) == config


def test_skips_are_counted(tmp_path: Path) -> None:
    pairs = [*PAIRS, ("", "only target"), ("only source", "  "), ("a b c d", "x"), ("y" * 31, "x"), (" S ", "t\u00a0u")]
    valid = both(tmp_path, [("e f g h i", "j"), ("", "k")], "valid")
    corpus = read_corpus(DataConfig(**both(tmp_path, pairs), valid=valid, max_words=3, max_characters=30))
    assert corpus.skipped == {
        "train: empty side": 2,
        "train: more than 3 words": 1,
        "train: more than 30 characters": 1,
        "valid: empty side": 1,
    }
    assert texts(corpus.train) == [*PAIRS, ("S", "t\u00a0u")]
    assert texts(corpus.valid) == [("e f g h i", "j")]  # limits are for training text alone
    kept = read_corpus(DataConfig(**both(tmp_path, pairs), valid=valid, skip_empty=False))
    assert ("", "only target") in texts(kept.train)


def test_blank_lines_of_tsv_and_jsonl_are_skipped(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", "a\tb\n\nc\td\n\n")
    jsonl = write(tmp_path / "a.jsonl", '{"source": "a", "target": "b"}\n\n{"source": "c", "target": "d"}\n \n')
    for path in (tsv, jsonl):
        corpus = read_corpus(DataConfig(source=path))
        assert everything(corpus) == [("a", "b"), ("c", "d")]
        assert corpus.skipped == {"train: empty side": 2}


def test_lowercase(tmp_path: Path) -> None:
    corpus = read_corpus(DataConfig(**both(tmp_path, [("An ÉTÉ", "Ein IÄ")] * 2 + [("B", "C")]), lowercase=True))
    assert set(everything(corpus)) == {("an été", "ein iä"), ("b", "c")}


def test_folder_like_multi30k(tmp_path: Path) -> None:
    for name, lines in {"train": 5, "val": 3, "test_b": 2, "test_a": 1}.items():
        for language in ("en", "de"):
            write_lines(tmp_path / f"{name}.{language}.gz", [f"{language} {name} {i}" for i in range(lines)])
    write_lines(tmp_path / "test_c.en", ["only English"])
    corpus = read_corpus(DataConfig(dir=str(tmp_path), pair="de-en"))
    assert (corpus.source_language, corpus.target_language) == ("de", "en")
    assert texts(corpus.train)[4] == ("de train 4", "en train 4")
    assert len(corpus.valid) == 3
    assert {name: len(pairs) for name, pairs in corpus.tests.items()} == {"test_a": 1, "test_b": 2}
    assert refused(dir=str(tmp_path), pair="en-fr") == (
        f"{tmp_path} has no file train.fr (plain, .gz or .xz): data.pair can use de, en."
    )
    assert refused(dir=str(tmp_path)).startswith('data.pair is "": write two languages')
    assert "does not exist: name the folder" in refused(dir=str(tmp_path / "no"), pair="en-de")
    assert "is a file where a folder is wanted" in refused(dir=str(tmp_path / "test_c.en"), pair="en-de")


def test_a_form_may_stand_before_the_language(tmp_path: Path) -> None:
    for language in ("en", "de"):
        for name, lines in (("train", ["a", "b", "c"]), ("val", ["d"]), ("test_2016", ["e", "f"])):
            write_lines(tmp_path / f"{name}.lc.tok.{language}", lines)
    corpus = read_corpus(DataConfig(dir=str(tmp_path), pair="en-de"))
    assert (len(corpus.train), len(corpus.valid), len(corpus.tests["test_2016"])) == (3, 1, 2)
    write_lines(tmp_path / "train.other.en", ["x"])
    assert "has no file train.en" in refused(dir=str(tmp_path), pair="en-de")  # which of two is meant is not known


@pytest.mark.parametrize("name", ["val", "valid", "dev"])
@pytest.mark.parametrize(("present", "missing"), [("en", "de"), ("de", "en")])
def test_half_a_validation_split_is_refused(tmp_path: Path, name: str, present: str, missing: str) -> None:
    for language in ("en", "de"):
        write_lines(tmp_path / f"train.{language}", ["a", "b", "c"])
    write_lines(tmp_path / f"{name}.{present}.gz", ["a"])
    assert refused(dir=str(tmp_path), pair="en-de") == (
        f"{tmp_path} has {name}.{present}.gz but no file {name}.{missing} (plain, .gz or .xz): "
        f"add it, or remove {name}.{present}.gz to validate on pairs split off from training."
    )
    write_lines(tmp_path / f"{name}.{missing}.xz", ["a"])
    assert len(read_corpus(DataConfig(dir=str(tmp_path), pair="en-de")).valid) == 1


def test_unequal_line_counts(tmp_path: Path) -> None:
    files = both(tmp_path, PAIRS)
    write_lines(tmp_path / "train.fr", [target for _, target in PAIRS[:37]])
    message = refused(**files)
    assert message.startswith(f"{files['source']} has 40 lines but {files['target']} has 37, so line 38 has no partner")
    write_lines(tmp_path / "train.en", [])
    assert "has 0 lines but" in refused(**files)


def test_invalid_utf8_in_the_target(tmp_path: Path) -> None:
    files = both(tmp_path, PAIRS)
    Path(files["target"]).write_bytes(b"ok\n\xff\n" + b"x\n" * 38)
    assert refused(**files).startswith(f"{files['target']}, line 2 is not valid UTF-8 (byte 0xff at byte 1")


def test_bad_tsv_and_jsonl_lines(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", "a\tb\nonly one\n")
    assert refused(source=tsv).startswith(f"{tsv}, line 2 has 1 cell, but the first line has 2; fix the line")
    jsonl = tmp_path / "a.jsonl"
    good = '{"source": "a", "target": "b"}\n'
    cases = {
        "{not json}": f"{jsonl}, line 2 is not valid JSON (",
        '["a", "b"]': f"{jsonl}, line 2 is not a JSON object",
        '{"source": "a", "en": 1}': f'{jsonl}, line 2 has no key "target": set data.target_column to one of its keys (',
        '{"source": "a", "target": 7}': f'{jsonl}, line 2 has no text under "target" but 7: write a string there.',
        '{"source": "a", "target": "\\ud800"}': f"{jsonl}, line 2 has half a surrogate pair",
        "[" * 100_000: f"{jsonl}, line 2 is not valid JSON (",
    }
    for line, start in cases.items():
        write(jsonl, good + line + "\n")
        assert refused(source=str(jsonl)).startswith(start)


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    files = both(tmp_path, PAIRS)
    assert refused(source=[files["source"]] * 2, target=files["target"]).startswith(
        "The train split has 2 source files but 1 target files: list them in pairs"
    )
    assert refused(target=files["target"]).startswith("data.target is given without data.source")
    assert refused(source=files["source"], format="text").endswith("but no target: name the target file too.")
    tsv = write(tmp_path / "a.tsv", "a\tb\n")
    assert refused(source=tsv, target=files["target"]).endswith("leave data.target out.")
    assert refused(**files, test={"valid": files}).startswith("data.test.valid has the name of another split")


def test_exactly_one_origin(tmp_path: Path) -> None:
    files = both(tmp_path, PAIRS)
    assert refused(corpus="phrasebook", **files) == (
        "data.corpus and data.source and data.target are both given: keep one of them."
    )
    assert refused().startswith("The recipe names no data: set data.source and data.target to files")
    assert refused(corpus="phrasebok") == (
        'data.corpus is "phrasebok", which is not built in: '
        "use phrasebook, tatoeba, arithmetic, brackets, code, dates or extract."
    )


def test_built_in_corpus_gets_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def load_phrasebook(**settings: object) -> Corpus:
        asked.append(settings)
        return Corpus(
            "phrasebook", "fr", "en", [Pair("Le Chat", "The Cat")], [Pair("A", "B")], {"test": [Pair("C", "D")]}
        )

    stand_in = ModuleType("harken.data.synthetic.phrasebook")
    monkeypatch.setattr(stand_in, "load_phrasebook", load_phrasebook, raising=False)
    monkeypatch.setitem(sys.modules, "harken.data.synthetic.phrasebook", stand_in)
    config = DataConfig(corpus="phrasebook", size=7, direction="fr-en", seed=3)
    assert read_corpus(config).train == [Pair("Le Chat", "The Cat")]
    assert read_corpus(DataConfig(corpus="phrasebook", lowercase=True)).train == [Pair("le chat", "the cat")]
    assert asked == [{"train": 7, "direction": "fr-en", "seed": 3}, {"direction": "en-fr", "seed": 1}]


def test_missing_file_and_folder(tmp_path: Path) -> None:
    files = both(tmp_path, PAIRS, ending=".gz")
    wrong = {"source": str(tmp_path / "train.en"), "target": files["target"]}
    assert refused(**wrong).startswith(f"{wrong['source']} does not exist: did you mean train.en.gz")
    assert "is a folder where a file is wanted" in refused(source=str(tmp_path), target=files["target"])


def test_empty_split(tmp_path: Path) -> None:
    files = both(tmp_path, [("", "a"), ("b c", "d")])
    message = refused(**files, max_words=1)
    assert message == (
        f"No sentence pair is left in the train split of {files['source']} (1 with empty side, "
        "1 with more than 1 words): check the files and the limits in [data]."
    )
    message = refused(**both(tmp_path, PAIRS), valid=both(tmp_path, [], "valid"))
    assert "in the valid split" in message and "the files are empty" in message
    one = both(tmp_path, PAIRS[:1], "one")
    assert refused(**one).startswith("data.valid_size = 0.05 (at most 1,000) of 1 examples in 1 groups leaves none for")
    assert refused(**both(tmp_path, PAIRS), valid_size=0).endswith("leaves none for valid; " + REMEDY)


def test_split_off_sizes(tmp_path: Path) -> None:
    files = both(tmp_path, PAIRS)
    corpus = read_corpus(DataConfig(**files, valid_size=0.25, test_size=5))
    assert (len(corpus.train), len(corpus.valid), len(corpus.tests["test"])) == (23, 12, 5)  # a share is met on average
    assert everything(corpus) == sorted(PAIRS)
    again = read_corpus(DataConfig(**files, valid_size=0.25, test_size=5))
    assert again == corpus
    other = read_corpus(DataConfig(**files, valid_size=0.25, test_size=5, seed=2))
    assert texts(other.valid) != texts(corpus.valid)


def test_a_source_of_a_given_test_file_is_not_trained_on(tmp_path: Path) -> None:
    files = both(tmp_path, [("Go", "va"), ("go", "allez"), ("run", "cours"), ("stop", "halte")])
    test, valid = both(tmp_path, [(" GO", "pars")], "test"), both(tmp_path, [("stop", "halte")], "valid")
    corpus = read_corpus(DataConfig(**files, test=test, valid=valid))
    assert texts(corpus.train) == [("run", "cours")]
    assert corpus.skipped == {"train: source also in the validation or test data": 3}
    everything_held = both(tmp_path, [("go", "a"), ("run", "b"), ("stop", "c")], "all")
    assert refused(**files, test=everything_held, valid=valid).startswith("every training example is also in")


def test_one_more_line_moves_no_other_pair(tmp_path: Path) -> None:
    pairs = [(f"source {number}", f"target {number}") for number in range(2000)]
    both_files = [both(tmp_path, some, name) for some, name in ((pairs, "train"), ([*pairs, ("x", "y")], "more"))]
    corpora = [read_corpus(DataConfig(**files, test_size=0.05)) for files in both_files]
    held = [{name: set(texts(part)) for name, part in corpus.parts().items()} for corpus in corpora]
    assert all(held[0][name] == held[1][name] - {("x", "y")} for name in ("train", "valid", "test"))
    assert 60 < len(held[0]["test"]) < 140 and 60 < len(held[0]["valid"]) < 140
    names = {name for name in held[0] if corpora[0].digests()[name] != corpora[1].digests()[name]}
    assert len(names) == 1  # the part that has the new pair


def test_config_refuses_unknown_keys_and_describes_every_field() -> None:
    with pytest.raises(ValidationError):
        DataConfig(sourc="a")
    with pytest.raises(ValidationError):
        DataConfig(source="a", target="b", test={"sourc": "a"})
    with pytest.raises(ValidationError):
        TokenizerConfig(kind="words")
    for model in (DataConfig, TokenizerConfig):
        assert all(field.description for field in model.model_fields.values())


@pytest.mark.shared
def test_multi30k(shared_data: Path) -> None:
    config = DataConfig(dir=str(shared_data / "multi30k" / "raw"), pair="en-de")
    corpus = read_corpus(config)
    assert (len(corpus.train), len(corpus.valid), len(corpus.tests["test_2016_flickr"])) == (28_999, 1_014, 1_000)
    assert corpus.skipped == {"train: source also in the validation or test data": 1}
    assert corpus.train[0].source == "Two young, White males are outside near many bushes."
    assert corpus.train[0].target == "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche."


@pytest.mark.shared
def test_tatoeba(shared_data: Path) -> None:
    config = DataConfig(source=str(shared_data / "tatoeba" / "fra.txt.xz"), valid_size=500, test_size=500)
    corpus = read_corpus(config)
    splits = [corpus.train, corpus.valid, corpus.tests["test"]]
    assert sum(map(len, splits)) + sum(corpus.skipped.values()) == 167_130
    assert [len(split) for split in splits[1:]] == [500, 500]
    sources = [{" ".join(pair.source.split()).casefold() for pair in split} for split in splits]
    assert not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2])
