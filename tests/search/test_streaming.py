"""Streaming and the beam tree: what is shown early is never taken back, and the tree holds what was found."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from step_models import TinyRecurrent

from harken.data.tokenizers.tokens import EOS
from harken.search.beam import beam_search
from harken.search.greedy import independent_search
from harken.search.ranking import Ranking
from harken.search.streaming import CertainPrefix
from harken.search.tree import BeamRecorder, beam_tree, terms_of

torch.set_num_threads(1)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 5000), beam=st.integers(1, 5), limit=st.integers(1, 12))
def test_what_is_certain_begins_the_result(seed: int, beam: int, limit: int) -> None:
    model, parts = TinyRecurrent(seed, vocabulary=8, sharpness=4.0), list[list[int]]()
    found = beam_search(
        model, model.start(1, seed), 1, beam=beam, max_lengths=limit, observe=CertainPrefix(parts.append)
    )[0][0]
    for early, later in zip(parts, [*parts[1:], found.tokens], strict=False):
        assert later[: len(early)] == early
    assert not parts or parts[-1] == found.tokens[: len(parts[-1])]


def test_greedy_search_is_certain_of_every_token() -> None:
    model, parts = TinyRecurrent(3, vocabulary=8), list[list[int]]()
    found = independent_search(model, model.start(1, 3), 1, max_lengths=9, observe=CertainPrefix(parts.append))[0][0]
    assert parts == [found.tokens[:length] for length in range(1, len(found.tokens) + 1)]


def test_a_narrow_race_streams_before_its_end() -> None:
    """A model that is sure of itself: with a beam of 3 most tokens are known long before the last step."""
    early = 0
    for seed in range(20):
        model, parts = TinyRecurrent(seed, vocabulary=8, sharpness=9.0), list[list[int]]()
        beam_search(model, model.start(1, seed), 1, beam=3, max_lengths=14, observe=CertainPrefix(parts.append))
        early += len(parts) > 1
    assert early >= 5


@pytest.mark.parametrize("seed", range(6))
def test_the_tree_holds_every_hypothesis_with_its_score(seed: int) -> None:
    model, recorder = TinyRecurrent(seed, vocabulary=8), BeamRecorder()
    state = model.start(1, seed)
    ranking = Ranking(0.7, word_reward=0.1)
    found = beam_search(model, state.copy(), 1, beam=3, nbest=3, max_lengths=7, ranking=ranking, observe=recorder)[0]
    nodes = beam_tree(recorder, found)
    paths: list[list[int]] = []
    for node in nodes:
        before = paths[node.parent] if node.parent >= 0 else []
        paths.append([*before, node.token])
        assert node.parent < len(paths) - 1
        assert node.total == pytest.approx(model.score(state, paths[-1]), rel=1e-5)
    ends = {tuple(path) for path, node in zip(paths, nodes, strict=True) if node.outcome in ("best", "finished")}
    assert ends >= {(*one.tokens, EOS) for one in found if one.finished}
    assert [node.outcome for node in nodes].count("best") == 1
    assert max(recorder.sizes) <= 3
    for one in found:
        terms = terms_of(one, ranking)
        total = (terms.log_probability + terms.rules) / terms.divisor + terms.reward + terms.coverage
        assert total == pytest.approx(terms.rank)
