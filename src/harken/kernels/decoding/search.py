"""Greedy and beam search in one compiled loop: embedding, decoder, output layer, selection, no Python per token.

The references are `harken.search.greedy` and `harken.search.beam`: candidates, ties, stopping rules and scores are the
same, in float32. Rows of a source that is done leave the batch at once.

A live row is a hypothesis. `read.tokens[t, i]` is the token that row i read at step t, and `ancestors[i, s]` is the row
of step s that a hypothesis descends from, so its tokens are read.tokens[s, ancestors[i, s]] for s = 1, 2, ...
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from harken.kernels.caching import cached_njit
from harken.kernels.decoding.description import SpecialTokens
from harken.kernels.decoding.products import COLUMNS, FLAGS
from harken.kernels.decoding.stack import (
    decoder_step,
    embed,
    new_buffers,
    normalise_embeddings,
    project_memory,
    whole_panels,
)
from harken.kernels.decoding.tiles import out_of_line
from harken.kernels.decoding.topk import CHUNK, WIDEST, most_probable

WORST = np.float32(-np.inf)


class Rules(NamedTuple):
    """How to search."""

    special: SpecialTokens
    beam: int  # 1: greedy
    nbest: int
    penalty: float  # exponent of the length in normalised = score / length ** penalty
    gnmt: bool = False  # (5 + length) / 6 in place of the length
    forced: int = -1  # the first token of every output, which costs nothing; -1: any
    max_finished: float = math.inf  # stop a source after this many finished hypotheses, too


@numba.njit(**FLAGS)
def _divisor(rules: Any, length: Any) -> Any:
    """The divisor of the score of a hypothesis of this length; see `harken.search.ranking`."""
    base = (5.0 + length) / 6.0 if rules.gnmt else float(length)
    return np.float32(base**rules.penalty)


class SearchResult(NamedTuple):
    """The best hypotheses of each source, best first, (B, nbest) each; see `empty_result`."""

    tokens: Any  # (B, nbest, T) int32, without EOS
    lengths: Any  # tokens of each; -1: no such hypothesis
    scores: Any  # float32
    normalised: Any  # float32
    finished: Any  # bool
    logs: Any  # (B, nbest, T) float32: log-probability of each token, then of EOS if finished


def empty_result(batch: int, nbest: int, longest: int) -> SearchResult:
    """A result without hypotheses, which `decode` fills."""
    return SearchResult(
        np.zeros((batch, nbest, longest), np.int32),
        np.full((batch, nbest), -1),
        np.full((batch, nbest), WORST),
        np.full((batch, nbest), WORST),
        np.zeros((batch, nbest), np.bool_),
        np.zeros((batch, nbest, longest), np.float32),
    )


def starts_of(sizes: Any) -> Any:
    """Where each of the sources of these lengths starts when they lie one after the other, and the end.

    >>> starts_of(np.array([3, 1])).tolist()
    [0, 3, 4]
    """
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


class Read(NamedTuple):
    """The tokens that each row read at each step, (T + 1, R) each."""

    tokens: Any
    logs: Any  # the log-probability it was chosen with


class Live(NamedTuple):
    """The live rows of one step, (R,) each."""

    sources: Any
    scores: Any
    ancestors: Any  # (R, T)


@numba.njit(**FLAGS)
def _write(
    result: Any, source: Any, slot: Any, score: Any, norm: Any, read: Any, past: Any, time: Any, last: Any, log: Any,
    finished: Any,
) -> None:  # fmt: skip
    """The hypothesis that read the rows `past` up to step `time`, and then the token `last`; EOS finishes it."""
    out_of_line()
    line, logs = result.tokens[source, slot], result.logs[source, slot]
    for step in range(1, time + 1):
        line[step - 1], logs[step - 1] = read.tokens[step, past[step]], read.logs[step, past[step]]
    logs[time] = log
    result.finished[source, slot] = finished
    if not finished:
        line[time] = last
    result.lengths[source, slot] = time if finished else time + 1
    result.scores[source, slot], result.normalised[source, slot] = score, score / norm


@numba.njit(**FLAGS)
def _insert(result: Any, source: Any, score: Any, norm: Any, read: Any, past: Any, time: Any, log: Any) -> None:
    """A finished hypothesis takes its place among those of its source, behind those that are equal."""
    best, slot = result.normalised[source], result.normalised.shape[1] - 1
    if not score / norm > best[slot]:
        return
    while slot > 0 and best[slot - 1] < score / norm:
        best[slot], result.scores[source, slot] = best[slot - 1], result.scores[source, slot - 1]
        result.lengths[source, slot], result.finished[source, slot] = result.lengths[source, slot - 1], True
        for step in range(time + 1):  # earlier ones are no longer than this one
            result.tokens[source, slot, step] = result.tokens[source, slot - 1, step]
            result.logs[source, slot, step] = result.logs[source, slot - 1, step]
        slot -= 1
    _write(result, source, slot, score, norm, read, past, time, np.int64(0), log, True)


@numba.njit(**FLAGS)
def _candidates(scores: Any, logs: Any, first: Any, live: Any, heads: Any, picks: Any, totals: Any) -> int:
    """Merges the sorted continuations of `live` rows from `first` on; fills (row, place) and score, returns how many.

    Of equal scores the better-ranked row comes first, then the better continuation.
    """
    for row in range(live):
        heads[row] = 0
    for pick in range(len(totals)):
        best, winner = WORST, -1
        for row in range(live):
            if heads[row] < logs.shape[1]:
                total = scores[first + row] + logs[first + row, heads[row]]
                if winner < 0 or total > best:
                    best, winner = total, row
        if winner < 0:
            return pick
        picks[pick, 0], picks[pick, 1], totals[pick] = first + winner, heads[winner], best
        heads[winner] += 1
    return len(totals)


@numba.njit(**FLAGS)
def _survive(
    now: Any, then: Any, read: Any, parent: Any, row: Any, time: Any, source: Any, token: Any, score: Any, log: Any
) -> None:
    """Row `row` of the next step continues row `parent` of this one."""
    then.sources[row], then.scores[row] = source, score
    read.tokens[time + 1, row], read.logs[time + 1, row] = token, log
    for step in range(time + 1):
        then.ancestors[row, step] = now.ancestors[parent, step]


@numba.njit(**FLAGS)
def _advance_greedy(
    now: Any, then: Any, read: Any, rows: Any, time: Any, logs: Any, ids: Any, limits: Any, norm: Any, end: Any,
    result: Any,
) -> Any:  # fmt: skip
    """The most probable token of each row; returns the rows of the next step."""
    out_of_line()
    left = np.int64(0)
    for row in range(rows):
        source, score, token = now.sources[row], now.scores[row] + logs[row, 0], ids[row, 0]
        if token == end or limits[source] <= time + 1:
            past, slot = now.ancestors[row], np.int64(0)
            _write(result, source, slot, score, norm, read, past, time, token, logs[row, 0], token == end)
        else:
            _survive(now, then, read, row, left, time, source, token, score, logs[row, 0])
            left += 1
    return left


@numba.njit(**FLAGS)
def _advance_beam(
    now: Any, then: Any, read: Any, rows: Any, live: Any, time: Any, logs: Any, ids: Any, limits: Any, norm: Any,
    rules: Any, ended: Any, result: Any,
) -> Any:  # fmt: skip
    """The best continuations of each source; `ended` (B,) counts what finished. Returns the rows of the next step."""
    out_of_line()
    beam, left = rules.beam, np.int64(0)
    heads, picks = np.empty(beam, np.int64), np.empty((2 * beam, 2), np.int64)
    totals, chosen = np.empty(2 * beam, np.float32), np.empty((beam, 2), np.int64)
    survivors, gained = np.empty(beam, np.float32), np.empty(beam, np.float32)
    for first in range(0, rows, live):
        source, filled = now.sources[first], 0
        count = _candidates(now.scores, logs, first, live, heads, picks, totals)
        for pick in range(count):
            row, choice, score = picks[pick, 0], picks[pick, 1], totals[pick]
            token, log = ids[row, choice], logs[row, choice]
            if token == rules.special.eos:
                if pick < beam and score > WORST:  # below the beam it would not have survived either
                    _insert(result, source, score, norm, read, now.ancestors[row], time, log)
                    ended[source] += 1
            elif filled < beam:
                chosen[filled, 0], chosen[filled, 1], survivors[filled], gained[filled] = row, token, score, log
                filled += 1
        while filled < beam:  # a vocabulary with fewer tokens than the beam
            chosen[filled, 0], chosen[filled, 1], survivors[filled], gained[filled] = (
                first,
                rules.special.pad,
                WORST,
                WORST,
            )
            filled += 1
        reachable = survivors[0] / _divisor(rules, limits[source])
        done = limits[source] <= time + 1 or result.normalised[source, rules.nbest - 1] >= reachable
        if not done and ended[source] < rules.max_finished:
            for slot in range(beam):
                row, token = chosen[slot, 0], chosen[slot, 1]
                _survive(now, then, read, row, left + slot, time, source, token, survivors[slot], gained[slot])
            left += beam
        elif result.lengths[source, 0] < 0:  # nothing has finished
            for slot in range(rules.nbest):
                if survivors[slot] > WORST:
                    past = now.ancestors[chosen[slot, 0]]
                    token = chosen[slot, 1]
                    _write(result, source, slot, survivors[slot], norm, read, past, time, token, gained[slot], False)
    return left


def make_search(step: Any) -> Any:
    """The compiled search over a compiled step.

    Args:
        step: step(packed, decoder, state, b, tokens (R,), sources (R,), ancestors (R, T), rows, time), which leaves the
            input of the output layer in b.values.

    Returns:
        A function that decodes all sources of a batch into `result`; False where the model's outputs are not finite
        numbers. Its arguments limits and minimums (B,) are the most and the fewest tokens of each source, EOS included;
        stop (1,) is read at every step: where another thread sets it, the search ends and `result` is incomplete; the
        last product of `last` is the output layer: `last` is `packed` itself or, with a shortlist, the part that
        `allowed` describes.
    """

    @numba.njit(**FLAGS)
    def search(
        packed: Any, decoder: Any, state: Any, b: Any, limits: Any, minimums: Any, rules: Any, stop: Any, result: Any,
        last: Any, allowed: Any,
    ) -> bool:  # fmt: skip
        batch, longest, output = limits.shape[0], limits.max(), last.products.shape[0] - 1
        most, choices = batch * rules.beam, 1 if rules.beam == 1 else 2 * rules.beam
        chunk = _aligned_chunk(most)
        logs, ids = np.empty((most, choices), np.float32), np.empty((most, choices), np.int64)
        no_end, ended = np.zeros(most, np.bool_), np.zeros(batch, np.int64)
        first = np.full((longest + 1, most), rules.special.bos, np.int32)
        read = Read(first, np.zeros((longest + 1, most), np.float32))
        now = Live(np.arange(most), np.zeros(most, np.float32), np.empty((most, longest), np.int32))
        then = Live(np.empty(most, np.int64), np.empty(most, np.float32), np.empty((most, longest), np.int32))
        rows, live, time = batch, np.int64(1), np.int64(0)
        while rows > 0 and stop[0] == 0:
            for row in range(rows):
                now.ancestors[row, time] = row
                no_end[row] = time + 1 < minimums[now.sources[row]]
            step(packed, decoder, state, b, read.tokens[time], now.sources, now.ancestors, rows, time)
            if time == 0 and rules.forced >= 0:
                for row in range(rows):
                    source = now.sources[row]
                    _survive(now, then, read, row, row, time, source, rules.forced, np.float32(0), np.float32(0))
                now, then, time = then, now, time + 1
                continue
            if not most_probable(
                last, output, b, rows, choices, chunk, logs, ids, no_end, rules.special, allowed, now.sources
            ):
                return False
            norm = _divisor(rules, time + 1)
            if rules.beam == 1:
                rows = _advance_greedy(now, then, read, rows, time, logs, ids, limits, norm, rules.special.eos, result)
            else:
                rows = _advance_beam(now, then, read, rows, live, time, logs, ids, limits, norm, rules, ended, result)
            now, then, live, time = then, now, rules.beam, time + 1
        return True

    return search


class TransformerState(NamedTuple):
    """The inputs, caches and scratch memory of a Transformer's steps."""

    table: Any  # (V, D) target embeddings
    memory: Any  # (L, tokens, 2 D) keys and values of the sources
    starts: Any
    cache: Any  # (L, T, R, 2 D)
    scores: Any
    places: Any


@numba.njit(**FLAGS)
def _transformer_step(
    packed: Any, blocks: Any, state: Any, b: Any, tokens: Any, sources: Any, ancestors: Any, rows: Any, time: Any
) -> None:
    for row in range(rows):
        embed(blocks, state.table, np.int64(tokens[row]), time, b.values[row])
    normalise_embeddings(packed, blocks, b, rows)
    decoder_step(
        packed, blocks, b, state.memory, sources, state.starts, state.cache, ancestors, rows, time, state.scores,
        state.places,
    )  # fmt: skip


_search = make_search(_transformer_step)


@cached_njit
def decode(
    packed: Any, blocks: Any, table: Any, memory: Any, starts: Any, limits: Any, minimums: Any, rules: Any, inner: Any,
    workspace: Any, stop: Any, result: Any, last: Any, allowed: Any,
) -> bool:  # fmt: skip
    """Decodes all sources of a batch with a Transformer; for the other arguments see `make_search`.

    Args:
        table: (V, D) target embeddings.
        memory: (tokens, D) of all sources, source b from starts[b].
        inner: width of the widest layer.
        workspace: for the keys and values of past tokens, at least (L, T, R, 2 C) numbers; with an SSRU in the place of
            self-attention (L, 2, R, 2 C). C: the larger of D and N K in whole panels.
    """
    batch, longest, layers, attended = limits.shape[0], limits.max(), blocks.layers, blocks.heads * blocks.head_width
    stride = whole_panels(max(blocks.width, attended))
    most, crossed, slots = batch * rules.beam, project_memory(packed, blocks, memory), 2 if blocks.ssru else longest
    cache = workspace[: layers * slots * most * 2 * stride].reshape(layers, slots, most, 2 * stride)
    positions = longest
    for source in range(batch):
        positions = max(positions, starts[source + 1] - starts[source])
    scores, places = np.empty((blocks.heads, positions), np.float32), np.empty(positions, np.int64)
    state = TransformerState(table, crossed, starts, cache, scores, places)
    b = new_buffers(most, blocks.width, inner, attended)
    return _search(packed, blocks, state, b, limits, minimums, rules, stop, result, last, allowed)


@numba.njit(**FLAGS)
def _aligned_chunk(rows: Any) -> Any:
    """Memory for the logits of some whole panels, from a cache line on."""
    width = min(WIDEST // COLUMNS, max(1, CHUNK // (rows * COLUMNS))) * COLUMNS
    flat = np.empty(rows * width + 16, np.float32)
    skip = (-(flat.ctypes.data // 4)) % 16
    return flat[skip : skip + rows * width].reshape(rows, width)
