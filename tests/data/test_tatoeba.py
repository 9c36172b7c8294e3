"""The corpus of Tatoeba that ships: its content, its limits, and how it is made."""

import hashlib
import lzma
from pathlib import Path

import pytest

from harken.data.tatoeba import FILE, load_tatoeba
from harken.data.tatoeba.make import choose, near_duplicates, normalise_french, select, words_of
from harken.data.text.config import DataConfig
from harken.data.text.parallel import read_corpus
from harken.errors import UserError

# Of the text: compressors of other versions may write other bytes.
DIGEST = "e6a2f75b1f6821005c8e4c409bc2cfbef3ecff5057d328f91ae2450132921d4f"


def test_the_file_is_the_one_that_was_measured() -> None:
    text = lzma.decompress(FILE.read_bytes())
    assert hashlib.sha256(text).hexdigest() == DIGEST
    assert FILE.stat().st_size < 2_000_000
    pairs = [line.split("\t") for line in text.decode("utf-8").splitlines()]
    assert len(pairs) == 62_000
    assert {len(pair) for pair in pairs} == {2}
    assert max(len(side.split()) for pair in pairs for side in pair) == 12
    assert len({words_of(english) for english, _ in pairs}) == 62_000  # one translation a sentence
    attribution = FILE.with_name("ATTRIBUTION.txt").read_text(encoding="utf-8")
    assert "tatoeba.org" in attribution and "CC BY 2.0 FR" in attribution


def test_held_out_sentences_differ_by_more_than_one_word_from_all_others() -> None:
    corpus = load_tatoeba()
    held_out = [*corpus.tests["test"], *corpus.valid]
    assert (len(corpus.train), len(corpus.valid), len(corpus.tests["test"])) == (60_000, 1000, 1000)
    for side in ("source", "target"):
        near = near_duplicates([words_of(getattr(pair, side)) for pair in [*held_out, *corpus.train]])
        assert not any(near[:2000])
        assert any(near[2000:])  # as training sentences may


def test_near_duplicates_are_one_word_apart() -> None:
    base = ("the", "cat", "sleeps")
    for other in (("the", "dog", "sleeps"), ("the", "cat"), ("the", "old", "cat", "sleeps"), base):
        assert near_duplicates([base, other]) == [True, True]
    for other in (("the", "dog", "eats"), ("cat",), ("sleeps", "the", "cat"), ("a", "old", "cat", "sleeps")):
        assert near_duplicates([base, other]) == [False, False]


def test_a_recipe_reads_it_in_both_directions() -> None:
    there = read_corpus(DataConfig(corpus="tatoeba", size=3))
    back = read_corpus(DataConfig(corpus="tatoeba", size=3, direction="fr-en"))
    assert (there.source_language, there.target_language, back.source_language) == ("en", "fr", "fr")
    assert [(pair.target, pair.source) for pair in back.train] == [(pair.source, pair.target) for pair in there.train]
    assert there.tests["test"][0].source == "Let me think it over for a couple of days."
    with pytest.raises(UserError, match="use en-fr or fr-en"):
        load_tatoeba(direction="en-de")
    with pytest.raises(UserError, match="use 1 to 60000"):
        load_tatoeba(train=60_001)


def test_one_translation_is_chosen_and_its_spaces_are_uniform() -> None:
    assert choose(["Sauve-toi.", "Va au lit !", "Allez au lit !"]) == "Va au lit !"
    assert normalise_french("Il est 10:30\u00a0; «\u202fOù\u202f?\u00a0»") == "Il est 10:30 ; « Où ? »"


@pytest.mark.shared
def test_the_script_makes_the_same_text(shared_data: Path) -> None:
    source = shared_data / "tatoeba" / "fra.txt.xz"
    if not source.is_file():
        pytest.skip("the pairs of Tatoeba are not among the data sets")
    pairs = select(lzma.decompress(source.read_bytes()).decode("utf-8").splitlines())
    text = "".join(f"{english}\t{french}\n" for english, french in pairs)
    assert hashlib.sha256(text.encode("utf-8")).hexdigest() == DIGEST
