"""The score rules of a step on a GPU: one program for each hypothesis changes the few scores that rules name.

Operations are those of `harken.kernels.decoding.rules` in the order of `harken.search.device_rules`, and every value of
theirs lies on the device, so that one captured graph serves all of them:

    numbers    penalty of repetition, of unknown words, and log(1 - b) and log b of a preferred prefix
    integers   n of n-grams, least length, banned sequences, tokens of the longest of them but one, preferred or forced

What a prefix does to all tokens of a row is left to the kernels that read the scores: `shift` is added to each of them,
and of a row with a token in `only` no other is read.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.triton_import import tl, triton

BLOCK = 128  # tokens or sequences that are compared at a time


@triton.jit
def rules_kernel(
    scores: tl.tensor,
    raws: tl.tensor,
    before: tl.tensor,
    past: tl.tensor,
    tokens: tl.tensor,
    order: tl.tensor,
    position: tl.tensor,
    numbers: tl.tensor,
    integers: tl.tensor,
    banned: tl.tensor,
    prefixes: tl.tensor,
    shift: tl.tensor,
    only: tl.tensor,
    vocabulary: tl.tensor,
    capacity: tl.tensor,
    beam: tl.tensor,
    PAD: tl.constexpr,
    EOS: tl.constexpr,
    UNKNOWN: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row of scores and log-probabilities (R, V); `before` and `past` (R, T) are its tokens a step ago and now.

    Banned sequences (M, WIDTH) begin with their length; prefixes are (B, T).
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, slot, lowest = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK), float("-inf")
    time = tl.load(position).to(tl.int32)
    line, own, parent = scores + row * vocabulary, past + row * capacity, tl.load(order + row)
    last = tl.load(tokens + row).to(tl.int32)
    for start in range(0, time, BLOCK):
        at = start + slot
        token = tl.load(before + parent * capacity + at, at < time - 1, other=0)
        tl.store(own + at, tl.where(at == time - 1, last, token), at < time)
    tl.debug_barrier()  # what a thread wrote is read by others

    penalty = tl.load(numbers)
    if penalty != 1.0:
        for start in range(0, time, BLOCK):
            written = start + slot < time
            token = tl.load(own + start + slot, written, other=0)
            value = tl.load(raws + row * vocabulary + token, written, other=0.0)
            tl.store(line + token, value * penalty, written)
    tl.debug_barrier()
    tl.store(line + UNKNOWN, tl.load(line + UNKNOWN) - tl.load(numbers + 1))
    tl.debug_barrier()

    size = tl.load(integers).to(tl.int32)
    if size > 0:
        for start in range(0, time - size + 1, BLOCK):
            at = start + slot
            inside = at <= time - size
            same = inside
            for index in range(size - 1):
                earlier = tl.load(own + at + index, inside, other=-1)
                same = same & (earlier == tl.load(own + time - size + 1 + index))
            token = tl.load(own + at + size - 1, inside, other=0)
            tl.store(line + token, lowest, same)
    if time < tl.load(integers + 1):
        tl.store(line + EOS, lowest)
    longest = tl.load(integers + 3).to(tl.int32)
    for start in range(0, tl.load(integers + 2).to(tl.int32), BLOCK):
        sequence = banned + (start + slot) * WIDTH
        exists = start + slot < tl.load(integers + 2)
        length = tl.load(sequence, exists, other=1)
        same = exists & (length - 1 <= time)
        for index in range(longest):
            counts = same & (index < length - 1)
            expected = tl.load(sequence + 1 + index, counts, other=0)
            recent = tl.load(own + time - length + 1 + index, counts, other=0)
            same = same & (expected == recent)
        token = tl.load(sequence + length, exists, other=0)
        tl.store(line + token, lowest, same)
    tl.debug_barrier()

    prefix = prefixes + (row // beam) * capacity
    token = tl.load(prefix + time)
    prefers = tl.load(integers + 4) != 0
    misses = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, time, BLOCK):
        written = start + slot < time
        differs = tl.load(own + start + slot, written, other=0) != tl.load(prefix + start + slot, written, other=0)
        misses += differs.to(tl.int32)
    follows = prefers & (token != PAD) & (tl.sum(misses, 0) == 0)
    added, towards = tl.load(numbers + 2), tl.load(numbers + 3)
    value = tl.load(line + token) + added
    high, low = tl.maximum(value, towards), tl.minimum(value, towards)
    mixed = tl.where(low == lowest, high, high + tl.log(1.0 + tl.exp(low - high)))
    tl.store(line + token, mixed - added, follows)
    tl.store(shift + row, tl.where(follows, added, 0.0))
    tl.store(only + row, tl.where(prefers | (token == PAD), -1, token))


def apply_rules(search: Any, rules: Any, scores: Tensor, raws: Tensor) -> None:
    """Change scores (R, V), which are the log-probabilities `raws` of the step's tokens at first, in place."""
    rows, vocabulary = scores.shape
    before, past = rules.histories
    rules_kernel[(rows,)](
        scores, raws, before, past, search.tokens, search.order, search.length, rules.numbers, rules.integers,
        rules.banned, rules.prefixes, rules.shift, rules.only, vocabulary, before.shape[1], search.beam,
        PAD=search.special.pad, EOS=search.special.eos, UNKNOWN=rules.unknown, WIDTH=rules.banned.shape[1],
        BLOCK=BLOCK, num_warps=1, **options(scores.is_cuda),
    )  # fmt: skip
