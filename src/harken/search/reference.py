"""The reference backend of `harken.search.dispatch`: search over the decoder step, for any model and every option."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from harken.errors import UserError
from harken.search.beam import beam_search
from harken.search.config import SearchOptions
from harken.search.greedy import independent_search
from harken.search.hypotheses import Hypothesis
from harken.search.ranking import Ranking
from harken.search.rules.base import ScoreRule
from harken.search.rules.constraints import Constraints
from harken.search.rules.penalties import MinimumLength, NoRepeatNgram, RepetitionPenalty, UnknownPenalty
from harken.search.sampling import Sampling

if TYPE_CHECKING:
    from harken.search.dispatch import DecodingCall


def run_reference(call: DecodingCall) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first."""
    options, given = call.options, () if call.distances is None else (call.distances,)
    longest = int(torch.as_tensor(call.max_lengths).max())
    state = call.model.start(call.source, call.lengths, *given, max_length=longest)
    visible = None
    if call.lengths is not None and options.coverage_penalty:
        visible = torch.arange(call.source.shape[1], device=call.lengths.device) < call.lengths[:, None]
    rules = [*rules_of(options), *call.rules]
    shared: dict[str, Any] = {
        "max_lengths": call.max_lengths,
        "ranking": ranking_of(options),
        "rules": rules,
        "visible": visible,
        "should_stop": stopper(options.time_limit, call.cancelled),
        "observe": call.observe,
        "device": call.source.device,
    }
    if options.sample:
        if any(isinstance(rule, Constraints) for rule in rules):
            raise UserError("phrases that an output must contain need beam search; leave search.sample out")
        kind = options.temperature, options.top_k, options.top_p, options.min_p, options.seed
        sampling = Sampling(*kind, call.row_numbers)
        return independent_search(call.model, state, call.rows, sampling=sampling, samples=call.nbest, **shared)
    constrained = any(isinstance(rule, Constraints) for rule in rules)
    if options.beam == 1 and call.nbest == 1 and not constrained and not call.keep_beam:
        return independent_search(call.model, state, call.rows, **shared)
    return beam_search(
        call.model,
        state,
        call.rows,
        beam=options.beam,
        nbest=call.nbest,
        stopping=options.stopping,
        patience=options.patience,
        groups=options.diversity_groups,
        diversity=options.diversity,
        **shared,
    )


def rules_of(options: SearchOptions) -> list[ScoreRule]:
    """The score rules that options ask for, in the order in which they act."""
    rules: list[ScoreRule] = []
    if options.repetition_penalty != 1:
        rules.append(RepetitionPenalty(options.repetition_penalty))
    if options.unknown_penalty:
        rules.append(UnknownPenalty(options.unknown_penalty))
    if options.no_repeat_ngram:
        rules.append(NoRepeatNgram(options.no_repeat_ngram))
    if options.min_length:
        rules.append(MinimumLength(options.min_length))
    return rules


def ranking_of(options: SearchOptions) -> Ranking:
    """The final score that options ask for."""
    return Ranking(options.length_penalty, options.length_rule, options.word_reward, options.coverage_penalty)


def stopper(seconds: float | None, cancelled: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """Whether to end the search now, because its time is over or it was cancelled; None: it always goes on."""
    if seconds is None:
        return cancelled
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end or (cancelled is not None and cancelled())
