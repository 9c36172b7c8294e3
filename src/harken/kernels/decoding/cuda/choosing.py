"""The best tokens of each row of logits and their log-probabilities, without a table of all log-probabilities.

    log p(v) = z_v - log sum_u exp(z_u)

Two kernels: the first reads each part of BLOCK logits once for its sum of exponentials and its best tokens, the second
combines the parts of a row. The largest logit of each group of GROUP is kept; a token is taken from the best group,
whose logits are then read again. Of equal logits the lower id comes first. The reference is
`harken.search.hypotheses.continuations` of log-probabilities. Logits that rules have changed are read in the same way
(`choose_scored`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.cuda.rules import raw_logits
from harken.kernels.decoding.description import SpecialTokens
from harken.kernels.triton_import import tl, triton

BLOCK, GROUP, WARPS = 4096, 32, 4
MOST = 32  # candidates; more take long to compile and are left to torch.topk


@triton.jit
def text_alone(
    values: tl.tensor,
    token: tl.tensor,
    only: tl.tensor,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    SCORED: tl.constexpr,
) -> tl.tensor:
    """The values of some tokens, -inf for those that are no text or, of scores, not the only one that is allowed."""
    is_excluded = (token == FIRST) | (token == SECOND)
    if SCORED:
        is_excluded = is_excluded | ((only >= 0) & (token != only))
    return tl.where(is_excluded, float("-inf"), values)


@triton.jit
def part_kernel(
    logits: tl.tensor,
    only: tl.tensor,
    sums: tl.tensor,
    best: tl.tensor,
    ids: tl.tensor,
    vocabulary: tl.tensor,
    parts: tl.tensor,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    SCORED: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One part of one row: its largest logit and sum of exponentials (R, P, 2), its best logits and ids (R, P, C).

    SCORED: the logits are scores, without sums, and `only` (R,) is a token that excludes all others, or -1.
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    groups, member, lowest = tl.arange(0, BLOCK // GROUP), tl.arange(0, GROUP), float("-inf")
    start = logits + row * vocabulary
    token = part * BLOCK + groups[:, None] * GROUP + member[None, :]
    values = tl.load(start + token, token < vocabulary, other=lowest).to(tl.float32)
    offset, allowed = row * parts + part, 0
    if SCORED:
        allowed = tl.load(only + row)
    else:
        peak = tl.max(tl.max(values, 1), 0)
        level = tl.where(peak == lowest, 0.0, peak)
        tl.store(sums + 2 * offset, level)
        tl.store(sums + 2 * offset + 1, tl.sum(tl.sum(tl.exp(values - level), 1), 0))
    highest = tl.max(text_alone(values, token, allowed, FIRST, SECOND, SCORED), 1)  # of each group
    last, last_id = tl.full((GROUP,), float("inf"), tl.float32), tl.full((GROUP,), -1, tl.int32)
    for index in tl.static_range(COUNT):
        top, group = tl.max(highest, 0, return_indices=True, return_indices_tie_break_left=True)
        here = part * BLOCK + group * GROUP + member
        again = tl.load(start + here, here < vocabulary, other=lowest).to(tl.float32)
        again = text_alone(again, here, allowed, FIRST, SECOND, SCORED)
        is_taken = (again == last) & (here <= last_id)  # of equals the lower ids were chosen first
        chosen = tl.min(tl.where((again == top) & (is_taken == 0), here, vocabulary - 1), 0)
        tl.store(best + offset * COUNT + index, top)
        tl.store(ids + offset * COUNT + index, tl.minimum(chosen, vocabulary - 1))
        left = (again < top) | ((again == top) & (here > chosen))
        highest = tl.where(groups == group, tl.max(tl.where(left, again, lowest), 0), highest)
        last, last_id = top, chosen


@triton.jit
def merge_kernel(
    sums: tl.tensor,
    base: tl.tensor,
    past: tl.tensor,
    saved: tl.tensor,
    kept: tl.tensor,
    target: tl.tensor,
    log_sums: tl.tensor,
    shift: tl.tensor,
    numbers: tl.tensor,
    position: tl.tensor,
    best: tl.tensor,
    ids: tl.tensor,
    values: tl.tensor,
    raws: tl.tensor,
    chosen: tl.tensor,
    vocabulary: tl.tensor,
    capacity: tl.tensor,
    parts: tl.tensor,
    UNKNOWN: tl.constexpr,
    COUNT: tl.constexpr,
    COUNTS: tl.constexpr,
    PARTS: tl.constexpr,
    SIZE: tl.constexpr,
    SCORED: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row: log-probabilities and ids (R, C); SCORED: scores, log-probabilities and ids."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row = tl.program_id(0).to(tl.int64)
    part, slot = tl.arange(0, PARTS), tl.arange(0, SIZE)
    if SCORED:
        added = tl.load(shift + row)
    else:
        level = tl.load(sums + 2 * (row * parts + part), part < parts, other=float("-inf"))
        total = tl.load(sums + 2 * (row * parts + part) + 1, part < parts, other=0.0)
        peak = tl.max(level, 0)
        added = -(peak + tl.log(tl.sum(total * tl.exp(level - peak), 0)))
    offered = tl.load(best + row * parts * COUNT + slot, slot < parts * COUNT, other=float("-inf"))
    for index in tl.static_range(COUNT):
        top, where = tl.max(offered, 0, return_indices=True, return_indices_tie_break_left=True)
        token, place, gain = tl.load(ids + row * parts * COUNT + where), row * COUNT + index, top + added
        if SCORED == 0:
            gain = tl.where(gain > 0.0, 0.0, gain)  # rounding may give 1e-8; NaN stays
        tl.store(values + place, gain)
        tl.store(chosen + place, token.to(tl.int64))
        offered = tl.where(slot == where, float("-inf"), offered)
    if SCORED:
        tl.debug_barrier()  # the tokens are read as a vector
        index = tl.arange(0, COUNTS)
        token = tl.load(chosen + row * COUNT + index, index < COUNT, other=0).to(tl.int32)
        raw = raw_logits(
            base, past, saved, kept, target, numbers, position, row, token, index < COUNT, vocabulary, capacity, UNKNOWN
        )
        tl.store(raws + row * COUNT + index, raw - tl.load(log_sums + row), index < COUNT)


def choose(logits: Tensor, count: int, special: SpecialTokens) -> tuple[Tensor, Tensor]:
    """Logits (R, V) -> log-probabilities, float32, and ids of the best text tokens (R, C), best first."""
    sums = torch.empty(len(logits), triton.cdiv(logits.shape[1], BLOCK), 2, device=logits.device)
    values, _, chosen = _launch(logits, sums, None, None, count, special)
    return values, chosen


def choose_scored(search: Any, rules: Any, logits: Tensor, base: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits (R, V) that rules have changed -> scores, log-probabilities and ids of the best text tokens, all (R, C).

    Args:
        base: the logits to which log-probabilities belong: the same, or without what a language model has added.
    """
    return _launch(logits, rules.only, (search, rules), base, count, search.special)


def _launch(
    logits: Tensor,
    given: Tensor,
    scored: tuple[Any, Any] | None,
    base: Tensor | None,
    count: int,
    special: SpecialTokens,
) -> tuple[Tensor, Tensor, Tensor]:
    """Both kernels; `given` are the sums that the first writes, or of scores the tokens that it reads."""
    rows, vocabulary = logits.shape
    parts = triton.cdiv(vocabulary, BLOCK)
    values = torch.empty(rows, count, device=logits.device)
    chosen = torch.empty(rows, count, dtype=torch.long, device=logits.device)
    best = torch.empty(rows, parts, count, device=logits.device)
    ids = torch.empty(rows, parts, count, dtype=torch.int32, device=logits.device)
    part_kernel[(rows, parts)](
        logits, given, given, best, ids, vocabulary, parts,
        FIRST=special.pad, SECOND=special.bos, COUNT=count, BLOCK=BLOCK, GROUP=GROUP, SCORED=scored is not None,
        num_warps=WARPS, **options(logits.is_cuda),
    )  # fmt: skip
    raws, kept, capacity, unknown = values, [values] * 8, 1, 0
    if scored is not None:
        search, rules = scored
        raws, capacity, unknown = torch.empty_like(values), rules.saved.shape[1], rules.unknown
        kept = [rules.histories[0], rules.saved, rules.kept, rules.target, rules.log_sums, rules.shift, rules.numbers]
        kept.append(search.length)
    merge_kernel[(rows,)](
        given, logits if base is None else base, *kept, best, ids, values, raws, chosen, vocabulary, capacity, parts,
        UNKNOWN=unknown, COUNT=count, COUNTS=triton.next_power_of_2(count), PARTS=triton.next_power_of_2(parts),
        SIZE=triton.next_power_of_2(parts * count), SCORED=scored is not None, num_warps=1, **options(logits.is_cuda),
    )  # fmt: skip
    return values, raws, chosen
