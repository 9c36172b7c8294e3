"""A translator of scripts without spaces: maps, alignments, token scores and glossaries by the script's words."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from harken.data.text.pairs import Alignment, Pair
from harken.data.tokenizers.base import train_tokenizers
from harken.models.build import build_model
from harken.recipe import load_recipe
from harken.tasks.translate.decoding.glossary import Term, find_terms
from harken.tasks.translate.decoding.substitution import with_terms
from harken.tasks.translate.files.output_file import Format
from harken.tasks.translate.job import JOB
from harken.tasks.translate.translator import Translator

ENGLISH = ["the black cat sleeps", "i bought two cds", "it rains"]
JAPANESE = ["黒い猫は眠っている。", "私はCDを2枚買った。", "雨が降る。"]
OVERRIDES = [
    "tokenizer.kind=unigram",
    "tokenizer.size=70",
    "tokenizer.joint=false",
    "model.width=16",
    "model.embedding=8",
]


@pytest.fixture(scope="module")
def model() -> Translator:
    recipe = load_recipe("phrasebook-attention", [*OVERRIDES, "model.dropout=0.0"])
    source, target = train_tokenizers(recipe.tokenizer, JAPANESE * 3, ENGLISH * 3)
    torch.manual_seed(1)
    translator = Translator(recipe, build_model(recipe.model, source.size, target.size), source, target)
    translator.threads.count = 1
    return translator


def test_maps_have_the_pieces_of_the_source_as_words(model: Translator) -> None:
    best = model.align(JAPANESE[1], ENGLISH[1])
    assert best.target_words == ENGLISH[1].split()
    assert "".join(best.source_words) == JAPANESE[1] and len(best.source_words) > 5 and "CD" in best.source_words
    assert best.attention is not None and best.attention.shape == (4, len(best.source_words))
    assert best.attention.sum(1) == pytest.approx(np.ones(4))
    assert len(best.alignment()) == 4
    picture = best.map()
    assert picture.source_words == best.source_words and picture.heading == f"{JAPANESE[1]} → {ENGLISH[1]}"


def test_tokens_name_the_words_of_the_map(model: Translator) -> None:
    both = {"attention": True, "tokens": True, "search": {"prefix": "the black"}}
    (result,) = JOB.serve_translate(model, [{"text": JAPANESE[0]}], both)
    best = result["hypotheses"][0]
    assert len(best["attention"]) == len(best["target_words"])
    assert {token["word"] for token in best["tokens"]} == set(range(len(best["target_words"])))


def test_gold_links_count_what_spaces_divide(model: Translator) -> None:
    """Corpora with gold links have spaces between the words, whatever their pieces."""
    source, target = "黒い 猫 は 眠って いる", "the black cat sleeps"
    links = frozenset((i, j) for i in range(5) for j in range(4))
    evaluation = model.evaluate([Pair(source, target, Alignment(frozenset(), links))])
    assert len(model.align(source, target).source_words) > 5
    assert evaluation.alignment_error == pytest.approx(0.0)  # each link is possible


def test_terms_are_found_within_unspaced_text() -> None:
    terms = [Term("猫", "chat"), Term("CD", "disque"), Term("cat", "猫")]
    assert sorted(match[:2] for match in find_terms("黒い猫はCDを", terms)) == [(2, 3), (4, 5)]
    assert find_terms("私のABCD", terms) == [] and find_terms("concat", terms) == []


def test_a_term_is_appended_as_its_script_has_it() -> None:
    (match,) = find_terms("a cat", [Term("cat", "猫")])
    assert with_terms("。", np.ones((1, 2)), [match]) == "。猫"
    (match,) = find_terms("a cat", [Term("cat", "chat")])
    assert with_terms(".", np.ones((1, 2)), [match]) == ". chat"


def test_json_has_the_words_that_links_count(model: Translator) -> None:
    best = model.align(JAPANESE[0], ENGLISH[0])
    (entry,) = json.loads(Format(as_json=True).text(0, JAPANESE[0], [best]))["translations"]
    assert entry["source_words"] == best.source_words and entry["target_words"] == ENGLISH[0].split()
    spaced = model.align("CD 2", "it rains")
    assert "source_words" not in json.loads(Format(as_json=True).text(0, "CD 2", [spaced]))["translations"][0]
