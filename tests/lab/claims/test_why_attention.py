"""Two networks on the reader's own sentence: the rule in both directions, and influence by gradient."""

import random
from itertools import pairwise

import numpy as np
import pytest
import torch

from harken.data.tokenizers.base import train_tokenizers
from harken.lab.claims.why_attention import LENGTHS, LEXICON, explain, influence, judge, sentences, translation
from harken.models.build import build_model
from harken.recipe import load_recipe
from harken.tasks.translate.translator import Translator


def test_the_rule_compares_the_longest_trained_length() -> None:
    falling = [99.0, 90.0, 70.0, 40.0, 10.0, 5.0]
    assert judge({"none": falling, "additive": [99.0, 99.0, 98.0, 97.0, 60.0, 30.0]})[0] is True
    assert judge({"none": falling, "additive": [99.0, 90.0, 70.0, 45.0, 60.0, 30.0]})[0] is False
    holds, verdict = judge({"none": [50.0, *falling[1:]], "additive": [99.0] * 6})
    assert holds is None and "without attention is under-trained" in verdict


def test_sentences_have_their_length_and_their_translation() -> None:
    for lengths in LENGTHS:
        made = sentences(5, lengths, random.Random(1))
        assert all(lengths[0] <= len(source.split()) <= lengths[1] for source, _ in made)
        assert all(len(source.split()) == len(target.split()) for source, target in made)
    assert translation("the shy king waits and the cat likes the red fish") == (
        "le roi timide attend et le chat aime le poisson rouge"
    )
    assert len(set(LEXICON.values())) == len(LEXICON)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(LENGTHS))


def test_the_explanation_has_three_sentences_and_names_the_words_it_knows() -> None:
    one = {"translation": ["le", "chat"], "unknown": []}
    bleu = {"none": [90.0, 80.0, 60.0, 10.0], "additive": [99.0, 98.0, 97.0, 96.0]}
    explanation = explain({"none": one, "additive": one}, bleu)
    assert explanation.count(". ") == 2 and "from 90 at" in explanation and "from 99 to" in explanation
    unknown = explain({"none": one, "additive": {**one, "unknown": [1]}}, bleu)
    assert "know these words only: the, and, cat" in unknown


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_influence_is_a_distribution_over_source_words(attention: str) -> None:
    recipe = load_recipe("phrasebook-rnn", ["model.width=16", "model.embedding=8", f"model.attention={attention}"])
    tokenizers = train_tokenizers(recipe.tokenizer, ["the black cat sleeps"], ["le chat noir dort"])
    torch.manual_seed(0)
    model = build_model(recipe.model, *(tokenizer.size for tokenizer in tokenizers)).eval()
    translator = Translator(recipe, model, *tokenizers)
    weights = influence(translator, "The black cat.", "le chat noir")
    assert weights.shape == (3, 3) and np.allclose(weights.sum(1), 1) and (weights >= 0).all()
    assert influence(translator, "the black cat", "").shape == (0, 3)
