"""The options and rules of a call as the compiled search takes them (`harken.kernels.decoding.rules`).

Rules become operations on plain arrays, in the order in which the reference applies them. A class of rules that is not
listed in `LAYOUTS` runs on the reference.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.data.tokenizers.tokens import UNK
from harken.search.config import SearchOptions
from harken.search.hypotheses import SPECIAL_TOKENS
from harken.search.rules.base import ScoreRule
from harken.search.rules.constraints import Constraints
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.rules.penalties import (
    Banned,
    MinimumLength,
    NoRepeatNgram,
    RepetitionPenalty,
    Shortlist,
    UnknownPenalty,
)
from harken.search.rules.prefix import ForcedFirst, Prefix

if TYPE_CHECKING:
    from harken.kernels.decoding.search import Rules

Layout = tuple[str, float, list[int]]  # the operation, its number and its integers


def _banned(rule: Banned) -> Layout:
    sequences = rule.sequences()
    return "BANNED", 0.0, [len(sequences), *(number for row in sequences for number in (len(row), *row))]


def _prefix(rule: Prefix) -> Layout:
    return "PREFIX", -1.0 if rule.bias is None else rule.bias, [rule.tokens.shape[1], *rule.tokens.flatten().tolist()]


def _constraints(rule: Constraints) -> Layout:
    _, alternatives, longest = rule.tokens.shape
    joins = [] if rule.joins is None else np.asarray(rule.joins, np.int64).tolist()
    tokens = rule.tokens.reshape(len(rule.tokens), -1)
    rows = np.concatenate((rule.lengths, rule.constraint, tokens), 1)  # of each source
    return "CONSTRAINTS", 0.0, [alternatives, rule.size, longest, len(joins), *joins, *rows.flatten().tolist()]


LAYOUTS: dict[type[ScoreRule], Callable[[Any], Layout]] = {
    RepetitionPenalty: lambda rule: ("REPETITION", rule.penalty, []),
    UnknownPenalty: lambda rule: ("UNKNOWN", rule.penalty, []),
    NoRepeatNgram: lambda rule: ("NGRAM", rule.size, []),
    Banned: _banned,
    Prefix: _prefix,
    Constraints: _constraints,
    LanguageModelFusion: lambda rule: ("FUSION", 1.0, []),  # what it adds is weighted already
}
ONCE = (Shortlist, ForcedFirst, Constraints, LanguageModelFusion)  # a call has at most one of each
ELSEWHERE = (Shortlist, ForcedFirst, MinimumLength)  # no operations: the search knows them in other ways


def why_not_rules(rules: Sequence[ScoreRule]) -> str | None:
    """The reason for which the compiled search does not know some rules; None: it does."""
    for rule in rules:
        if type(rule) not in LAYOUTS and type(rule) not in ELSEWHERE:
            return f"{type(rule).__name__} is a rule without a compiled form"
    kinds = [type(rule) for rule in rules]
    twice = next((kind for kind in ONCE if kinds.count(kind) > 1), None)
    return None if twice is None else f"there are several rules of the kind {twice.__name__}"


def is_independent(options: SearchOptions, nbest: int, rules: Sequence[ScoreRule]) -> bool:
    """Whether hypotheses do not compete: sampling and greedy search."""
    return options.sample or (options.beam == 1 and nbest == 1 and not any(rule.needs_beam for rule in rules))


def rules_for_kernels(options: SearchOptions, nbest: int, rules: Sequence[ScoreRule]) -> Rules:
    """All options of a search, and its rules in order."""
    from harken.kernels.decoding import rules as kernels
    from harken.kernels.decoding.search import Rules

    kinds, values, starts, data, constraints = [], [], [], list[int](), -1
    for rule in rules:
        if type(rule) in LAYOUTS:
            kind, value, integers = LAYOUTS[type(rule)](rule)
            constraints = len(data) if kind == "CONSTRAINTS" else constraints
            kinds.append(getattr(kernels, kind))
            values.append(float(value))
            starts.append(len(data))
            data += integers
    program = kernels.Program(
        np.array(kinds, np.int64), np.array(values), np.array(starts, np.int64), np.array(data, np.int64), constraints
    )
    is_greedy, beam = options.beam == 1 and nbest == 1, nbest if options.sample else options.beam
    stopping, patience = ("count", 1.0) if is_greedy else (options.stopping, options.patience)
    return Rules(
        special=SPECIAL_TOKENS,
        beam=beam,
        nbest=nbest,
        length_penalty=float(options.length_penalty),
        gnmt=options.length_rule == "gnmt",
        forced=next((rule.token for rule in rules if isinstance(rule, ForcedFirst)), -1),
        max_finished=float(beam * patience) if stopping == "count" else math.inf,
        first=stopping == "first",
        independent=is_independent(options, nbest, rules),
        word_reward=float(options.word_reward),
        coverage_penalty=float(options.coverage_penalty),
        groups=1 if options.sample else options.diversity_groups,
        diversity=float(options.diversity),
        sample=options.sample,
        temperature=float(options.temperature),
        top_k=options.top_k or 0,
        top_p=1.0 if options.top_p is None else options.top_p,
        min_p=options.min_p or 0.0,
        seed=options.seed,
        unknown=UNK,
        program=program,
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


interrupted: ContextVar[Callable[[], bool] | None] = ContextVar("interrupted", default=None)
"""Asked at every step of the searches of a thread, where they have steps; unlike `cancelled` it chooses no backend."""


def stopper(seconds: float | None, cancelled: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """Whether to end the search now, because its time is over or it was cancelled; None: it always goes on."""
    checks = [check for check in (cancelled, interrupted.get()) if check is not None]
    if seconds is not None:
        end = time.monotonic() + seconds
        checks.append(lambda: time.monotonic() >= end)
    return (lambda: any(check() for check in checks)) if checks else None
