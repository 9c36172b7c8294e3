"""Log-probabilities of several models in one table (R, V) on a GPU, one pass over each model's logits.

    put    t = log p + w             mix    t = log(exp(t) + exp(log p + w))             add    t = t + w log p

The first two are an ensemble (`harken.search.ensemble`), the last is a language model (`harken.search.rules.fusion`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.cuda.rules import PART, sums_kernel
from harken.kernels.triton_import import tl, triton

KINDS = ("put", "mix", "add")


@triton.jit
def mix_kernel(
    table: tl.tensor,
    logits: tl.tensor,
    sums: tl.tensor,
    weight: tl.tensor,
    vocabulary: tl.tensor,
    parts: tl.tensor,
    KIND: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One part of one row: table (R, V) and logits (R, V), whose sums are (R, P, 2); KIND is a place in `KINDS`."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, part, lowest = tl.program_id(0).to(tl.int64), tl.program_id(1), float("-inf")
    each = tl.arange(0, PARTS)
    level = tl.load(sums + 2 * (row * parts + each), each < parts, other=lowest)
    mass = tl.load(sums + 2 * (row * parts + each) + 1, each < parts, other=0.0)
    peak = tl.max(level, 0)
    log_sum = peak + tl.log(tl.sum(mass * tl.exp(level - peak), 0))
    token = part * BLOCK + tl.arange(0, BLOCK)
    offset, inside = row * vocabulary + token, token < vocabulary
    value = tl.load(logits + offset, inside, other=0.0).to(tl.float32) - log_sum
    if KIND == 2:
        value = tl.load(table + offset, inside, other=0.0) + tl.load(weight) * value
    else:
        value += tl.load(weight)
    if KIND == 1:
        before = tl.load(table + offset, inside, other=0.0)
        high, low = tl.maximum(value, before), tl.minimum(value, before)
        value = tl.where(low == lowest, high, high + tl.log(1.0 + tl.exp(low - high)))
    tl.store(table + offset, value, inside)


def mix(table: Tensor, logits: Tensor, weight: Tensor, kind: str) -> None:
    """Change the table (R, V), float32, by the logits (R, V) of a model and a weight (1,), as the module says."""
    rows, vocabulary = logits.shape
    parts, block, chosen = triton.cdiv(vocabulary, PART), min(PART, triton.next_power_of_2(vocabulary)), logits.is_cuda
    sums = torch.empty(rows, parts, 2, device=logits.device)
    sums_kernel[(rows, parts)](logits, sums, vocabulary, parts, BLOCK=block, num_warps=4, **options(chosen))
    mix_kernel[(rows, parts)](
        table, logits, sums, weight, vocabulary, parts,
        KIND=KINDS.index(kind), PARTS=triton.next_power_of_2(parts), BLOCK=block, num_warps=4, **options(chosen),
    )  # fmt: skip
