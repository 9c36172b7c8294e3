from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from step_models import TinyRecurrent

import harken.search
from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.search import greedy_search, hypotheses
from harken.search.rules.base import next_scores

torch.set_num_threads(1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), limit=st.integers(1, 8))
def test_every_token_is_the_likeliest_that_may_be_written(seed: int, limit: int) -> None:
    model = TinyRecurrent(seed, vocabulary=8)
    state = model.start(rows=3, seed=seed)
    for row, found in enumerate(greedy_search(model, state.copy(), 3, max_lengths=limit)):
        memory = state.select(torch.tensor([row]))
        expected: list[int] = []
        while len(expected) < limit and EOS not in expected:
            logits = model.step(torch.tensor([([BOS, *expected])[-1]]), memory)
            logits[:, [PAD, BOS]] = float("-inf")
            expected.append(int(logits.argmax()))
        assert found.finished == (EOS in expected)
        assert found.tokens == [token for token in expected if token != EOS]
        assert found.score == pytest.approx(model.score(state.select(torch.tensor([row])), expected))
        assert found.normalised == pytest.approx(found.score / len(expected))


def test_continuations_come_best_first_with_their_log_probabilities() -> None:
    logits = torch.tensor([[5.0, 1.0, 5.0, 2.0, 2.0, 0.0]])
    scores, _ = next_scores(logits.clone(), [], None)
    values, ids = hypotheses.continuations(scores, 4)
    assert ids.tolist() == [[3, 4, 1, 5]]
    assert values.tolist() == [pytest.approx(logits.log_softmax(-1)[0, ids[0]].tolist())]


def test_reading_the_settings_does_not_load_torch() -> None:
    source = Path(hypotheses.__file__).parents[2]
    program = "import sys, harken.search; assert 'torch' not in sys.modules; harken.search.beam_search"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(source)})
    with pytest.raises(AttributeError, match="has no attribute 'beem_search'"):
        harken.search.beem_search  # noqa: B018


def test_log_probabilities_in_place_are_those_of_softmax() -> None:
    for rows, size in ((1, 5), (3, 8000), (40, 70)):
        logits = 30 * torch.randn(rows, size, generator=torch.Generator().manual_seed(rows))
        _, raw = next_scores(logits.clone(), [], None)
        raw[:, [PAD, BOS]] = logits.log_softmax(-1)[:, [PAD, BOS]]
        assert torch.equal(raw, logits.log_softmax(-1))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 12))
def test_of_equals_the_lower_id_comes_first(seed: int, count: int) -> None:
    scores = torch.randint(-4, 0, (3, 12), generator=torch.Generator().manual_seed(seed)).float()
    values, ids = hypotheses.continuations(scores, count)
    right = torch.sort(scores, dim=-1, descending=True, stable=True)
    assert values.tolist() == right.values[:, :count].tolist()
    assert ids.tolist() == right.indices[:, :count].tolist()
