"""Blocks that are computed again in the backward pass give the same gradients, dropout included."""

from typing import Any

import pytest
import torch
from torch import Tensor

from harken.nn.attention.packed import PackedMask
from harken.nn.transformer.fused import DropoutSeed
from harken.nn.transformer.stack import DecoderStack, EncoderStack

OPTIONS = {"layers": 2, "width": 8, "heads": 2, "feedforward": 16, "dropout": 0.3, "positions": "sinusoidal"}


def gradients(stack: torch.nn.Module, values: Tensor, recompute: bool, packed: bool) -> list[Tensor]:
    stack.recompute = recompute  # type: ignore[assignment]
    torch.manual_seed(5)
    if packed:
        mask = PackedMask.spans(torch.tensor([3, 4]), 7)
        output = stack.packed(values[0], DropoutSeed(torch.tensor([1])), mask)  # type: ignore[operator]
    elif isinstance(stack, DecoderStack):
        output = stack(values, values.flip(1))
    else:
        output = stack(values, torch.tensor([7, 4]))
    return list(torch.autograd.grad(output.square().sum(), list(stack.parameters())))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *((kind, {}) for kind in ("encoder", "decoder", "packed")),
        ("packed", {"norm": "post"}),
        ("packed", {"dropout": 0.0, "feedforward_dropout": 0.3}),
    ],
    ids=str,
)
def test_gradients_are_the_same(kind: str, changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    options = OPTIONS | changes
    stack = DecoderStack(**options) if kind == "decoder" else EncoderStack(**options)  # type: ignore[arg-type]
    values = torch.randn(2, 7, 8)
    plain, again = (gradients(stack, values, recompute, kind == "packed") for recompute in (False, True))
    for one, other in zip(plain, again, strict=True):
        torch.testing.assert_close(one, other)


def test_nothing_is_kept_inside_a_block() -> None:
    stack, kept = EncoderStack(**OPTIONS), []  # type: ignore[arg-type]
    for recompute in (False, True):
        stack.recompute = recompute
        saved: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x, saved=saved: saved.append(x.numel()) or x, lambda x: x):
            stack(torch.randn(2, 7, 8)).sum()
        kept.append(sum(saved))
    assert kept[1] < kept[0] / 3
