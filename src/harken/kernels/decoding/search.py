"""Greedy search, sampling and beam search in one compiled loop: embedding, decoder, output layer, rules, selection.

The references are `harken.search.greedy` and `harken.search.beam`: candidates, ties, stopping rules and scores are the
same, in float32. Rows of a source that is done leave the batch at once.

A live row is a hypothesis. `tokens[t, i]` is the token that row i read at step t, and `ancestors[i, s]` is the row of
step s that a hypothesis descends from, so its tokens are tokens[s, ancestors[i, s]] for s = 1, 2, ... All that a search
knows from step to step is in `Search`, so that the loop can be left and entered again after any step: for several
models, a language model, or a caller that reads along.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harken.kernels.caching import cached_njit
from harken.kernels.decoding.choosing import (
    ABORTED,
    FIRST,
    LIVE,
    ROWS,
    STAMP,
    TIME,
    advance_beam,
    advance_independent,
    cover,
    force,
    past_of,
)
from harken.kernels.decoding.description import SpecialTokens
from harken.kernels.decoding.products import COLUMNS, FLAGS, INPUTS, NO_LIMIT, OUTPUTS, multiply, quantise
from harken.kernels.decoding.rules import Program, apply_rules, no_rules, required
from harken.kernels.decoding.sampling import draw, uniform
from harken.kernels.decoding.stack import decoder_step, embed, normalise_embeddings, project_memory
from harken.kernels.decoding.tiles import out_of_line
from harken.kernels.decoding.topk import CHUNK, WIDEST, best_of_line, most_probable, normalise_line
from harken.kernels.decoding.weights import cache_line_array
from harken.kernels.linking import linked_njit
from harken.kernels.numba_math import exp_not_positive

WORST = np.float32(-np.inf)


class Rules(NamedTuple):
    """How to search."""

    special: SpecialTokens
    beam: int  # live hypotheses of a source; where they are independent, how many there are of each
    nbest: int
    length_penalty: float  # exponent of the length in normalised = score / length ** length_penalty
    gnmt: bool = False  # (5 + length) / 6 in place of the length
    forced: int = -1  # the first token of every output, which costs nothing; -1: any
    max_finished: float = math.inf  # stop a source after this many finished hypotheses, too
    first: bool = False  # stop a source when its best finished hypothesis beats all live ones, too
    independent: bool = False  # greedy search and sampling: hypotheses do not compete
    word_reward: float = 0.0
    coverage_penalty: float = 0.0
    groups: int = 1
    diversity: float = 0.0
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    unknown: int = 1  # the id of the unknown word
    program: Program = no_rules()

    def needs_all_logits(self, mixed: bool = False) -> bool:
        """Whether the scores of whole rows are needed, not of the most probable tokens alone."""
        return mixed or self.sample or len(self.program.kinds) > 0


class SearchResult(NamedTuple):
    """The best hypotheses of each source, best first, (B, nbest) each; see `empty_result`."""

    tokens: Any  # (B, nbest, T) int32, without EOS
    lengths: Any  # tokens of each; -1: no such hypothesis
    scores: Any  # float32: what the search ranks by, without the length
    normalised: Any  # float32
    covered: Any  # float32: what the coverage penalty added to `normalised`
    finished: Any  # bool
    logs: Any  # (B, nbest, T) float32: log-probability of each token, then of EOS if finished


def empty_result(batch: int, nbest: int, longest: int) -> SearchResult:
    """A result without hypotheses, which `decode` fills."""
    return SearchResult(
        np.zeros((batch, nbest, longest), np.int32),
        np.full((batch, nbest), -1),
        np.full((batch, nbest), WORST),
        np.full((batch, nbest), WORST),
        np.zeros((batch, nbest), np.float32),
        np.zeros((batch, nbest), np.bool_),
        np.zeros((batch, nbest, longest), np.float32),
    )


def starts_of(sizes: Any) -> Any:
    """Where each of the sources of these lengths starts when they lie one after the other, and the end.

    >>> starts_of(np.array([3, 1])).tolist()
    [0, 3, 4]
    """
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


class Search(NamedTuple):
    """The memory of a search of B sources with R rows; what changes places has an axis of 2, by the parity of time."""

    cursor: Any  # (5,) int64: live rows, rows of a source, time, the last stamp in `marks`, the number of source 0
    starts: Any  # (B + 1,) int64: where each source starts
    numbers: Any  # (B,) int64: what the random numbers of each source depend on
    sources: Any  # (2, R) int64
    samples: Any  # (2, R) int64: which of the independent hypotheses of its source a row is
    scores: Any  # (2, R)
    ancestors: Any  # (2, R, T) int32
    tokens: Any  # (T + 1, R) int32: what each row read at each step
    logs: Any  # (T + 1, R): the log-probability it was chosen with
    ended: Any  # (B,) int64: hypotheses that have finished
    values: Any  # (R, C): the scores of the best next tokens of each row
    raws: Any  # (R, C): their log-probabilities; the same memory without rules
    ids: Any  # (R, C) int64
    wanted: Any  # (2, R, A): scores and log-probabilities of the tokens that constraints ask for
    wanted_ids: Any  # (R, A) int64
    progress: Any  # (2, A) int64: see `harken.kernels.decoding.rules.follow`
    coverage: Any  # (2, R, S) sums of attention, or (2, 0, 0)
    attention: Any  # (R, S) of a step, or (0, 0)
    covered: Any  # (R,) the term of the rank
    chunk: Any  # (rows, columns) logits; all columns where scores of whole rows are needed
    line: Any  # (3, V in whole panels) log-probabilities of a row, its scores, and memory for draws
    mixture: Any  # (R, V in whole panels) log-probabilities of several models, or (0, 0)
    fused: Any  # (R, V in whole panels) log-probabilities of a language model, or (0, 0)
    marks: Any  # (V,) int64
    tops: Any  # (K,) of top-k
    top_ids: Any  # (K,) int64

    @property
    def rows(self) -> int:
        """Live rows; 0: the search is over."""
        return int(self.cursor[0])


@dataclass
class Decoding:
    """The arguments of a compiled function for one model and some sources; the memory of a search goes with them."""

    function: Any
    arguments: tuple[Any, ...]
    release: Callable[[], object] = lambda: None  # gives memory back for the next call

    @property
    def result(self) -> SearchResult:
        """What is found."""
        return self.arguments[8]

    @property
    def columns(self) -> int:
        """Of the output layer."""
        return int(self.arguments[9].products[-1, OUTPUTS])

    def arguments_of(self, search: Search, steps: int = 2**31, turn: int = 0, share: float = 0.0) -> tuple[Any, ...]:
        """All arguments; see `make_search`."""
        return (*self.arguments, search, steps, turn, share)

    def run(self, search: Search, steps: int = 2**31, turn: int = 0, share: float = 0.0) -> bool:
        """False where the model's outputs are not finite numbers."""
        return bool(self.function(*self.arguments_of(search, steps, turn, share)))


HELD = 2**24  # logits of whole rows held at once, 64 MiB


def _panels(rows: int, width: int) -> Any:
    return cache_line_array(rows * width, np.float32).reshape(rows, width)


def new_search(
    rules: Rules,
    sizes: Any,
    longest: int,
    vocabulary: int,
    columns: int,
    first: int = 0,
    numbers: Any = None,
    mixed: bool = False,
    fused: bool = False,
) -> Search:
    """The memory before the first step.

    Args:
        sizes: (B,) lengths of the sources.
        longest: the most tokens of an output.
        vocabulary: V.
        columns: of the output layer, V or fewer with a shortlist.
        first: the number of the first source in the call that the rules are of.
        numbers: (B,) see `Search.numbers`; by default the numbers of the sources.
        mixed, fused: whether there are several models, and a language model.
    """
    batch, samples = len(sizes), rules.beam if rules.independent else 1
    most, size = batch * rules.beam, rules.beam // rules.groups
    width, columns = (-(-count // COLUMNS) * COLUMNS for count in (vocabulary, columns))
    if rules.needs_all_logits(mixed):
        chunk = _panels(min(most, max(6, HELD // columns)), columns)
    else:
        chunk = _panels(most, min(WIDEST // COLUMNS, max(1, CHUNK // (most * COLUMNS))) * COLUMNS)
    choices = 1 if rules.independent else 2 * size + (rules.beam if rules.groups > 1 else 0)
    values = np.empty((most, choices), np.float32)
    program, covering = rules.program, rules.coverage_penalty > 0
    alternatives, constraints = (
        program.data[program.constraints : program.constraints + 2] if program.constraints >= 0 else (0, 0)
    )
    rows = batch * samples
    sources, sample = np.zeros((2, most), np.int64), np.zeros((2, most), np.int64)
    sources[0, :rows], sample[0, :rows] = np.repeat(np.arange(batch), samples), np.tile(np.arange(samples), batch)
    whole = width if rules.needs_all_logits(mixed) else 0
    return Search(
        cursor=np.array([rows, 1, 0, 0, first]),
        starts=starts_of(sizes),
        numbers=np.arange(first, first + batch) if numbers is None else numbers,
        sources=sources,
        samples=sample,
        scores=np.zeros((2, most), np.float32),
        ancestors=np.empty((2, most, longest), np.int32),
        tokens=np.full((longest + 1, most), rules.special.bos, np.int32),
        logs=np.zeros((longest + 1, most), np.float32),
        ended=np.zeros(batch, np.int64),
        values=values,
        raws=np.empty((most, choices), np.float32) if whole else values,
        ids=np.empty((most, choices), np.int64),
        wanted=np.empty((2, most, 2 * alternatives), np.float32),
        wanted_ids=np.empty((most, 2 * alternatives), np.int64),
        progress=np.zeros((2, max(alternatives, constraints)), np.int64),
        coverage=np.empty((2, most, int(max(sizes))) if covering else (2, 0, 0), np.float32),
        attention=np.zeros((most, int(max(sizes))) if covering else (0, 0), np.float32),
        covered=np.zeros(most, np.float32),
        chunk=chunk,
        line=_panels(3, whole),
        mixture=_panels(most if mixed else 0, width),
        fused=_panels(most if fused else 0, width),
        marks=np.zeros(vocabulary if whole else 0, np.int64),
        tops=np.empty(min(rules.top_k, vocabulary), np.float32),
        top_ids=np.empty(min(rules.top_k, vocabulary), np.int64),
    )


Y3, Y5, Y7, Y9, Y11 = (np.float32(1 / power) for power in (3, 5, 7, 9, 11))
ALONE, BEGINS, ADDS, ENDS = range(4)  # `turn`: the place of a model among those that are mixed


@linked_njit(**FLAGS)
def _add_exponentials(mixture: Any, line: Any, share: Any) -> None:
    """mixture = log(exp(mixture) + exp(line + share)), of whole panels."""
    for k in range(line.shape[0]):
        one, other = mixture[k], line[k] + share
        largest = max(one, other)
        small = exp_not_positive(min(one, other) - largest)
        y = small / (np.float32(2) + small)  # log(1 + x) = 2 artanh(x / (2 + x)), x at most 1
        z = y * y
        series = ((((Y11 * z + Y9) * z + Y7) * z + Y5) * z + Y3) * z + np.float32(1)
        mixture[k] = largest + np.float32(2) * y * series if largest > WORST else WORST


@linked_njit(**FLAGS)
def _choose(s: Any, rules: Any, row: Any, time: Any, no_end: Any, past: Any) -> None:
    """The candidates of a row from its log-probabilities s.line[0]."""
    out_of_line()
    base, line, program, special = s.line[0], s.line[1], rules.program, rules.special
    source = s.sources[time % 2, row]
    number = s.cursor[FIRST] + source
    line[:] = base
    past_of(s, row, time, past)
    s.cursor[STAMP] += 1
    fused = s.fused[row] if s.fused.shape[0] > 0 else base
    apply_rules(line, past, time, number, program, special, rules.unknown, s.marks, s.cursor[STAMP], fused, s.progress)
    line[special.pad], line[special.bos] = WORST, WORST
    if no_end:
        line[special.eos] = WORST
    if rules.sample:
        random = uniform(rules.seed, s.numbers[source], s.samples[time % 2, row], time)
        s.line[2] = line
        token = draw(s.line[2], rules, random, s.tops, s.top_ids)
        s.ids[row, 0], s.values[row, 0], s.raws[row, 0] = token, line[token], base[token]
        return
    best_of_line(line, s.values[row], s.ids[row])
    for slot in range(s.ids.shape[1]):
        s.raws[row, slot] = base[s.ids[row, slot]]
    if program.constraints >= 0:
        required(program.data, program.constraints, number, s.progress, special.pad, s.wanted_ids[row])
        for k in range(s.wanted_ids.shape[1]):
            s.wanted[0, row, k], s.wanted[1, row, k] = line[s.wanted_ids[row, k]], base[s.wanted_ids[row, k]]


@linked_njit(**FLAGS)
def _offer(
    last: Any, output: Any, b: Any, rows: Any, s: Any, rules: Any, allowed: Any, time: Any, no_end: Any, turn: Any,
    share: Any,
) -> bool:  # fmt: skip
    """The candidates of all rows, from whole rows of logits; False where those are not finite numbers."""
    out_of_line()
    if last.values.size > 0:
        quantise(b.values, last.products[output, INPUTS], rows, b.quantised, b.scales)
    height, base, past = s.chunk.shape[0], s.line[0], np.empty(time + 1, np.int64)
    span = np.int64(0), np.int64(s.chunk.shape[1]), np.int64(0)
    for first in range(0, rows, height):
        count = min(height, rows - first)
        inputs = b.values[first:], b.quantised[first:], b.scales[first:]
        multiply(last, output, inputs[0], inputs[1], inputs[2], count, s.chunk, NO_LIMIT, np.int64(0), span)
        for row in range(first, first + count):
            logits = s.chunk[row - first]
            if allowed.tokens.shape[0] > 0:
                excluded = allowed.excluded[s.sources[time % 2, row]]
                base[:] = WORST
                for k in range(allowed.tokens.shape[0]):
                    base[allowed.tokens[k]] = logits[k] + excluded[k]
            else:
                base[:] = logits
            if not normalise_line(base):
                return False
            if time == 0 and rules.forced >= 0:
                base[:] = WORST
                base[rules.forced] = np.float32(0)
            if turn == BEGINS:
                for k in range(base.shape[0]):
                    s.mixture[row, k] = base[k] + np.float32(share)
            elif turn != ALONE:
                _add_exponentials(s.mixture[row], base, np.float32(share))
            if turn == ENDS:
                base[:] = s.mixture[row]
            if turn in (ALONE, ENDS):
                _choose(s, rules, row, time, no_end[row], past)
    return True


def make_search(step: Any) -> Any:
    """The compiled search over a compiled step.

    Args:
        step: step(packed, decoder, state, b, tokens (R,), sources (R,), ancestors (R, T), attention, rows, time), which
            leaves the input of the output layer in b.values and, in `attention` (R, S) where that is not (0, 0), the
            attention to the source.

    Returns:
        A function that decodes all sources of a batch into `result`; False where the model's outputs are not finite
        numbers. Its arguments limits and minimums (B,) are the most and the fewest tokens of each source, EOS included;
        stop (1,) is read at every step: where another thread sets it to `ABORTED`, `result` is incomplete, and with
        `ENDED` the hypotheses end as they are; the last product of `last` is the output layer: `last` is `packed`
        itself or, with a shortlist, the part that `allowed` describes; the search returns after `steps` steps. Of
        several models each takes its `turn` at a step, with the logarithm of its weight as its `share`.
    """

    @linked_njit(**FLAGS)
    def search(
        packed: Any, decoder: Any, state: Any, b: Any, limits: Any, minimums: Any, rules: Any, stop: Any, result: Any,
        last: Any, allowed: Any, s: Any, steps: Any, turn: Any, share: Any,
    ) -> bool:  # fmt: skip
        rows, live, time = s.cursor[ROWS], s.cursor[LIVE], s.cursor[TIME]
        output, is_whole, choices = last.products.shape[0] - 1, s.line.shape[1] > 0, s.ids.shape[1]
        no_end = np.zeros(s.sources.shape[1], np.bool_)
        while rows > 0 and steps > 0 and stop[0] != ABORTED:
            now, sources = time % 2, s.sources[time % 2]
            for row in range(rows):
                s.ancestors[now, row, time] = row
                no_end[row] = time + 1 < minimums[sources[row]]
            step(packed, decoder, state, b, s.tokens[time], sources, s.ancestors[now], s.attention, rows, time)
            steps -= 1
            is_forced = time == 0 and rules.forced >= 0 and rules.program.kinds.shape[0] == 0
            if is_forced:
                pass
            elif is_whole:
                if not _offer(last, output, b, rows, s, rules, allowed, time, no_end, turn, share):
                    return False
            elif not most_probable(
                last, output, b, rows, choices, s.chunk, s.values, s.ids, no_end, rules.special, allowed, sources
            ):
                return False
            if turn in (BEGINS, ADDS):
                return True
            if s.attention.shape[0] > 0:
                cover(s, rules, rows, time)
            if is_forced:
                force(s, rows, time, rules.forced)
            elif rules.independent:
                rows = advance_independent(s, rules, rows, time, limits, stop, result)
            else:
                rows = advance_beam(s, rules, rows, live, time, limits, stop, result)
                live = rules.beam
            time += 1
            s.cursor[ROWS], s.cursor[LIVE], s.cursor[TIME] = rows, live, time
        return True

    return search


class TransformerState(NamedTuple):
    """The inputs, caches and scratch memory of a Transformer's steps."""

    table: Any  # (V, D) target embeddings
    source: Any  # (tokens, D) of all sources, source b from starts[b]
    starts: Any
    memory: Any  # (L, tokens, 2 D) keys and values of the sources, computed at the first step
    cache: Any  # (L, T, R, 2 D) with D in whole panels; with an SSRU in the place of self-attention (L, 2, R, 2 D)
    scores: Any  # (N, T)
    places: Any  # (T,)


@linked_njit(**FLAGS)
def _transformer_step(
    packed: Any, blocks: Any, state: Any, b: Any, tokens: Any, sources: Any, ancestors: Any, attention: Any, rows: Any,
    time: Any,
) -> None:  # fmt: skip
    if time == 0:
        project_memory(packed, blocks, state.source, state.memory)
    for row in range(rows):
        embed(blocks, state.table, np.int64(tokens[row]), time, b.values[row])
    normalise_embeddings(packed, blocks, b, rows)
    decoder_step(
        packed, blocks, b, state.memory, sources, state.starts, state.cache, ancestors, rows, time, state.scores,
        state.places, attention,
    )  # fmt: skip


_search = make_search(_transformer_step)


@cached_njit
def decode(
    packed: Any, blocks: Any, state: Any, b: Any, limits: Any, minimums: Any, rules: Any, stop: Any, result: Any,
    last: Any, part: Any, s: Any, steps: Any, turn: Any, share: Any,
) -> bool:  # fmt: skip
    """Decodes all sources of a batch with a Transformer; for the arguments see `make_search`."""
    return _search(packed, blocks, state, b, limits, minimums, rules, stop, result, last, part, s, steps, turn, share)
