"""The best tokens of each row of logits and their log-probabilities, without a table of all log-probabilities.

    log p(v) = z_v - log sum_u exp(z_u)

Two kernels: the first reads each part of BLOCK logits once for its sum of exponentials and its best tokens, the second
combines the parts of a row. The largest logit of each group of GROUP is kept; a token is taken from the best group,
whose logits are then read again. Of equal logits the lower id comes first. The reference is
`harken.search.hypotheses.continuations` of log-probabilities.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.description import SpecialTokens
from harken.kernels.triton_import import tl, triton

BLOCK, GROUP, WARPS = 4096, 32, 4
MOST = 32  # candidates; more take long to compile and are left to torch.topk


@triton.jit
def part_kernel(
    logits: tl.tensor,
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
    OVERLAP: tl.constexpr,
) -> None:
    """One part of one row: its largest logit and sum of exponentials (R, P, 2), its best logits and ids (R, P, C)."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    groups, member, lowest = tl.arange(0, BLOCK // GROUP), tl.arange(0, GROUP), float("-inf")
    start = logits + row * vocabulary
    token = part * BLOCK + groups[:, None] * GROUP + member[None, :]
    values = tl.load(start + token, token < vocabulary, other=lowest).to(tl.float32)
    peak = tl.max(tl.max(values, 1), 0)
    level = tl.where(peak == lowest, 0.0, peak)
    offset = row * parts + part
    tl.store(sums + 2 * offset, level)
    tl.store(sums + 2 * offset + 1, tl.sum(tl.sum(tl.exp(values - level), 1), 0))
    highest = tl.max(tl.where((token == FIRST) | (token == SECOND), lowest, values), 1)  # of each group
    last, last_id = tl.full((GROUP,), float("inf"), tl.float32), tl.full((GROUP,), -1, tl.int32)
    for index in tl.static_range(COUNT):
        top, group = tl.max(highest, 0, return_indices=True, return_indices_tie_break_left=True)
        here = part * BLOCK + group * GROUP + member
        again = tl.load(start + here, here < vocabulary, other=lowest).to(tl.float32)
        again = tl.where((here == FIRST) | (here == SECOND), lowest, again)
        is_taken = (again == last) & (here <= last_id)  # of equals the lower ids were chosen first
        chosen = tl.min(tl.where((again == top) & (is_taken == 0), here, vocabulary - 1), 0)
        tl.store(best + offset * COUNT + index, top)
        tl.store(ids + offset * COUNT + index, chosen)
        left = (again < top) | ((again == top) & (here > chosen))
        highest = tl.where(groups == group, tl.max(tl.where(left, again, lowest), 0), highest)
        last, last_id = top, chosen


@triton.jit
def merge_kernel(
    sums: tl.tensor,
    best: tl.tensor,
    ids: tl.tensor,
    values: tl.tensor,
    chosen: tl.tensor,
    parts: tl.tensor,
    COUNT: tl.constexpr,
    PARTS: tl.constexpr,
    SIZE: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row: log-probabilities and ids (R, C)."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row = tl.program_id(0).to(tl.int64)
    part, slot = tl.arange(0, PARTS), tl.arange(0, SIZE)
    level = tl.load(sums + 2 * (row * parts + part), part < parts, other=float("-inf"))
    total = tl.load(sums + 2 * (row * parts + part) + 1, part < parts, other=0.0)
    peak = tl.max(level, 0)
    log_total = peak + tl.log(tl.sum(total * tl.exp(level - peak), 0))
    offered = tl.load(best + row * parts * COUNT + slot, slot < parts * COUNT, other=float("-inf"))
    for index in tl.static_range(COUNT):
        top, where = tl.max(offered, 0, return_indices=True, return_indices_tie_break_left=True)
        gain = top - log_total
        tl.store(values + row * COUNT + index, tl.where(gain > 0.0, 0.0, gain))  # rounding may give 1e-8; NaN stays
        tl.store(chosen + row * COUNT + index, tl.load(ids + row * parts * COUNT + where).to(tl.int64))
        offered = tl.where(slot == where, float("-inf"), offered)


def choose(logits: Tensor, count: int, special: SpecialTokens) -> tuple[Tensor, Tensor]:
    """Logits (R, V) -> log-probabilities, float32, and ids of the best text tokens (R, C), best first."""
    rows, vocabulary = logits.shape
    parts = triton.cdiv(vocabulary, BLOCK)
    sums = torch.empty(rows, parts, 2, device=logits.device)
    best = torch.empty(rows, parts, count, device=logits.device)
    ids = torch.empty(rows, parts, count, dtype=torch.int32, device=logits.device)
    values = torch.empty(rows, count, device=logits.device)
    chosen = torch.empty(rows, count, dtype=torch.long, device=logits.device)
    part_kernel[(rows, parts)](
        logits, sums, best, ids, vocabulary, parts,
        FIRST=special.pad, SECOND=special.bos, COUNT=count, BLOCK=BLOCK, GROUP=GROUP,
        num_warps=WARPS, **options(logits.is_cuda),
    )  # fmt: skip
    merge_kernel[(rows,)](
        sums, best, ids, values, chosen, parts,
        COUNT=count, PARTS=triton.next_power_of_2(parts), SIZE=triton.next_power_of_2(parts * count), num_warps=1,
        **options(logits.is_cuda),
    )  # fmt: skip
    return values, chosen
