"""Options of the search drawn together: the engine against plain Python, the compiled search against the engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise
from typing import Any

import plain_search
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plain_search import VOCABULARY, Mind, Started
from step_models import TinyRecurrent

from harken.data.tokenizers.tokens import EOS, UNK
from harken.errors import UserError
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.search.compiled import KERNELS
from harken.search.config import SearchOptions
from harken.search.dispatch import COMPILED, DecodingCall, choose, decode, run_reference
from harken.search.ensemble import Ensemble
from harken.search.hypotheses import Hypothesis
from harken.search.rules.constraints import Constraints
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.rules.penalties import Banned, Shortlist
from harken.search.rules.prefix import ForcedFirst, Prefix

torch.set_num_threads(1)
EVERYTHING = 120  # a group of this width keeps all hypotheses of at most four tokens
OPTIONS = SearchOptions.model_fields.keys()
TOLERANCE = 1e-4  # of scores, between float32 backends

words = st.lists(st.sampled_from([4, 5]), min_size=1, max_size=2)
RULES: dict[str, Any] = {
    "length_rule": st.sampled_from(["power", "gnmt"]),
    "length_penalty": st.sampled_from([0.0, 0.6, 1.0, 1.5]),
    "word_reward": st.sampled_from([-0.4, 0.3]),
    "min_length": st.integers(1, 2),
    "no_repeat_ngram": st.integers(1, 2),
    "repetition_penalty": st.sampled_from([1.0, 1.7]),
    "unknown_penalty": st.sampled_from([0.5, math.inf]),
    "banned": st.lists(st.lists(st.sampled_from([UNK, 4, 5]), min_size=1, max_size=2), max_size=2),
    "prefix": words,
    "bias": st.sampled_from([None, 0.0, 0.6]),
    "language_model": st.integers(0, 50),
    "shortlist": st.lists(st.sampled_from([UNK, 4, 5]), min_size=2, max_size=3, unique=True),
    "ensemble": st.integers(1, 50),
    "diversity_groups": st.sampled_from([2, 3]),
    "diversity": st.sampled_from([0.0, 0.7]),
}
PHRASES = {"phrases": st.lists(st.lists(words, min_size=1, max_size=2), max_size=2)}
STOPPING = st.one_of(
    st.just({"stopping": "exact"}),
    st.just({"stopping": "first"}),
    st.fixed_dictionaries({"stopping": st.just("count"), "patience": st.sampled_from([0.5, 1.0, 2.0])}),
)


class Drawn:
    """A model and rules that a test has drawn, for the engine and for plain Python."""

    def __init__(self, asked: dict[str, Any], seed: int) -> None:
        model = Started(seed, VOCABULARY)
        self.model: Any = model
        if "ensemble" in asked:
            self.model = Ensemble([model, Started(asked["ensemble"], VOCABULARY, hidden=4)], [1.0, 2.0])
        self.mind, self.asked = Mind(self.model, 7), dict(asked)
        if "language_model" in asked:
            self.language = Started(asked["language_model"], VOCABULARY)
            self.asked |= {"fused": self._after_end, "lm_weight": 0.4}

    def _after_end(self, prefix: tuple[int, ...]) -> list[float]:
        state = self.language.start(torch.tensor([5]))
        for token in (EOS, *prefix):
            logits = self.language.step(torch.tensor([token]), state)
        return logits.log_softmax(-1)[0].tolist()

    def decode(self, limit: int, nbest: int, **options: Any) -> list[Hypothesis]:
        asked, rules = self.asked, list[Any]()
        if "banned" in asked:
            rules.append(Banned(asked["banned"]))
        if "prefix" in asked:
            rules.append(Prefix([asked["prefix"]], asked.get("bias")))
        if "phrases" in asked:
            rules.append(Constraints([asked["phrases"]]))
        if "language_model" in asked:
            rules.append(LanguageModelFusion(self.language, self.language.start(torch.tensor([5])), asked["lm_weight"]))
        if "shortlist" in asked:
            allowed = torch.zeros(1, VOCABULARY, dtype=torch.bool)
            allowed[:, asked["shortlist"]] = True
            rules.append(Shortlist(allowed))
        drawn = {name: value for name, value in asked.items() if name in OPTIONS and name != "language_model"}
        call = DecodingCall(
            self.model, torch.tensor([7]), None, limit, SearchOptions(**drawn | options), nbest, rules=tuple(rules)
        )
        try:
            return decode(call)[0]
        except UserError as refused:
            assert "leave no output" in str(refused)
            return []


@settings(max_examples=60, deadline=None)
@given(
    asked=st.fixed_dictionaries({}, optional=RULES | PHRASES),
    seed=st.integers(0, 500),
    limit=st.integers(1, 4),
    nbest=st.integers(1, 5),
)
def test_a_beam_that_keeps_everything_equals_exhaustive_search(
    asked: dict[str, Any], seed: int, limit: int, nbest: int
) -> None:
    drawn = Drawn(asked, seed)
    expected = plain_search.exhaustive(drawn.mind, limit, drawn.asked)[:nbest]
    hypotheses = drawn.decode(limit, nbest, beam=EVERYTHING * asked.get("diversity_groups", 1), stopping="exact")
    if not expected:
        assert not any(hypothesis.finished for hypothesis in hypotheses)
        return
    assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for tokens, _, _ in expected]
    _, scores, ranks = zip(*expected, strict=True)
    assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(scores, 1e-5)
    assert [hypothesis.normalised for hypothesis in hypotheses] == pytest.approx(ranks, 1e-5)


@settings(max_examples=150, deadline=None)
@given(
    asked=st.fixed_dictionaries({"size": st.integers(1, 3)}, optional=RULES),
    stopping=STOPPING,
    seed=st.integers(0, 500),
    limit=st.integers(1, 6),
    data=st.data(),
)
def test_a_narrow_beam_equals_beam_search_in_plain_lists(
    asked: dict[str, Any], stopping: dict[str, Any], seed: int, limit: int, data: st.DataObject
) -> None:
    width = asked.pop("size") * asked.get("diversity_groups", 1)
    assume(width > 1)
    nbest = data.draw(st.integers(1, width))
    drawn = Drawn({**asked, **stopping, "beam": width}, seed)
    expected = plain_search.beam(drawn.mind, limit, drawn.asked)[:nbest]
    hypotheses = drawn.decode(limit, nbest)
    if not expected:
        assert not any(hypothesis.finished for hypothesis in hypotheses)
        return
    assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for tokens, _ in expected]
    assert [hypothesis.normalised for hypothesis in hypotheses] == pytest.approx([rank for _, rank in expected], 1e-5)


SIZE = 24
NETWORKS: dict[str, Callable[[], Any]] = {
    "transformer": lambda: TransformerConfig(layers=1, width=16, heads=2, feedforward=24, dropout=0.0),
    "ssru": lambda: TransformerConfig(
        layers=1, width=16, heads=2, feedforward=24, dropout=0.0, decoder_mixer="ssru", positions="learned"
    ),
    "lstm": lambda: RecurrentConfig(embedding=10, width=12, attention="additive"),
    "gru": lambda: RecurrentConfig(embedding=10, width=12, cell="gru", attention="none", context="constant"),
}


@cache
def network(kind: str) -> Any:
    """Random weights, sharp enough that hypotheses differ, with an EOS that some of them reach."""
    torch.manual_seed(11)
    model = build_model(NETWORKS[kind](), SIZE, SIZE).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
        model.output_weight[EOS] *= 2.5
    return model


@pytest.fixture(scope="module")
def kernels() -> None:
    for search in KERNELS.values():
        search.load()


def calls(kind: str, rows: int, seed: int, shortlisted: bool, options: dict[str, Any], nbest: int) -> DecodingCall:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (rows,), generator=generator)
    lengths[0] = 7
    source = torch.randint(4, SIZE, (rows, 7), generator=generator)
    source = source.masked_fill(torch.arange(7) >= lengths[:, None], 0)
    limits = torch.randint(1, 12, (rows,), generator=generator)
    rules = (Shortlist(torch.rand(rows, SIZE, generator=generator) < 0.8),) if shortlisted else ()
    return DecodingCall(network(kind), source, lengths, limits, SearchOptions(**options), nbest, rules=rules)


def assert_equal(rows: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """Equal tokens, but for hypotheses whose ranks differ by rounding alone; scores to `TOLERANCE`."""
    assert [len(row) for row in rows] == [len(row) for row in expected]
    for row, others in zip(rows, expected, strict=True):
        assert [h.normalised for h in row] == pytest.approx([h.normalised for h in others], abs=TOLERANCE)
        assert [h.finished for h in row] == [h.finished for h in others]
        ranks = [h.normalised for h in others]
        tied = any(abs(a - b) < TOLERANCE for a, b in pairwise(ranks))
        if not tied:
            assert [h.tokens for h in row] == [h.tokens for h in others]
            scores, other_scores = (list(chain(*(h.token_scores for h in some))) for some in (row, others))
            assert scores == pytest.approx(other_scores, abs=TOLERANCE)


COMPILED_OPTIONS = {
    "beam": st.integers(1, 5),
    "length_penalty": st.sampled_from([0.0, 0.6, 1.0, 1.5]),
    "length_rule": st.sampled_from(["power", "gnmt"]),
    "min_length": st.integers(0, 4),
    "seed": st.integers(0, 9),
}
RANKED = {
    "word_reward": st.sampled_from([-0.4, 0.3]),
    "coverage_penalty": st.sampled_from([0.3]),
    "no_repeat_ngram": st.integers(1, 3),
    "repetition_penalty": st.sampled_from([1.2, 1.7]),
    "unknown_penalty": st.sampled_from([0.5, math.inf]),
}
SAMPLED = {
    "temperature": st.sampled_from([0.0, 0.7, 1.6]),
    "top_k": st.sampled_from([1, 4, 100]),
    "top_p": st.sampled_from([0.3, 0.9, 1.0]),
    "min_p": st.sampled_from([0.0, 0.1]),
}
SEARCHED = st.one_of(
    STOPPING,
    st.fixed_dictionaries({"sample": st.just(True)}, optional=SAMPLED),
    st.fixed_dictionaries({"groups": st.integers(2, 3), "diversity": st.sampled_from([0.0, 0.7, 3.0])}),
)
tokens = st.lists(st.integers(4, SIZE - 1), min_size=1, max_size=2)
SCORE_RULES = {
    "banned": st.lists(st.lists(st.integers(4, SIZE - 1), min_size=1, max_size=3), min_size=1, max_size=4),
    "first": st.integers(4, SIZE - 1),
    "prefix": st.lists(st.integers(4, SIZE - 1), max_size=3),
    "bias": st.sampled_from([None, 0.0, 0.6]),
    "phrases": st.lists(st.lists(tokens, min_size=1, max_size=2), max_size=2),
    "joins": st.booleans(),
    "weight": st.just(0.4),
}


def score_rules(drawn: dict[str, Any], rows: int) -> tuple[Any, ...]:
    """Rules for a call, new ones every time: a language model has a state."""
    rules = list[Any]()
    if "banned" in drawn:
        rules.append(Banned(drawn["banned"]))
    if "first" in drawn:
        rules.append(ForcedFirst(drawn["first"]))
    elif "prefix" in drawn:
        prefixes = [drawn["prefix"] if row % 2 == 0 else drawn["prefix"][:1] for row in range(rows)]
        rules.append(Prefix(prefixes, drawn.get("bias")))
    if "phrases" in drawn:
        joins = torch.arange(SIZE) % 5 == 4 if drawn.get("joins") else None
        rules.append(Constraints([drawn["phrases"] if row % 3 == 0 else [] for row in range(rows)], joins))
    if "weight" in drawn:
        language = TinyRecurrent(3, SIZE)
        rules.append(LanguageModelFusion(language, language.start(rows), drawn["weight"]))
    return tuple(rules)


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(sorted(NETWORKS)),
    options=st.fixed_dictionaries(COMPILED_OPTIONS, optional=RANKED),
    searched=SEARCHED,
    drawn=st.fixed_dictionaries({}, optional=SCORE_RULES),
    rows=st.sampled_from([1, 4, 7]),
    seed=st.integers(0, 500),
    second=st.sampled_from([None, None, None, *sorted(NETWORKS)]),
    shortlisted=st.booleans(),
    data=st.data(),
)
def test_the_compiled_search_equals_the_reference_with_any_options_and_rules(
    kernels: None,
    kind: str,
    options: dict[str, Any],
    searched: dict[str, Any],
    drawn: dict[str, Any],
    rows: int,
    seed: int,
    second: str | None,
    shortlisted: bool,
    data: st.DataObject,
) -> None:
    groups = searched.pop("groups", 1)
    options |= searched | (
        {"diversity_groups": groups, "beam": groups * data.draw(st.integers(1, 2))} if groups > 1 else {}
    )
    if options.get("coverage_penalty") and "gru" in (kind, second):
        del options["coverage_penalty"]  # it has no attention
    if options.get("sample"):
        drawn.pop("phrases", None)
    nbest = data.draw(st.integers(1, 4 if options.get("sample") else options["beam"]))
    whole = calls(kind, rows, seed, shortlisted and second is None, options, nbest)
    if second is not None and not options.get("coverage_penalty"):
        whole = replace(whole, model=Ensemble([whole.model, network(second)], [1.0, 2.0]))
    whole = replace(whole, max_lengths=torch.as_tensor(whole.max_lengths) + 3)
    for rule in whole.rules:
        rule.allowed[..., drawn.get("first", EOS)] = True
    call, other = (replace(whole, rules=(*score_rules(drawn, rows), *whole.rules)) for _ in range(2))
    least = min([SIZE, *(int(rule.allowed.sum(-1).min()) for rule in whole.rules)])
    if COMPILED.why_not(call) is not None:
        assert not options.get("sample") and least < 2 * options["beam"] + 3, COMPILED.why_not(call)
        return
    try:
        expected = run_reference(other)
    except UserError as refused:
        assert "leave no output" in str(refused)
        with pytest.raises(UserError, match="leave no output"):
            COMPILED.decode(call)
        return
    found = COMPILED.decode(call)
    if options.get("sample"):
        assert [[h.tokens for h in row] for row in found] == [[h.tokens for h in row] for row in expected]
    assert_equal(found, expected)
    for row, others in zip(found, expected, strict=True):
        for hypothesis, same in zip(row, others, strict=True):
            if hypothesis.tokens == same.tokens:
                assert hypothesis.added == pytest.approx(same.added, abs=2 * TOLERANCE * len(row))
                assert hypothesis.coverage == pytest.approx(same.coverage, abs=TOLERANCE)


def test_a_token_that_is_required_and_probable_is_one_candidate_of_each_group(kernels: None) -> None:
    rules = (ForcedFirst(17), Constraints([[[[17]]]]))
    options = SearchOptions(beam=6, diversity_groups=3, diversity=3.0)
    call = calls("transformer", 1, 3, False, options.model_dump(), 6)
    call, live = replace(call, max_lengths=1 + 1, rules=rules), []
    run_reference(replace(call, observe=lambda step: live.append(int((step.scores > -math.inf).sum()))))
    assert live == [3, 6]  # after the forced token each group has one hypothesis
    assert_equal(COMPILED.decode(call), run_reference(call))


def flat(kind: str, rows: int) -> DecodingCall:
    """All tokens are equally probable, so that every choice is one between equals."""
    torch.manual_seed(1)
    model = build_model(NETWORKS[kind](), SIZE, SIZE).eval()
    with torch.no_grad():
        model.output_weight.zero_()
        if model.output_bias is not None:
            model.output_bias.zero_()
    options = SearchOptions(beam=3, length_penalty=1.0, min_length=1)
    return DecodingCall(model, torch.randint(4, SIZE, (rows, 5)), None, 4, options, 3)


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_ties_are_broken_alike_in_both_backends(kernels: None, kind: str) -> None:
    call = flat(kind, 3)
    assert choose(call) is COMPILED
    for rows in (COMPILED.decode(call), run_reference(call)):
        for row in rows:  # of equals the first to finish, then the better-ranked parent, then the lower id
            assert [hypothesis.tokens for hypothesis in row] == [[1], [1, 1], [1, 1, 1]]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 500), limit=st.integers(1, 8), stopping=STOPPING)
def test_a_beam_of_one_is_greedy_where_it_is_watched_too(seed: int, limit: int, stopping: dict[str, Any]) -> None:
    options = SearchOptions(beam=1, **stopping)
    call = DecodingCall(Started(seed, VOCABULARY), torch.tensor([7, 8]), None, limit, options)
    assert decode(replace(call, keep_beam=True)) == decode(call)


def test_the_default_stopping_rule_returns_the_best_that_its_beam_can_reach() -> None:
    """Stopping by count gives hypotheses below those of greedy search; the default is never below either."""
    below_greedy = {"count": 0, "default": 0}
    for seed in range(60):
        call = DecodingCall(Started(seed, 12, sharpness=2.0), torch.arange(5), None, 15, SearchOptions())
        counted, greedy = SearchOptions(stopping="count"), SearchOptions(beam=1)
        best, early, narrow = (
            [row[0] for row in decode(replace(call, options=o))] for o in (call.options, counted, greedy)
        )
        for default, count, one_path in zip(best, early, narrow, strict=True):
            assert default.normalised >= count.normalised - 1e-9
            below_greedy["default"] += one_path.finished and default.normalised < one_path.normalised - 1e-9
            below_greedy["count"] += one_path.finished and count.normalised < one_path.normalised - 1e-9
    assert below_greedy["default"] < below_greedy["count"] / 4, below_greedy


def test_patience_implies_stopping_by_count() -> None:
    assert SearchOptions(patience=2.0).stopping == SearchOptions().changed({"patience": 2.0}).stopping == "count"
    assert SearchOptions.model_validate({"stopping": "count"}).stopping == "count"
    with pytest.raises(UserError, match=r"search\.patience is for"):
        SearchOptions().changed({"patience": 2.0, "stopping": "exact"})


def test_phrases_and_sampling_are_refused_before_a_backend_is_chosen() -> None:
    call = DecodingCall(None, torch.tensor([7]), None, 4, SearchOptions(sample=True), rules=(Constraints([[[[4]]]]),))
    with pytest.raises(UserError, match="need beam search; leave search"):
        decode(call)
