"""The score rules of a step on a GPU: one program for each hypothesis changes the few scores that rules name.

Operations are those of `harken.kernels.decoding.rules` in the order of `harken.search.device_rules`, and every value of
theirs lies on the device, so that one captured graph serves all of them:

    numbers    penalty of repetition, of unknown words, and log(1 - b) and log b of a preferred prefix
    integers   n of n-grams, least length, banned sequences, tokens of the longest of them but one, preferred or forced

There is no table of scores: logits are changed in place, so that score = logit + `shift`, which is - log sum exp of the
row's logits before the rules, and what a preferred prefix adds to all tokens. Of a row with a token in `only` no other
is read. The few logits that are changed and may still be chosen are kept, for their log-probabilities (`raw_logits`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.triton_import import tl, triton

BLOCK = 128  # tokens or sequences that are compared at a time
PART = 8192  # logits of a program that sums


@triton.jit
def sums_kernel(
    logits: tl.tensor,
    sums: tl.tensor,
    vocabulary: tl.tensor,
    parts: tl.tensor,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One part of one row: its largest logit and its sum of exponentials, (R, P, 2)."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token, lowest = part * BLOCK + tl.arange(0, BLOCK), float("-inf")
    values = tl.load(logits + row * vocabulary + token, token < vocabulary, other=lowest).to(tl.float32)
    peak = tl.max(values, 0)
    level = tl.where(peak == lowest, 0.0, peak)
    tl.store(sums + 2 * (row * parts + part), peak)
    tl.store(sums + 2 * (row * parts + part) + 1, tl.sum(tl.exp(values - level), 0))


@triton.jit
def raw_logits(
    base: tl.tensor,
    past: tl.tensor,
    saved: tl.tensor,
    kept: tl.tensor,
    target: tl.tensor,
    penalty: tl.tensor,
    position: tl.tensor,
    row: tl.tensor,
    token: tl.tensor,
    inside: tl.tensor,
    vocabulary: tl.tensor,
    capacity: tl.tensor,
    UNKNOWN: tl.constexpr,
) -> tl.tensor:
    """The logits of tokens of a row, or of a row for each token, as they were before the rules."""
    value = tl.load(base + row * vocabulary + token, inside, other=0.0).to(tl.float32)
    if tl.load(penalty) != 1.0:
        for time in range(tl.load(position).to(tl.int32)):
            before = tl.load(saved + row * capacity + time)
            value = tl.where(tl.load(past + row * capacity + time) == token, before, value)
    value = tl.where(token == UNKNOWN, tl.load(kept + 2 * row), value)
    return tl.where(token == tl.load(target + row), tl.load(kept + 2 * row + 1), value)


@triton.jit
def rules_kernel(
    logits: tl.tensor,
    sums: tl.tensor,
    before: tl.tensor,
    past: tl.tensor,
    tokens: tl.tensor,
    order: tl.tensor,
    position: tl.tensor,
    numbers: tl.tensor,
    integers: tl.tensor,
    banned: tl.tensor,
    prefixes: tl.tensor,
    saved: tl.tensor,
    kept: tl.tensor,
    target: tl.tensor,
    log_sums: tl.tensor,
    shift: tl.tensor,
    only: tl.tensor,
    vocabulary: tl.tensor,
    capacity: tl.tensor,
    beam: tl.tensor,
    parts: tl.tensor,
    PAD: tl.constexpr,
    EOS: tl.constexpr,
    UNKNOWN: tl.constexpr,
    WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row of logits (R, V); `before` and `past` (R, T) are its tokens a step ago and now, `saved` their logits.

    Banned sequences (M, WIDTH) begin with their length; prefixes are (B, T). `kept` (R, 2) are the logits of the
    unknown word and of the token `target` (R,) of a preferred prefix.
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, slot, lowest = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK), float("-inf")
    time = tl.load(position).to(tl.int32)
    line, own, parent = logits + row * vocabulary, past + row * capacity, tl.load(order + row)
    part = tl.arange(0, PARTS)
    level = tl.load(sums + 2 * (row * parts + part), part < parts, other=lowest)
    mass = tl.load(sums + 2 * (row * parts + part) + 1, part < parts, other=0.0)
    peak = tl.max(level, 0)
    log_sum = peak + tl.log(tl.sum(mass * tl.exp(level - peak), 0))
    prefix = prefixes + (row // beam) * capacity
    target_token = tl.load(prefix + time)
    unknown = tl.load(line + UNKNOWN).to(tl.float32)
    tl.store(kept + 2 * row, unknown)
    tl.store(kept + 2 * row + 1, tl.load(line + target_token).to(tl.float32))
    tl.store(log_sums + row, log_sum)
    last = tl.load(tokens + row).to(tl.int32)
    for start in range(0, time, BLOCK):
        at = start + slot
        token = tl.load(before + parent * capacity + at, at < time - 1, other=0)
        token = tl.where(at == time - 1, last, token)
        tl.store(own + at, token, at < time)
        tl.store(saved + row * capacity + at, tl.load(line + token, at < time, other=0.0).to(tl.float32), at < time)
    tl.debug_barrier()  # what a thread wrote is read by others

    penalty = tl.load(numbers)
    if penalty != 1.0:
        for start in range(0, time, BLOCK):
            written = start + slot < time
            token = tl.load(own + start + slot, written, other=0)
            value = tl.load(saved + row * capacity + start + slot, written, other=0.0)
            value = (value - log_sum) * penalty + log_sum
            tl.store(line + token, value.to(line.dtype.element_ty), written)
    tl.debug_barrier()
    unknown = tl.load(line + UNKNOWN).to(tl.float32) - tl.load(numbers + 1)
    tl.debug_barrier()
    tl.store(line + UNKNOWN, unknown.to(line.dtype.element_ty))
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

    token = target_token
    prefers = tl.load(integers + 4) != 0
    misses = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, time, BLOCK):
        written = start + slot < time
        differs = tl.load(own + start + slot, written, other=0) != tl.load(prefix + start + slot, written, other=0)
        misses += differs.to(tl.int32)
    follows = prefers & (token != PAD) & (tl.sum(misses, 0) == 0)
    added, towards = tl.load(numbers + 2), tl.load(numbers + 3)
    value = tl.load(line + token).to(tl.float32) - log_sum + added
    high, low = tl.maximum(value, towards), tl.minimum(value, towards)
    mixed = tl.where(low == lowest, high, high + tl.log(1.0 + tl.exp(low - high)))
    tl.debug_barrier()
    tl.store(line + token, (mixed - added + log_sum).to(line.dtype.element_ty), follows)
    tl.store(target + row, tl.where(follows, token, -1))
    tl.store(shift + row, tl.where(follows, added, 0.0) - log_sum)
    tl.store(only + row, tl.where(prefers | (token == PAD), -1, token))


def apply_rules(search: Any, rules: Any, logits: Tensor) -> None:
    """Change logits (R, V) in place; the scores of the step's tokens are then logits + `rules.shift`."""
    rows, vocabulary = logits.shape
    before, past = rules.histories
    parts, chosen = triton.cdiv(vocabulary, PART), options(logits.is_cuda)
    sums = torch.empty(rows, parts, 2, device=logits.device)
    block = min(PART, triton.next_power_of_2(vocabulary))
    sums_kernel[(rows, parts)](logits, sums, vocabulary, parts, BLOCK=block, num_warps=4, **chosen)
    rules_kernel[(rows,)](
        logits, sums, before, past, search.tokens, search.order, search.length, rules.numbers, rules.integers,
        rules.banned, rules.prefixes, rules.saved, rules.kept, rules.target, rules.log_sums, rules.shift, rules.only,
        vocabulary, before.shape[1], search.beam, parts,
        PAD=search.special.pad, EOS=search.special.eos, UNKNOWN=rules.unknown, WIDTH=rules.banned.shape[1],
        PARTS=triton.next_power_of_2(parts), BLOCK=BLOCK, num_warps=1, **chosen,
    )  # fmt: skip
