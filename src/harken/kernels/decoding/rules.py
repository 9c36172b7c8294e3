"""Score rules on the log-probabilities of one row, and what constraints ask of a hypothesis.

The references are the classes of `harken.search.rules`. Python lays them out once for a call (`harken.search.program`):
every rule is an operation with a number and a place in an array of integers, and operations act in the order of the
list. Tokens of a hypothesis are an array of which the first `time` entries count.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from harken.kernels.decoding.products import FLAGS
from harken.kernels.decoding.tiles import out_of_line
from harken.kernels.linking import linked_njit

WORST = np.float32(-np.inf)
REPETITION, UNKNOWN, NGRAM, BANNED, PREFIX, CONSTRAINTS, FUSION = range(7)


class Program(NamedTuple):
    """The rules of a call."""

    kinds: Any  # (N,) int64
    values: Any  # (N,) float64: a penalty, a weight, or the bias of a prefix, -1 where it is forced
    starts: Any  # (N,) int64: where in `data` a rule begins
    data: Any  # int64; of BANNED: count, then length and tokens of each; of PREFIX: P, then (B, P) tokens
    constraints: int = -1  # where in `data` they begin, -1: none; see `constraint_sizes`


def no_rules() -> Program:
    """The program that changes nothing."""
    none = np.zeros(0, np.int64)
    return Program(none, np.zeros(0), none, none)


@linked_njit(**FLAGS)
def _lower_repeated(line: Any, past: Any, time: Any, penalty: Any, marks: Any, stamp: Any) -> None:
    """Tokens that were written are multiplied by the penalty, each once."""
    for step in range(time):
        token = past[step]
        if marks[token] != stamp:
            marks[token] = stamp
            line[token] = np.float32(line[token] * np.float32(penalty))


@linked_njit(**FLAGS)
def _ends_with(past: Any, time: Any, data: Any, first: Any, count: Any) -> bool:
    """Whether the last tokens are data[first : first + count]."""
    if count > time:
        return False
    same = 0
    while same < count and past[time - count + same] == data[first + same]:
        same += 1
    return same == count


@linked_njit(**FLAGS)
def _exclude_repeated_ngrams(line: Any, past: Any, time: Any, size: Any) -> None:
    if time >= size:
        for start in range(time - size + 1):
            if _ends_with(past, time, past, start, size - 1):
                line[past[start + size - 1]] = WORST


@linked_njit(**FLAGS)
def _exclude_banned(line: Any, past: Any, time: Any, data: Any, start: Any) -> None:
    at = start + 1
    for _ in range(data[start]):
        length = data[at]
        if _ends_with(past, time, data, at + 1, length - 1):
            line[data[at + length]] = WORST
        at += length + 1


@linked_njit(**FLAGS)
def _follow_prefix(
    line: Any, past: Any, time: Any, source: Any, bias: Any, data: Any, start: Any, special: Any
) -> None:
    size = data[start]
    first = start + 1 + source * size
    if time >= size or data[first + time] == special.pad:
        return
    token = data[first + time]
    if bias < 0:
        kept = line[token]
        line[:] = WORST
        line[token] = kept
        return
    for step in range(time):
        if past[step] != data[first + step]:
            return
    added = np.float32(math.log1p(-bias))
    for k in range(line.shape[0]):
        line[k] += added
    if bias > 0:
        towards, value = np.float32(math.log(bias)), line[token]
        least, most = min(value, towards), max(value, towards)
        line[token] = most + np.float32(math.log1p(math.exp(least - most)))


@linked_njit(**FLAGS)
def apply_rules(
    line: Any, past: Any, time: Any, source: Any, program: Any, special: Any, unknown: Any, marks: Any, stamp: Any,
    fused: Any, state: Any,
) -> None:  # fmt: skip
    """The scores `line` (V,) of the next token of a hypothesis, in place.

    Args:
        past: its tokens, of which `time` count.
        marks: (V,) of earlier calls, none of which had this `stamp`.
        fused: (V,) log-probabilities of a language model, for FUSION.
        state: of its constraints, filled by `follow`.
    """
    out_of_line()
    data = program.data
    for rule in range(program.kinds.shape[0]):
        kind, value, start = program.kinds[rule], program.values[rule], program.starts[rule]
        if kind == REPETITION:
            _lower_repeated(line, past, time, value, marks, stamp)
        elif kind == UNKNOWN:
            line[unknown] -= np.float32(value)
        elif kind == NGRAM:
            _exclude_repeated_ngrams(line, past, time, np.int64(value))
        elif kind == BANNED:
            _exclude_banned(line, past, time, data, start)
        elif kind == PREFIX:
            _follow_prefix(line, past, time, source, value, data, start, special)
        elif kind == CONSTRAINTS:
            follow(data, start, source, past, time, state)
            if not all_met(data, start, state):
                line[special.eos] = WORST
        else:
            weight = np.float32(value)
            for k in range(line.shape[0]):
                line[k] += weight * fused[k]


@linked_njit(**FLAGS)
def constraint_sizes(data: Any, start: Any) -> Any:
    """Alternatives A and constraints C of a source, longest alternative P, and whether some tokens join words."""
    return data[start], data[start + 1], data[start + 2], data[start + 3]


@linked_njit(**FLAGS)
def _places(data: Any, start: Any, source: Any) -> Any:
    """Where lengths (A,), owners (A,) and tokens (A, P) of a source begin, and the marks of joining tokens (V,)."""
    alternatives, _, longest, joins = constraint_sizes(data, start)
    lengths = start + 4 + joins + source * alternatives * (2 + longest)
    return lengths, lengths + alternatives, lengths + 2 * alternatives, start + 4


@linked_njit(**FLAGS)
def follow(data: Any, start: Any, source: Any, past: Any, time: Any, state: Any) -> None:
    """What a hypothesis has of its constraints.

    Args:
        state: (2, max(A, C) + 1): the tokens of each alternative that the hypothesis ends with; whether each constraint
            is met. The constraint of an alternative that is empty is C.
    """
    out_of_line()
    alternatives, count, longest, joined = constraint_sizes(data, start)
    lengths, owners, words, joins = _places(data, start, source)
    for constraint in range(count):
        state[1, constraint] = 1
    for k in range(alternatives):
        if data[owners + k] < count:
            state[1, data[owners + k]] = 0
    for k in range(alternatives):
        length, first = data[lengths + k], words + k * longest
        state[0, k] = 0
        if length == 0:
            continue
        begins_inside = joined > 0 and data[joins + data[first]] > 0
        for at in range(time):
            if begins_inside and at > 0 and data[joins + past[at - 1]] > 0:
                continue
            same = 0
            while same < length and at + same < time and past[at + same] == data[first + same]:
                same += 1
            if same == length:
                if not (joined > 0 and at + length < time and data[joins + past[at + length]] > 0):
                    state[1, data[owners + k]] = 1
            elif at + same == time and state[0, k] == 0:
                state[0, k] = same


@linked_njit(**FLAGS)
def all_met(data: Any, start: Any, state: Any) -> bool:
    """Whether a hypothesis may end."""
    met = 0
    for constraint in range(data[start + 1]):
        met += state[1, constraint]
    return met == data[start + 1]


@linked_njit(**FLAGS)
def progress(data: Any, start: Any, source: Any, state: Any) -> Any:
    """Constraint tokens that are met: of a constraint that is met its shortest alternative, and what is begun."""
    alternatives, count, longest, _ = constraint_sizes(data, start)
    lengths, owners, _, _ = _places(data, start, source)
    total, begun = np.int64(0), np.int64(0)
    for constraint in range(count):
        shortest = longest + 1
        for k in range(alternatives):
            if data[owners + k] == constraint:
                shortest = min(shortest, data[lengths + k])
        if state[1, constraint] > 0 and shortest <= longest:
            total += shortest
    for k in range(alternatives):
        if data[owners + k] < count and state[1, data[owners + k]] == 0:
            begun = max(begun, state[0, k])
    return total + begun


@linked_njit(**FLAGS)
def required(data: Any, start: Any, source: Any, state: Any, pad: Any, tokens: Any) -> None:
    """Tokens (2 A,) that continue or begin a constraint which is not met; PAD where there are none."""
    alternatives, count, longest, _ = constraint_sizes(data, start)
    _, owners, words, _ = _places(data, start, source)
    for k in range(alternatives):
        tokens[k], tokens[alternatives + k] = pad, pad
        if data[owners + k] < count and state[1, data[owners + k]] == 0:
            first = words + k * longest
            tokens[alternatives + k] = data[first]
            if state[0, k] > 0:
                tokens[k] = data[first + state[0, k]]
