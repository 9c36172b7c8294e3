from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from step_models import MemoryState, TinyRecurrent, exhaustive, patient_beam

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.errors import UserError
from harken.search import beam_search, greedy_search

torch.set_num_threads(1)
PENALTIES = [0.0, 0.6, 1.0, 1.5]
seeds = st.integers(0, 10_000)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, penalty=st.sampled_from(PENALTIES), limit=st.integers(1, 4), nbest=st.integers(1, 6))
def test_a_wide_beam_equals_exhaustive_search(seed: int, penalty: float, limit: int, nbest: int) -> None:
    model = TinyRecurrent(seed, vocabulary=6)
    state = model.start(rows=2, seed=seed)
    found = beam_search(model, state.copy(), 2, beam=120, nbest=nbest, length_penalty=penalty, max_lengths=limit)
    for row, hypotheses in enumerate(found):
        expected = exhaustive(model, state.select(torch.tensor([row])), limit, penalty)[:nbest]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for tokens, _, _ in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for _, score, _ in expected])
        assert [hypothesis.normalised for hypothesis in hypotheses] == pytest.approx([rank for _, _, rank in expected])
        assert all(hypothesis.finished for hypothesis in hypotheses)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, penalty=st.sampled_from(PENALTIES), beam=st.integers(1, 4), limit=st.integers(1, 9))
def test_stopping_early_loses_nothing(seed: int, penalty: float, beam: int, limit: int) -> None:
    model = TinyRecurrent(seed, vocabulary=7)
    state = model.start(rows=1, seed=seed)
    expected = patient_beam(model, state, limit, beam, penalty)
    found = beam_search(model, state.copy(), 1, beam=beam, nbest=beam, length_penalty=penalty, max_lengths=limit)[0]
    if expected:
        assert [(hypothesis.tokens, pytest.approx(hypothesis.normalised)) for hypothesis in found] == expected[:beam]
        assert all(hypothesis.finished for hypothesis in found)
    else:
        assert found and not any(hypothesis.finished for hypothesis in found)
        assert all(len(hypothesis.tokens) == limit for hypothesis in found)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, limit=st.integers(1, 12))
def test_a_beam_of_one_is_greedy(seed: int, limit: int) -> None:
    model = TinyRecurrent(seed, vocabulary=8)
    state = model.start(rows=4, seed=seed)
    narrow = beam_search(model, state.copy(), 4, beam=1, length_penalty=0.0, max_lengths=limit)
    greedy = greedy_search(model, state.copy(), 4, max_lengths=limit, length_penalty=0.0)
    assert [hypotheses[0] for hypotheses in narrow] == greedy


@settings(max_examples=25, deadline=None)
@given(seed=seeds, penalty=st.sampled_from(PENALTIES), order=st.permutations(range(5)), data=st.data())
def test_rows_do_not_know_of_each_other(seed: int, penalty: float, order: list[int], data: st.DataObject) -> None:
    limits = torch.tensor(data.draw(st.lists(st.integers(1, 8), min_size=5, max_size=5)))
    model = TinyRecurrent(seed, vocabulary=9)
    state = model.start(rows=5, seed=seed)
    settings_ = {"beam": 3, "nbest": 3, "length_penalty": penalty}
    together = beam_search(model, state.copy(), 5, max_lengths=limits, **settings_)
    rows = torch.tensor(order)
    shuffled = beam_search(model, state.select(rows), 5, max_lengths=limits[rows], **settings_)
    alone = [
        beam_search(model, state.select(torch.tensor([row])), 1, max_lengths=int(limits[row]), **settings_)[0]
        for row in range(5)
    ]
    for row in range(5):
        for other in (alone[row], shuffled[order.index(row)]):
            assert [hypothesis.tokens for hypothesis in together[row]] == [hypothesis.tokens for hypothesis in other]
            assert [hypothesis.score for hypothesis in together[row]] == pytest.approx([h.score for h in other])


@settings(max_examples=20, deadline=None)
@given(seed=seeds, penalty=st.sampled_from(PENALTIES))
def test_hypotheses_are_distinct_sorted_and_clean(seed: int, penalty: float) -> None:
    model = TinyRecurrent(seed, vocabulary=7)
    for hypotheses in beam_search(
        model, model.start(3, seed), 3, beam=5, nbest=5, length_penalty=penalty, max_lengths=6
    ):
        ranks = [hypothesis.normalised for hypothesis in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        assert len({tuple(hypothesis.tokens) for hypothesis in hypotheses}) == len(hypotheses) > 0
        assert not {PAD, BOS, EOS} & {token for hypothesis in hypotheses for token in hypothesis.tokens}


class Countdown:
    """Row n says token 4 for n steps, then EOS, with near certainty; PAD and BOS look better still."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def step(self, tokens: torch.Tensor, state: MemoryState) -> torch.Tensor:
        self.batches.append(len(tokens))
        left = state.memory[:, 0].clone()
        state.memory = state.memory - 1
        logits = torch.zeros(len(tokens), 6)
        logits[:, 4] = torch.where(left > 0, 12.0, 0.0)
        logits[:, EOS] = torch.where(left > 0, 0.0, 12.0)
        logits[:, [PAD, BOS]] = 12.0
        return logits


def test_rows_that_are_done_leave_the_batch() -> None:
    state = MemoryState(torch.tensor([[0.0], [3.0], [1.0]]))
    model = Countdown()
    found = beam_search(model, state.copy(), 3, beam=2, length_penalty=0.0, max_lengths=9)
    assert [hypotheses[0].tokens for hypotheses in found] == [[], [4, 4, 4], [4]]
    assert model.batches == [3, 4, 2, 2]  # one hypothesis a row at first, then two; a row leaves with its EOS
    greedy = Countdown()
    assert [hypothesis.tokens for hypothesis in greedy_search(greedy, state.copy(), 3, max_lengths=9)] == [
        [],
        [4, 4, 4],
        [4],
    ]
    assert greedy.batches == [3, 2, 1, 1]


def test_the_limit_cuts_off_what_has_not_finished() -> None:
    state = MemoryState(torch.tensor([[0.0], [9.0]]))
    found = beam_search(Countdown(), state, 2, beam=1, max_lengths=torch.tensor([5, 3]))
    assert [(hypotheses[0].tokens, hypotheses[0].finished) for hypotheses in found] == [([], True), ([4, 4, 4], False)]
    assert found[1][0].normalised == pytest.approx(found[1][0].score / 3)


def test_stopping_by_count_is_quicker_and_never_better() -> None:
    quick_steps = exact_steps = 0
    for seed in range(20):
        model = TinyRecurrent(seed, vocabulary=7)
        exact = beam_search(model, model.start(2, seed), 2, beam=3, max_lengths=20)
        exact_steps += len(model.batches)
        model.batches.clear()
        quick = beam_search(model, model.start(2, seed), 2, beam=3, max_lengths=20, stopping="count")
        quick_steps += len(model.batches)
        for patient, hasty in zip(exact, quick, strict=True):
            assert (patient[0].finished, patient[0].normalised) >= (hasty[0].finished, hasty[0].normalised)
    assert quick_steps < exact_steps


class Even:
    """All tokens are equally likely, in half precision."""

    def step(self, tokens: torch.Tensor, state: MemoryState) -> torch.Tensor:
        return torch.zeros(len(tokens), 6, dtype=torch.bfloat16)


def test_ties_go_to_the_lower_id_and_the_first_to_finish() -> None:
    found = beam_search(Even(), MemoryState(torch.zeros(1, 1)), 1, beam=3, nbest=3, length_penalty=1.0, max_lengths=3)
    assert [hypothesis.tokens for hypothesis in found[0]] == [[], [1], [1, 1]]
    assert found[0][2].score == pytest.approx(3 * -1.791759469228055)  # 3 log(1/6), in float32


def test_no_rows() -> None:
    assert beam_search(Even(), None, 0, beam=2, max_lengths=3) == []
    assert greedy_search(Even(), None, 0, max_lengths=3) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"beam": 0}, "search.beam is 0"),
        ({"nbest": 3}, "nbest is 3 with a beam of 2"),
        ({"length_penalty": -1.0}, "length_penalty is -1.0"),
        ({"max_lengths": 0}, "max_lengths holds 0"),
        ({"max_lengths": torch.tensor([2, 3])}, "one for each of 1 rows"),
    ],
)
def test_impossible_settings_are_named(changed: dict[str, object], message: str) -> None:
    keywords = {"beam": 2, "max_lengths": 3} | changed
    with pytest.raises(UserError, match=message):
        beam_search(Even(), MemoryState(torch.zeros(1, 1)), 1, **keywords)


class Diverged:
    def step(self, tokens: torch.Tensor, state: MemoryState) -> torch.Tensor:
        return torch.full((len(tokens), 6), float("nan"))


def test_a_diverged_model_is_named() -> None:
    state = MemoryState(torch.zeros(1, 1))
    with pytest.raises(UserError, match="row 0 are not finite"):
        beam_search(Diverged(), state.copy(), 1, beam=2, max_lengths=3)
    with pytest.raises(UserError, match="row 0 are not finite"):
        greedy_search(Diverged(), state, 1, max_lengths=3)


class Bigrams:
    """A table of log-probabilities p(next | last): a model of the step contract needs no network."""

    table = torch.log_softmax(4 * torch.randn(7, 7, generator=torch.Generator().manual_seed(5)), -1).double()

    def step(self, tokens: torch.Tensor, state: MemoryState) -> torch.Tensor:
        return self.table[tokens]


def test_a_table_of_ngrams_is_searched() -> None:
    found = beam_search(Bigrams(), MemoryState(torch.zeros(2, 1)), 2, beam=200, length_penalty=0.0, max_lengths=4)
    scores = {}
    for length in range(4):
        for tokens in product([1, 4, 5, 6], repeat=length):
            ids = [BOS, *tokens, EOS]
            scores[tokens] = sum(float(Bigrams.table[one, other]) for one, other in pairwise(ids))
    best = max(scores, key=lambda tokens: scores[tokens])
    for (one,) in found:
        assert (tuple(one.tokens), one.score) == (best, pytest.approx(scores[best]))


@settings(max_examples=30, deadline=None)
@given(seed=seeds, diversity=st.sampled_from([0.0, 0.3, 2.0]), stopping=st.sampled_from(["exact", "count", "first"]))
def test_hypotheses_of_diverse_groups_are_distinct(seed: int, diversity: float, stopping: str) -> None:
    model = TinyRecurrent(seed, vocabulary=7)
    options = {"beam": 6, "nbest": 6, "groups": 3, "diversity": diversity, "stopping": stopping}
    for limit in (2, 8):
        for hypotheses in beam_search(model, model.start(3, seed), 3, max_lengths=limit, **options):
            texts = [tuple(hypothesis.tokens) for hypothesis in hypotheses]
            assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("seed", [12, 19, 75, 109, 119])
def test_stopping_at_the_first_leaves_no_better_live_hypothesis(seed: int, groups: int) -> None:
    model, steps, limit = TinyRecurrent(seed, vocabulary=7), [], 20
    options = {"beam": 2, "groups": groups, "diversity": 0.7, "stopping": "first"}
    (best,) = beam_search(model, model.start(1, seed), 1, max_lengths=limit, observe=steps.append, **options)[0]
    assert best.finished or steps[-1].length == limit
    if steps[-1].length < limit:
        assert best.normalised >= float(steps[-1].scores[0].max()) / steps[-1].length
