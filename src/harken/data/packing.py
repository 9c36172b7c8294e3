"""Sentence pairs packed into windows of fixed size, without padding between them.

A window holds up to `sources` source tokens and up to `targets` target tokens, sentence after sentence. Every window
has the same shapes, so a step on a GPU can be captured once, and none of its tokens is padding but the last few. Which
pairs share a window depends on (seed, epoch) alone, and every pair occurs once.

>>> [batch.tolist() for batch in packed_batches([2, 9, 2, 5], [3, 9, 2, 3], Window(10, 10), seed=1, epoch=0)]
[[0, 2, 3], [1]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.batching import Batches, as_lengths, numbers
from harken.data.io.token_rows import ParallelIds, TokenRows
from harken.data.tokenizers.tokens import BOS, PAD

MULTIPLE = 128  # sizes of windows: whole tiles for matrix products
MARGIN = 1.0  # standard deviations of a window's length ratio that the smaller side has room for
AHEAD = 64  # pairs that are tried to fill up a window


class Window(NamedTuple):
    """The size of one window in tokens."""

    sources: int
    targets: int


class PackedPairs(NamedTuple):
    """One window. Positions, spans and intervals are int32; padding at the end has empty intervals."""

    source: Tensor  # (S,) ids, every sentence ended by EOS
    source_positions: Tensor  # (S,) from 0 in every sentence
    source_first: Tensor  # (S,) the first token of the sentence that a token belongs to
    source_end: Tensor  # (S,) one past its last
    source_first_target: Tensor  # (S,) the first target token of its pair
    source_end_target: Tensor  # (S,)
    target_input: Tensor  # (T,) BOS, y1 ... yn
    target_output: Tensor  # (T,) y1 ... yn, EOS
    target_positions: Tensor  # (T,)
    target_first: Tensor  # (T,)
    target_end: Tensor  # (T,)
    target_first_source: Tensor  # (T,) the first source token of its pair
    target_end_source: Tensor  # (T,)


def window_of(source_lengths: np.ndarray, target_lengths: np.ndarray, budget: int) -> Window:
    """The window whose longer side has `budget` tokens and whose other side is as long as these pairs need on average.

    >>> window_of(np.array([10, 11, 9]), np.array([20, 22, 18]), 4096)
    Window(sources=2048, targets=4096)
    """
    source, target = float(source_lengths.mean()), float(target_lengths.mean())
    ratio = min(source, target) / max(source, target, 1e-9)
    longer, shorter = (source_lengths, target_lengths) if source > target else (target_lengths, source_lengths)
    pairs = budget / max(1e-9, float(longer.mean()))
    spread = float((shorter - ratio * longer).std()) * np.sqrt(pairs)  # of the shorter side in a full window
    size = min(_whole(budget), _whole(ratio * budget + MARGIN * spread))
    return Window(_whole(budget), size) if source > target else Window(size, _whole(budget))


def _whole(tokens: float) -> int:
    """Rounded up to whole tiles; smaller windows to a multiple of 16."""
    multiple = MULTIPLE if tokens > MULTIPLE else 16
    return max(multiple, int(-(-tokens // multiple)) * multiple)


def packed_batches(
    source_lengths: Sequence[int] | np.ndarray,
    target_lengths: Sequence[int] | np.ndarray,
    window: Window,
    *,
    seed: int,
    epoch: int,
) -> Batches:
    """The pairs of every window of an epoch, in an order drawn for it.

    Pairs are taken in random order until one does not fit; then the window is filled up with those of the next
    `AHEAD` pairs that do. A pair that is longer than a window is a batch of its own (`fits` tells): nothing is dropped.
    """
    source, target = as_lengths(source_lengths), as_lengths(target_lengths)
    order = numbers(len(source))
    np.random.default_rng([seed, epoch]).shuffle(order)
    is_long = (source > window.sources) | (target > window.targets)
    long = order[is_long[order]] if is_long.any() else order[:0]
    if len(long):
        order = order[~is_long[order]]
    ends, start = [], 0
    guess = max(64, AHEAD + 2 * window.sources // max(1, int(source.mean()))) if len(source) else 0
    while start < len(order):
        near = order[start : start + guess]
        sources, targets = np.cumsum(source[near]), np.cumsum(target[near])
        stop = min(
            int(np.searchsorted(sources, window.sources, side="right")),
            int(np.searchsorted(targets, window.targets, side="right")),
        )
        room = [window.sources - int(sources[stop - 1]), window.targets - int(targets[stop - 1])]
        for position in range(start + stop, min(len(order), start + stop + AHEAD)):
            index = order[position]
            if source[index] <= room[0] and target[index] <= room[1]:
                room = [room[0] - int(source[index]), room[1] - int(target[index])]
                order[start + stop], order[position] = index, order[start + stop]  # later pairs keep about their order
                stop += 1
        start += stop
        ends.append(start)
    if len(long):
        order, ends = np.concatenate([long, order]), [*range(1, len(long) + 1), *(len(long) + end for end in ends)]
    permutation = None
    if len(ends) > 1:  # the last window is not full and the long pairs come first: no fixed place for either
        permutation = np.random.default_rng([seed, epoch, 1]).permutation(len(ends))
    return Batches(order, np.array(ends, dtype=np.int64), permutation)


def fits(pairs: ParallelIds, indices: np.ndarray, window: Window) -> bool:
    """Whether these pairs fit into one window."""
    sides = (pairs.source, window.sources), (pairs.target, window.targets)
    return all(int(_lengths(rows, indices).sum()) <= size for rows, size in sides)


def _lengths(rows: TokenRows, indices: np.ndarray) -> np.ndarray:
    return rows.offsets[indices + 1] - rows.offsets[indices]


def shrunk(window: Window, pairs: ParallelIds, indices: np.ndarray) -> Window:
    """The window made smaller for few pairs: the last of an epoch, or the share of one of several processes."""
    sides = (window.sources, pairs.source), (window.targets, pairs.target)
    return Window(*(shrunk_size(size, int(_lengths(rows, indices).sum())) for size, rows in sides))


def shrunk_size(size: int, tokens: int) -> int:
    """At least `tokens`, in whole sixteenths of `size`, its half, quarter ...: few values, at most an eighth padding.

    >>> [shrunk_size(32768, tokens) for tokens in (31000, 30000, 16500, 4096, 4100, 500)]
    [32768, 30720, 18432, 4096, 4608, 512]
    """
    if tokens > size - size // 16:
        return size
    base = size
    while base >= 2 * tokens and base > MULTIPLE:
        base //= 2
    step = _whole(base / 16)
    return min(size, -(-tokens // step) * step)


def pack(pairs: ParallelIds, indices: np.ndarray, window: Window) -> PackedPairs:
    """The tensors of one window; `indices` (B,) must fit into it."""
    source, source_lengths = _flat(pairs.source, indices, window.sources)
    output, target_lengths = _flat(pairs.target, indices, window.targets)
    source_first, source_end, source_positions = _spans(source_lengths, source_lengths, window.sources)
    target_first, target_end, target_positions = _spans(target_lengths, target_lengths, window.targets)
    first_target, end_target, _ = _spans(target_lengths, source_lengths, window.sources)
    first_source, end_source, _ = _spans(source_lengths, target_lengths, window.targets)
    shifted = np.roll(output, 1)
    shifted[np.cumsum(target_lengths) - target_lengths] = BOS
    shifted[int(target_lengths.sum()) :] = PAD
    arrays = (
        *(source, source_positions, source_first, source_end, first_target, end_target),
        *(shifted, output, target_positions, target_first, target_end, first_source, end_source),
    )
    return PackedPairs(*(torch.from_numpy(array) for array in arrays))


def _flat(rows: TokenRows, indices: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of some rows one after another, padded to `size`, and their lengths."""
    starts = rows.offsets[indices]
    lengths = rows.offsets[indices + 1] - starts
    total = int(lengths.sum())
    positions = np.arange(total) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    ids = np.full(size, PAD, dtype=np.int32)
    ids[:total] = rows.flat[positions]
    return ids, lengths


def _spans(lengths: np.ndarray, repeats: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First token, end, and position for tokens of which `repeats` each belong to spans of these lengths."""
    total, ends = int(repeats.sum()), np.cumsum(lengths)
    first, end, positions = (np.full(size, fill, dtype=np.int32) for fill in (0, 0, 0))
    first[:total], end[:total] = np.repeat(ends - lengths, repeats), np.repeat(ends, repeats)
    positions[:total] = np.arange(total) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return first, end, positions
