"""Two networks on the reader's own sentence: the rule in both directions, and influence by gradient."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from harken.data.tokenizers.base import train_tokenizers
from harken.lab.claims.why_attention import BUCKETS, bucket_of, explain, influence, judge
from harken.models.build import build_model
from harken.recipe import load_recipe
from harken.tasks.translate.translator import Translator


def test_the_rule_compares_the_longest_sentences() -> None:
    falling = [90.0, 70.0, 50.0, 30.0, 10.0]
    assert judge({"lstm": falling, "attention": [90.0, 85.0, 80.0, 75.0, 70.0]})[0] is True
    assert judge({"lstm": falling, "attention": [90.0, 70.0, 50.0, 30.0, 15.0]})[0] is None
    assert judge({"lstm": falling, "attention": [90.0, 70.0, 50.0, 30.0, 9.0]})[0] is False


def test_lengths_do_not_overlap_and_cover_the_corpus() -> None:
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(BUCKETS))
    assert [bucket_of("a " * words) for words in (3, 5, 6, 15, 16, 30)] == [0, 0, 1, 3, 4, 4]


def test_the_explanation_has_three_sentences() -> None:
    one = {"bleu": [90.0, 10.0], "translation": ["le", "chat"], "width": 160}
    assert explain({"lstm": one, "attention": one}).count(". ") == 2


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
