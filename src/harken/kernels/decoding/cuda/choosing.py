"""The best tokens of each row of logits and their log-probabilities, without a table of all log-probabilities.

    log p(v) = z_v - log sum_u exp(z_u)

Two kernels: the first reads each part of BLOCK logits once for its sum of exponentials and its best tokens, the second
combines the parts of a row. Of equal logits the lower id comes first. The reference is
`harken.search.static.choose_best`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.kernels.triton_import import tl, triton

BLOCK = 4096
MOST = 64  # candidates; more are left to torch.topk
PAD, BOS = 0, 2  # never chosen (`harken.data.tokenizers.tokens`); kernels do not import data


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
) -> None:
    """One part of one row: its largest logit and sum of exponentials (R, P, 2), its best logits and ids (R, P, C)."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    inner = tl.arange(0, BLOCK)
    token = part * BLOCK + inner
    values = tl.load(logits + row * vocabulary + token, token < vocabulary, other=float("-inf")).to(tl.float32)
    peak = tl.max(values, 0)
    level = tl.where(peak == float("-inf"), 0.0, peak)
    place = row * parts + part
    tl.store(sums + 2 * place, level)
    tl.store(sums + 2 * place + 1, tl.sum(tl.exp(values - level), 0))
    values = tl.where((token == FIRST) | (token == SECOND), float("-inf"), values)
    for index in tl.static_range(COUNT):
        top, where = tl.max(values, 0, return_indices=True, return_indices_tie_break_left=True)
        tl.store(best + place * COUNT + index, top)
        tl.store(ids + place * COUNT + index, part * BLOCK + where)
        values = tl.where(inner == where, float("-inf"), values)


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
) -> None:
    """One row: log-probabilities and ids (R, C)."""
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


def is_supported(count: int) -> bool:
    """Whether the kernels choose so many tokens."""
    return count <= MOST


def choose(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Logits (R, V) -> log-probabilities, float32, and ids of the best (R, C), best first."""
    rows, vocabulary = logits.shape
    parts = triton.cdiv(vocabulary, BLOCK)
    sums = torch.empty(rows, parts, 2, device=logits.device)
    best = torch.empty(rows, parts, count, device=logits.device)
    ids = torch.empty(rows, parts, count, dtype=torch.int32, device=logits.device)
    values = torch.empty(rows, count, device=logits.device)
    chosen = torch.empty(rows, count, dtype=torch.long, device=logits.device)
    part_kernel[(rows, parts)](
        logits, sums, best, ids, vocabulary, parts, FIRST=PAD, SECOND=BOS, COUNT=count, BLOCK=BLOCK, num_warps=4
    )
    merge_kernel[(rows,)](
        sums, best, ids, values, chosen, parts,
        COUNT=count, PARTS=triton.next_power_of_2(parts), SIZE=triton.next_power_of_2(parts * count), num_warps=1,
    )  # fmt: skip
    return values, chosen
