"""BLEU with several references, and nouns that looked at what they name."""

import numpy as np
import pytest

from harken.data.images.captioned import Region
from harken.errors import UserError
from harken.metrics.bleu import bleu_interval, corpus_bleu, multi_reference_score, sentence_bleu
from harken.metrics.regions import look_at_nouns


def test_with_one_reference_it_is_the_usual_bleu() -> None:
    texts, wanted = ["the cat sat on a mat", "a dog ran by"], ["the cat sat on the mat", "a dog ran by me"]
    assert multi_reference_score("bleu", texts, [[one] for one in wanted]) == corpus_bleu(texts, wanted)


def test_any_reference_counts_and_lines_may_have_different_numbers() -> None:
    texts = ["a red dot left of it", "a blue dot above it all"]
    references = [["something else entirely", "a red dot left of it"], ["a blue dot above it all"]]
    found = multi_reference_score("bleu", texts, references)
    assert found.value == pytest.approx(100.0) and found.signature.startswith("nrefs:var|")
    interval = bleu_interval([*texts, "wrong at all here"], [*references, ["a green dot below it"]])
    assert interval.low < interval.value < interval.high <= 100.1


def test_lines_are_ranked() -> None:
    assert sentence_bleu("a red dot", ["a red dot"]) == pytest.approx(100.0)
    assert sentence_bleu("a red dot", ["a blue dot"]) < sentence_bleu("a red dot", ["a blue dot", "a red dog"])


def test_what_cannot_be_scored_is_refused() -> None:
    for texts, references in ((["a"], []), ([], []), (["a"], [[]])):
        with pytest.raises(UserError, match="cannot be scored"):
            multi_reference_score("bleu", texts, references)


def test_a_noun_is_right_where_its_own_thing_is() -> None:
    words = ["a", "red", "dot", "left", "of", "a", "blue", "dot"]
    regions = (Region("red dot", (0.0, 0.0, 0.5, 1.0)), Region("blue dot", (0.5, 0.0, 1.0, 1.0)))
    maps = np.zeros((8, 2, 2))
    maps[2, 0, 0] = maps[7, 1, 1] = 1.0
    assert [(look.word, look.argmax, look.centre) for look in look_at_nouns(words, maps, regions, {"dot"})] == [
        (2, True, True),
        (7, True, True),
    ]
    swapped = look_at_nouns(words, maps[::-1], regions, {"dot"})
    maps[2], maps[7] = maps[7].copy(), maps[2].copy()
    assert not any(look.argmax for look in look_at_nouns(words, maps, regions, {"dot"}))
    assert [look.chance for look in swapped] == [0.5, 0.5]


def test_a_phrase_that_fits_nothing_is_wrong_wherever_it_looked() -> None:
    maps = np.full((3, 2, 2), 0.25)
    (look,) = look_at_nouns(["a", "green", "dot"], maps, (Region("red dot", (0.0, 0.0, 1.0, 1.0)),), {"dot"})
    assert not look.phrase and not look.argmax and not look.centre and look.chance == 0.0
