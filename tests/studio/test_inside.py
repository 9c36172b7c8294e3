"""Heads and words that are switched off, forced scores, neighbours."""

from typing import Any

import numpy as np
import pytest
import torch

from harken.errors import UserError
from harken.inspection.measures.ablation import Head, attention_layers, without_heads
from harken.studio.inside import SwitchedOff, look_inside, neighbours, without_words
from harken.tasks.translate.decoding.scoring import forced_scores

TEXT = "the black cat sleeps"


def test_a_head_switched_off_equals_its_columns_of_the_output_matrix_set_to_zero(transformer: Any) -> None:
    sources = transformer.read([TEXT])
    tokens = transformer.target.encode("le chat noir")
    with without_heads(transformer.model, [Head("cross", 0, 1)]):
        found = forced_scores(transformer, sources, [0], [tokens])[0]
    module = attention_layers(transformer.model)["cross"][0]
    kept = module.output.weight.detach().clone()
    width = kept.shape[1] // module.heads
    with torch.no_grad():
        module.output.weight[:, width : 2 * width] = 0
        wanted = forced_scores(transformer, sources, [0], [tokens])[0]
        module.output.weight.copy_(kept)
    full = forced_scores(transformer, sources, [0], [tokens])[0]
    assert found == pytest.approx(wanted, abs=1e-6)
    assert found != pytest.approx(full, abs=1e-4)


def test_the_model_is_as_before_when_heads_are_switched_on_again(transformer: Any) -> None:
    before = look_inside(transformer, TEXT, SwitchedOff())
    look_inside(transformer, TEXT, SwitchedOff([Head("encoder", 0, 0), Head("decoder", 0, 1)], [1]))
    assert look_inside(transformer, TEXT, SwitchedOff()) == before
    assert "changed" not in before


def test_forced_scores_are_those_of_score(transformer: Any) -> None:
    tokens = transformer.target.encode("le chat noir dort")
    found = forced_scores(transformer, transformer.read([TEXT]), [0], [tokens])[0]
    assert found == pytest.approx(transformer.score([TEXT], ["le chat noir dort"])[0].token_scores, abs=1e-5)


@pytest.mark.parametrize("name", ["transformer", "attention"])
def test_a_word_switched_off_is_read_as_an_unknown_word(name: str, request: Any) -> None:
    translator = request.getfixturevalue(name)
    found = without_words(translator, translator.read([TEXT]), [2]).forms[0].ids
    assert found == translator.read(["the black zzyzx sleeps"]).forms[0].ids
    changed = look_inside(translator, TEXT, SwitchedOff(words=[2]))["changed"]
    assert changed["text"] == translator.translate("the black zzyzx sleeps", attention=False).text
    assert len(changed["with"]) == len(changed["without"])


def test_weights_have_the_shape_of_their_pieces_and_sum_to_one(transformer: Any) -> None:
    for one in look_inside(transformer, TEXT, SwitchedOff())["heads"].values():
        weights = np.array(one["weights"])
        assert weights.shape == (1, 2, len(one["rows"]), len(one["columns"]))
        assert weights.sum(-1) == pytest.approx(np.ones(weights.shape[:3]), abs=0.01)


def test_refuses_heads_that_do_not_exist(transformer: Any, attention: Any) -> None:
    with pytest.raises(UserError, match="there is no cross attention head 9 in layer 1"):
        look_inside(transformer, TEXT, SwitchedOff([Head("cross", 0, 8)]))
    with pytest.raises(UserError, match="there is no encoder attention head 1 in layer 1"):
        look_inside(attention, TEXT, SwitchedOff([Head("encoder", 0, 0)]))


def test_neighbours_are_sorted_by_cosine_and_leave_the_word_out(transformer: Any) -> None:
    found = neighbours(transformer, "cat", count=5)
    matrix = transformer.model.source_embedding.weight.detach()
    (word,) = transformer.source.encode("cat")
    cosines = torch.cosine_similarity(matrix, matrix[word][None])
    best = found["neighbours"][0]
    assert best["cosine"] == pytest.approx(float(cosines[transformer.source.encode(best["word"])[0]]), abs=1e-3)
    values = [one["cosine"] for one in found["neighbours"]]
    assert values == sorted(values, reverse=True) and "cat" not in [one["word"] for one in found["neighbours"]]
    with pytest.raises(UserError, match="no embedding for 'zzyzx'"):
        neighbours(transformer, "zzyzx")
