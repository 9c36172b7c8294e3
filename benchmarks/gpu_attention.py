"""Attention on a GPU beside what a PyTorch user has: additive attention, other scores, and the decoder's loop.

    python -m benchmarks.gpu_attention [--only additive|scores|loop] [--out record.json]

additive  `harken.nn.additive_attend` beside its eager reference, forward and forward + backward, and the bound of the
          chip: one tanh for every query, key and feature in each of three passes, at the measured rate of its unit
scores    cosine and multiplicative scores through torch's fused attention beside their references
loop      an attentional recurrent decoder under teacher forcing, its loop replayed beside the loop Python runs

Times are medians by CUDA events after warm-up; memory is the peak above inputs and results. Both sides of a row run in
the same process on the same inputs.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from benchmarks.gpu_timing import Record, milliseconds
from torch import Tensor

from harken.kernels.additive_attention.operator import additive_attention
from harken.nn.attention.functional import additive_attend, additive_attend_with_weights, attend, attend_with_weights
from harken.nn.masks import length_mask

Row = dict[str, Any]
BFLOAT16, FLOAT32 = torch.bfloat16, torch.float32


@contextmanager
def kernels(enabled: bool) -> Iterator[None]:
    """With our kernels or without."""
    before = os.environ.pop("HARKEN_KERNELS", None)
    if not enabled:
        os.environ["HARKEN_KERNELS"] = "off"
    yield
    os.environ.pop("HARKEN_KERNELS", None)
    if before is not None:
        os.environ["HARKEN_KERNELS"] = before


def megabytes(work: Callable[[], tuple[Tensor, ...]]) -> float:
    """Peak memory of `work` above what was there before and what it returns."""
    work()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    results = work()
    returned = sum(part.numel() * part.element_size() for part in results)
    return (torch.cuda.max_memory_allocated() - before - returned) / 1e6


def tangent_rate() -> float:
    """Hyperbolic tangents a second that the chip makes at most, by its own instruction."""
    import triton
    import triton.language as tl

    @triton.jit
    def tangents(values, COUNT: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = values + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tangent = tl.load(at)
        for _ in range(COUNT):
            tangent = tl.inline_asm_elementwise(
                "tanh.approx.f32 $0, $1;", "=f,f", [tangent], dtype=tl.float32, is_pure=True, pack=1
            )
        tl.store(at, tangent)

    count, block, programs = 4096, 1024, 132 * 16
    values = torch.randn(block * programs, device="cuda")
    taken = milliseconds(lambda: tangents[(programs,)](values, count, block, num_warps=4))
    return count * block * programs / taken * 1e3


def both_ways(function: Callable[..., Tensor], parts: list[Tensor], *rest: Any) -> tuple[float, float, float, float]:
    """Forward without gradients, forward + backward, in ms; peak of each in MB above inputs and results."""
    parts = [part.detach().requires_grad_() for part in parts]
    with torch.no_grad():
        grad_output = torch.randn_like(function(*parts, *rest))

    def forward() -> tuple[Tensor, ...]:
        with torch.no_grad():
            return (function(*parts, *rest),)

    def whole() -> tuple[Tensor, ...]:
        context = function(*parts, *rest)
        return (context, *torch.autograd.grad(context, parts, grad_output))

    return milliseconds(forward), milliseconds(whole), megabytes(forward), megabytes(whole)


def worst_error(function: Callable[..., Tensor], parts: list[Tensor], exact: list[Tensor], *rest: Any) -> float:
    """The largest relative error of value and gradients against those in float64."""
    parts = [part.detach().requires_grad_() for part in parts]
    context = function(*parts, *rest)
    computed = [context, *torch.autograd.grad(context, parts, torch.ones_like(context))]
    return max(((value - right).norm() / right.norm()).item() for value, right in zip(computed, exact, strict=True))


def additive_rows(say: Callable[[Row], None]) -> None:
    """Additive attention against its reference."""
    rate = tangent_rate()
    say({"case": "tanh.approx.f32, measured ceiling", "tanh_per_second": float(f"{rate:.3g}")})
    cases = [  # leading sizes, T, S, D, V, dtype, lengths
        ((8,), 1024, 1024, 512, 512, BFLOAT16, False),
        ((8,), 1024, 1024, 512, 512, FLOAT32, False),
        ((8,), 1024, 1024, 512, 512, BFLOAT16, True),
        ((16, 8), 256, 256, 64, 64, BFLOAT16, False),
        ((4,), 2048, 4096, 256, 256, BFLOAT16, False),
        ((1,), 16384, 16384, 256, 256, BFLOAT16, False),
        ((64,), 64, 64, 512, 512, BFLOAT16, False),  # below SMALLEST: the reference on both sides
    ]
    for leading, targets, sources, depth, width, dtype, lengths in cases:
        torch.manual_seed(0)
        shapes = [
            (*leading, targets, depth),
            (*leading, sources, depth),
            (*leading[1:], depth),
            (*leading, sources, width),
        ]
        parts = [torch.randn(shape, device="cuda").to(dtype) for shape in shapes]
        parts[2] = parts[2] / math.sqrt(depth)
        mask = None
        if lengths:  # from an eighth of the longest to the whole
            mask = length_mask(torch.arange(1, leading[0] + 1, device="cuda") * sources // leading[0], sources)[:, None]
        row: Row = {"case": "additive", "leading": leading, "T": targets, "S": sources, "D": depth, "V": width}
        row |= {"dtype": str(dtype)[6:], "lengths": "1/8 .. 1 of S" if lengths else "none"}

        def plain(*given: Any) -> Tensor:
            return additive_attend_with_weights(*given)[0]

        big = math.prod(leading) * targets * sources * depth * (2 if dtype == BFLOAT16 else 4) > 20e9
        for name, function in (("harken", additive_attend), ("eager", plain)):
            if name == "eager" and big:
                continue
            times = both_ways(function, parts, mask)
            names = ("forward_ms", "both_ms", "forward_MB", "both_MB")
            row |= {f"{name}_{key}": float(f"{value:.3g}") for key, value in zip(names, times, strict=True)}
            torch.cuda.empty_cache()
        count = 3 * math.prod(leading) * targets * sources * depth
        count *= float(mask.float().mean()) if mask is not None else 1.0
        row["three_tanh_passes_ms"] = float(f"{count / rate * 1e3:.3g}")
        row["times_the_tanh_rate"] = round(row["three_tanh_passes_ms"] / row["harken_both_ms"], 2)
        if "eager_both_ms" in row:
            row["ratio"] = round(row["eager_both_ms"] / row["harken_both_ms"], 1)
        say(row)
    torch.manual_seed(0)
    for dtype in (BFLOAT16, FLOAT32):
        parts = [
            torch.randn(shape, device="cuda").to(dtype) for shape in ((4, 200, 96), (4, 150, 96), (96,), (4, 150, 64))
        ]
        wide = [part.double().requires_grad_() for part in parts]
        context = additive_attend_with_weights(*wide)[0]
        exact = [context, *torch.autograd.grad(context, wide, torch.ones_like(context))]
        errors = {  # the kernels themselves, as so little work would go to the reference
            "harken": worst_error(additive_attention, parts, exact),
            "eager": worst_error(lambda *given: additive_attend_with_weights(*given)[0], parts, exact),
        }
        say({"case": "additive, largest relative error", "dtype": str(dtype)[6:]} | errors)


def score_rows(say: Callable[[Row], None]) -> None:
    """Cosine and multiplicative scores: queries and keys made ready, then torch's fused attention."""
    from harken.nn.attention.head_scores import CosineHeads

    heads = CosineHeads(8, 64).cuda()
    weight = torch.randn(8, 64, 64, device="cuda") / 64

    def cosine(look: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda query, key, value: look(heads.queries(query), heads.keys(key), value)

    def multiplicative(look: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda query, key, value: look(query * math.sqrt(query.shape[-1]), key @ weight.to(key.dtype), value)

    parts = [torch.randn(8, 8, 1024, 64, device="cuda").bfloat16() for _ in range(3)]
    for name, score in (("cosine", cosine), ("multiplicative", multiplicative)):
        row: Row = {"case": name, "B": 8, "N": 8, "T": 1024, "S": 1024, "K": 64, "dtype": "bfloat16"}
        slow = score(lambda *given: attend_with_weights(*given)[0])
        fast = score(attend)
        for kind, function in (("fused", fast), ("reference", slow)):
            times = both_ways(function, parts)
            names = ("forward_ms", "both_ms", "forward_MB", "both_MB")
            row |= {f"{kind}_{key}": float(f"{value:.3g}") for key, value in zip(names, times, strict=True)}
        exact = [part.float() for part in parts]
        row["difference_in_float32"] = (fast(*exact) - slow(*exact)).abs().max().item()
        row["ratio"] = round(row["reference_both_ms"] / row["fused_both_ms"], 1)
        say(row)


def loop_rows(say: Callable[[Row], None]) -> None:
    """The decoder alone, forward + backward through a whole batch of targets."""
    from harken.models.base import Memory
    from harken.models.recurrent.config import RecurrentDecoderConfig
    from harken.models.recurrent.decoder import RecurrentDecoder

    cases = [
        ("lstm", "additive", "after", 1, 64, 64, 64),
        ("lstm", "additive", "before", 1, 64, 64, 64),
        ("lstm", "additive", "after", 1, 64, 32, 32),
        ("lstm", "multiplicative", "after", 2, 64, 64, 64),
        ("gru", "additive", "before", 1, 64, 64, 64),
    ]
    for cell, attention, order, layers, batch, targets, sources in cases:
        torch.manual_seed(0)
        config = RecurrentDecoderConfig(
            embedding=256, width=512, layers=layers, cell=cell, attention=attention, attend=order, dropout=0.2
        )
        decoder = RecurrentDecoder(config).cuda()
        embedded = torch.randn(batch, targets, 256, device="cuda", requires_grad=True)
        values = torch.randn(batch, sources, 512, device="cuda").bfloat16().requires_grad_()
        mask = length_mask(torch.randint(sources // 2, sources + 1, (batch,), device="cuda"), sources)
        state = torch.randn(batch, 512, device="cuda").bfloat16()
        memory = Memory(values, mask, [(state, state)[: 2 if cell == "lstm" else 1]] * layers)
        inputs = [embedded, values, *decoder.parameters()]
        grad_output = torch.randn(batch, targets, 512, device="cuda", dtype=BFLOAT16)

        def whole() -> tuple[Tensor, ...]:
            with torch.autocast("cuda", BFLOAT16):
                hidden = decoder(embedded, memory)  # noqa: B023 - called within the turn
            return torch.autograd.grad(hidden, inputs, grad_output.to(hidden.dtype))  # noqa: B023

        row: Row = {"case": "decoder loop", "cell": cell, "attention": attention, "attend": order, "layers": layers}
        row |= {"B": batch, "T": targets, "S": sources, "H": 512, "E": 256, "dtype": "bfloat16 autocast"}
        with kernels(False):
            row["eager_ms"] = round(milliseconds(whole, least=7, warm=3), 3)
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        with kernels(True):
            row["replayed_ms"] = round(milliseconds(whole), 3)
        row["held_MB"] = round((torch.cuda.memory_reserved() - before) / 1e6)
        row["us_per_step"] = round(row["replayed_ms"] / targets * 1e3, 1)
        row["ratio"] = round(row["eager_ms"] / row["replayed_ms"], 1)
        say(row)


PARTS = {"additive": additive_rows, "scores": score_rows, "loop": loop_rows}


def main() -> None:
    """Measure and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    record = Record("gpu-attention", options.out)
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(record.add)


if __name__ == "__main__":
    main()
