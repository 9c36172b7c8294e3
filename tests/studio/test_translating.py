"""Translations for the page: probabilities of words, other ways to go on, glossaries, cancellation."""

import math
from dataclasses import replace
from typing import Any

import pytest

from harken.data.tokenizers.tokens import UNK
from harken.errors import UserError
from harken.studio.translating import TranslationRequest, alternatives_of, glossary_terms, translate

SENTENCE = TranslationRequest("the black cat sleeps", beam=3, nbest=3)


@pytest.mark.parametrize("name", ["transformer", "attention"])
def test_probabilities_of_the_words_and_the_end_multiply_to_that_of_the_translation(name: str, request: Any) -> None:
    translator = request.getfixturevalue(name)
    found = translate(translator, SENTENCE)
    assert [one["text"] for one in found] == [one.text for one in translator.nbest([SENTENCE.text], 3, beam=3)[0]]
    for one in found:
        scored = translator.score([SENTENCE.text], [one["raw"]])[0] if one["raw"] else None
        if scored is None or one["end"] is None:
            continue
        product = math.prod(word["probability"] for word in one["words"]) * one["end"]
        assert product == pytest.approx(math.exp(scored.log_probability), rel=0.02, abs=1e-3)


def test_parts_are_prefixes_of_the_final_text(transformer: Any) -> None:
    parts: list[str] = []
    best = translate(transformer, replace(SENTENCE, nbest=1), parts.append)[0]
    assert parts == sorted(parts, key=len)
    assert all(best["text"].startswith(part.rstrip()) for part in parts)


def test_marks_words_the_model_has_never_seen(transformer: Any) -> None:
    words = translate(transformer, replace(SENTENCE, text="The black zzyzx sleeps."))[0]["source_words"]
    known = [transformer.source.encode(word) != [UNK] for word in ("the", "black", "zzyzx", "sleeps")]
    assert [not word["unknown"] for word in words] == known and known[0] and not known[2]


def test_other_ways_share_the_prefix_and_differ_in_the_next_token(transformer: Any) -> None:
    prefix = "le chat"
    found = alternatives_of(transformer, replace(SENTENCE, prefix=prefix), 4)
    assert len(found) == 4 and all(one["raw"].startswith(prefix) for one in found)
    assert len({one["next"] for one in found}) == 4
    probabilities = [one["probability"] for one in found]
    assert probabilities == sorted(probabilities, reverse=True)


def test_a_glossary_term_appears_in_the_translation(transformer: Any) -> None:
    asked = replace(SENTENCE, beam=8, nbest=1, glossary=(("cat", "chien"),))
    assert "chien" in translate(transformer, asked)[0]["text"].split()


def test_a_cancelled_search_ends_at_once(transformer: Any) -> None:
    assert len(translate(transformer, SENTENCE, cancelled=lambda: True)[0]["words"]) <= 1


def test_an_empty_text_has_no_translation(transformer: Any) -> None:
    assert translate(transformer, TranslationRequest("  ")) == []
    assert alternatives_of(transformer, TranslationRequest("")) == []


def test_refuses_a_glossary_line_without_two_sides() -> None:
    with pytest.raises(UserError, match="glossary, line 2: write a source term, = and a target term"):
        glossary_terms("cat = chat\ndog =")
