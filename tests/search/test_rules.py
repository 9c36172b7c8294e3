"""Every option of the search, alone and in combination, against exhaustive search in plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_search import VOCABULARY, Mind, Started, contains, exhaustive, rank
from step_models import MemoryState

from harken.data.tokenizers.tokens import BOS, EOS, UNK
from harken.errors import UserError
from harken.search.config import SearchOptions
from harken.search.dispatch import DecodingCall, decode
from harken.search.ensemble import Ensemble
from harken.search.rules.constraints import Constraints
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.rules.penalties import Banned, Shortlist
from harken.search.rules.prefix import Prefix

torch.set_num_threads(1)
EVERYTHING = 120  # a beam of this width keeps all hypotheses


def rules_from(asked: dict[str, Any], rows: int) -> tuple[Any, ...]:
    rules: list[Any] = []
    if "banned" in asked:
        rules.append(Banned(asked["banned"]))
    if "prefix" in asked:
        rules.append(Prefix([asked["prefix"]] * rows, asked.get("bias")))
    if "phrases" in asked:
        rules.append(Constraints([asked["phrases"]] * rows))
    return tuple(rules)


def search(model: Any, seeds: list[int], limit: int, asked: dict[str, Any], nbest: int = 3, **more: Any) -> Any:
    names = SearchOptions.model_fields.keys()
    options = SearchOptions(
        **{"beam": EVERYTHING, "stopping": "exact"} | {k: v for k, v in asked.items() if k in names}
    )
    rules = (*rules_from(asked, len(seeds)), *more.pop("rules", ()))
    return decode(DecodingCall(model, torch.tensor(seeds), None, limit, options, nbest, rules=rules, **more))


words = st.lists(st.sampled_from([4, 5]), min_size=1, max_size=2)
RULES: dict[str, Any] = {
    "length_rule": st.sampled_from(["power", "gnmt"]),
    "length_penalty": st.sampled_from([0.0, 0.6, 1.0]),
    "word_reward": st.sampled_from([-0.4, 0.3]),
    "min_length": st.integers(1, 2),
    "no_repeat_ngram": st.integers(1, 2),
    "repetition_penalty": st.sampled_from([1.0, 1.7]),
    "unknown_penalty": st.sampled_from([0.5, math.inf]),
    "banned": st.lists(st.lists(st.sampled_from([UNK, 4, 5]), min_size=1, max_size=2), max_size=2),
    "prefix": words,
    "bias": st.sampled_from([None, 0.0, 0.6]),
    "phrases": st.lists(st.lists(words, min_size=1, max_size=2), max_size=2),
}
asked_for = st.fixed_dictionaries({}, optional=RULES)


@settings(max_examples=60, deadline=None)
@given(asked=asked_for, seed=st.integers(0, 500), limit=st.integers(1, 4))
def test_any_options_together_equal_exhaustive_search(asked: dict[str, Any], seed: int, limit: int) -> None:
    model = Started(seed, VOCABULARY)
    expected = exhaustive(Mind(model, 7), limit, asked)[:3]
    if not expected:
        try:
            found = search(model, [7], limit, asked)[0]
        except UserError as refused:
            assert "leave no output" in str(refused)
        else:
            assert not any(one.finished for one in found)
        return
    found = search(model, [7], limit, asked)[0]
    assert [one.tokens for one in found] == [tokens for tokens, _, _ in expected]
    assert [one.score for one in found] == pytest.approx([score for _, score, _ in expected])
    assert [one.normalised for one in found] == pytest.approx([final for _, _, final in expected])
    for one in found:  # the terms add up
        assert sum(one.token_scores) == pytest.approx(one.score)
        assert rank(one.score + one.added, len(one.tokens) + 1, asked) == pytest.approx(one.normalised, abs=1e-3)


@settings(max_examples=15, deadline=None)
@given(asked=asked_for, seed=st.integers(0, 500), order=st.permutations(range(4)), beam=st.integers(1, 4))
def test_with_any_options_rows_do_not_know_of_each_other(
    asked: dict[str, Any], seed: int, order: list[int], beam: int
) -> None:
    asked = {**asked, "beam": beam, "stopping": "count"}
    model = Started(seed, VOCABULARY + 3)

    def outputs(seeds: list[int]) -> list[Any]:
        try:
            found = search(model, seeds, 6, asked, nbest=1)
        except UserError:
            return [None] * len(seeds)
        return [(one[0].tokens, pytest.approx(one[0].normalised)) for one in found]

    alone = [outputs([place])[0] for place in range(4)]
    if None not in alone:
        assert outputs([0, 1, 2, 3]) == alone
        assert outputs(order) == [alone[place] for place in order]


@pytest.mark.parametrize("seed", range(6))
def test_an_ensemble_is_the_weighted_mean_of_its_models(seed: int) -> None:
    models = [Started(seed, VOCABULARY), Started(seed + 50, VOCABULARY, hidden=4), Started(seed + 90, VOCABULARY)]
    ensemble = Ensemble(models, [1.0, 2.0, 1.0])
    minds = [Mind(model, 3) for model in models]

    def mean(prefix: tuple[int, ...]) -> list[float]:
        parts = zip(*(mind(prefix) for mind in minds), strict=True)
        return [
            math.log(sum(w * math.exp(one) for w, one in zip((0.25, 0.5, 0.25), part, strict=True))) for part in parts
        ]

    expected = exhaustive(mean, 4, {})[:3]
    found = search(ensemble, [3], 4, {})[0]
    assert [one.tokens for one in found] == [tokens for tokens, _, _ in expected]
    assert [one.score for one in found] == pytest.approx([score for _, score, _ in expected], rel=1e-5)


def test_models_that_do_not_match_make_no_ensemble() -> None:
    with pytest.raises(UserError, match="2 models has 1 weights"):
        Ensemble([Started(1, 6), Started(2, 6)], [1.0])
    with pytest.raises(UserError, match="above 0"):
        Ensemble([Started(1, 6), Started(2, 6)], [1.0, 0.0])
    with pytest.raises(UserError, match="6 and 7 tokens"):
        search(Ensemble([Started(1, 6), Started(2, 7)]), [1], 3, {})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam", [3, EVERYTHING])
def test_fusion_adds_the_language_model(seed: int, beam: int) -> None:
    model, language = Started(seed, VOCABULARY), Started(seed + 9, VOCABULARY)
    inner = Mind(language, 5)

    def after_end(prefix: tuple[int, ...]) -> list[float]:  # a language model's text begins after EOS
        state = language.start(torch.tensor([5]))
        for token in (EOS, *prefix):
            logits = language.step(torch.tensor([token]), state)
        return logits.log_softmax(-1)[0].tolist()

    assert inner(()) != after_end(())
    asked = {"fused": after_end, "lm_weight": 0.4, "beam": beam}
    rule = LanguageModelFusion(language, language.start(torch.tensor([5, 5])), 0.4)
    found = search(model, [3, 4], 4, asked, nbest=1, rules=(rule,))
    for row, source in enumerate((3, 4)):
        expected = exhaustive(Mind(model, source), 4, asked)
        best = found[row][0]
        _, score, final = next(one for one in expected if one[0] == best.tokens)
        assert (best.score, best.normalised) == (pytest.approx(score, rel=1e-5), pytest.approx(final, rel=1e-5))
        if beam == EVERYTHING:
            assert best.tokens == expected[0][0]


@pytest.mark.parametrize("seed", range(8))
def test_a_narrow_beam_meets_all_constraints(seed: int) -> None:
    model = Started(seed, 12, sharpness=6.0)
    phrases = [[[7, 8]], [[9], [10, 11]]]
    rule = Constraints([phrases, [], [[[4]]]])
    options = SearchOptions(beam=4, stopping="exact")
    found = decode(DecodingCall(model, torch.tensor([1, 2, 3]), None, 12, options, 2, rules=(rule,)))
    free = decode(DecodingCall(model, torch.tensor([2]), None, 12, options, 2))
    for one in [found[0][0], *(one for one in found[0] if one.finished)]:
        assert contains(tuple(one.tokens), [7, 8])
        assert 9 in one.tokens or contains(tuple(one.tokens), [10, 11])
    assert [one.tokens for one in found[1]] == [one.tokens for one in free[0]]  # no constraints, no change
    assert 4 in found[2][0].tokens


def test_a_phrase_counts_as_words_alone() -> None:
    joins = torch.zeros(8, dtype=torch.bool)
    joins[6:] = True  # 6 and 7 continue a word
    rule = Constraints([[[[4, 6]]]], joins)
    tokens = torch.tensor([[4, 6, 5], [4, 6, 7], [5, 4, 6]])
    assert rule.progress(tokens, torch.zeros(3, dtype=torch.long))[0].tolist() == [True, False, True]
    inner = Constraints([[[[6]]]], joins)  # a piece that itself continues a word, as of characters
    assert inner.progress(torch.tensor([[5, 6], [7, 6]]), torch.zeros(2, dtype=torch.long))[0].tolist() == [True, False]


def test_a_shortlist_leaves_only_its_tokens() -> None:
    model = Started(4, 9)
    allowed = torch.zeros(2, 9, dtype=torch.bool)
    allowed[0, [EOS, 4, 5]] = allowed[1, [EOS, 7, 8]] = True
    found = search(model, [1, 2], 6, {"beam": 4}, nbest=4, rules=(Shortlist(allowed),))
    assert {token for one in found[0] for token in one.tokens} <= {4, 5}
    assert {token for one in found[1] for token in one.tokens} <= {7, 8}


def test_a_sample_depends_on_its_seed_and_row_alone() -> None:
    model = Started(2, 12)
    asked = {"sample": True, "top_k": 8, "seed": 5}

    def texts(seeds: list[int], numbers: list[int], **more: Any) -> list[list[list[int]]]:
        found = search(model, seeds, 8, {**asked, **more}, nbest=3, row_numbers=torch.tensor(numbers))
        return [sorted(one.tokens for one in some) for some in found]

    together = texts([1, 2, 1, 3], [0, 1, 2, 3])
    assert texts([3, 1, 2], [3, 0, 1]) == [together[3], together[0], together[1]]
    assert together[0] != together[2]  # the same source in another line
    assert texts([1], [0], seed=6) != [together[0]]
    for some, source in zip(search(model, [1, 2], 8, asked, nbest=2), (1, 2), strict=True):
        mind = Mind(model, source)
        for one in some:
            ids = [*one.tokens, *[EOS] * one.finished]
            assert one.token_scores == pytest.approx([mind(tuple(ids[:at]))[token] for at, token in enumerate(ids)])


def test_time_and_cancellation_end_a_search_with_what_it_has() -> None:
    model, calls = Started(3, 12, sharpness=0.5), []

    def cancelled() -> bool:
        calls.append(1)
        return len(calls) == 3

    for beam in (1, 4):
        calls.clear()
        found = search(model, [1, 2], 50, {"beam": beam}, nbest=1, cancelled=cancelled)
        assert len(calls) == 3
        assert all(one.finished or len(one.tokens) == 3 for (one,) in found)
    quick = search(model, [1], 50, {"beam": 2, "time_limit": 1e-9}, nbest=1)[0][0]
    assert len(quick.tokens) <= 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 4, "diversity_groups": 3}, "does not divide search.beam = 4"),
        ({"temperature": 0.5}, "search.temperature is for sampling; also set search.sample = true"),
        ({"sample": True, "diversity_groups": 5}, "leave it out where search.sample is true"),
        ({"patience": 2.0, "stopping": "exact"}, "patience is for"),
        ({"beams": 4}, r"no option of the search called 'beams'; did you mean 'beam'\?"),
        ({"top_p": 1.5, "sample": True}, "search.top_p: "),
    ],
)
def test_options_that_do_not_fit_are_refused_with_the_reason(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SearchOptions().changed(wrong)


class Attentive(Started):
    """Attends to three source positions, as the memory says."""

    def step(self, tokens: torch.Tensor, state: MemoryState) -> torch.Tensor:
        logits = super().step(tokens, state)
        state.attention = torch.softmax(state.memory[:, :3] * 2, -1)  # type: ignore[attr-defined]
        return logits


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weight", [0.3, 2.0])
def test_the_coverage_penalty_is_its_definition(seed: int, weight: float) -> None:
    model = Attentive(seed, VOCABULARY)

    def coverage(tokens: list[int]) -> float:
        state, total = model.start(torch.tensor([4])), torch.zeros(3, dtype=torch.float64)
        for token in (BOS, *tokens):
            model.step(torch.tensor([token]), state)
            total += state.attention[0]
        return weight * float(total.clamp(max=1.0).log().sum())

    plain = exhaustive(Mind(model, 4), 4, {})
    right = sorted(((tokens, score, final + coverage(tokens)) for tokens, score, final in plain), key=lambda x: -x[2])
    found = search(model, [4], 4, {"coverage_penalty": weight})[0]
    assert [one.tokens for one in found] == [tokens for tokens, _, _ in right[:3]]
    assert [one.normalised for one in found] == pytest.approx([final for _, _, final in right[:3]], rel=1e-5)
    assert [one.coverage for one in found] == pytest.approx([coverage(one.tokens) for one in found], rel=1e-5)
    greedy = search(model, [4, 5], 6, {"coverage_penalty": weight, "beam": 1}, nbest=1)[0][0]
    if greedy.finished:
        assert greedy.coverage == pytest.approx(coverage(greedy.tokens), rel=1e-5)
