"""Attention heads that are switched off: their part of the context is zeroed before the output matrix W^O.

Michel et al., 2019, "Are Sixteen Heads Really Better than One?"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from harken.errors import UserError
from harken.inspection.measures.tracing import hooks
from harken.nn.attention.multihead import CrossAttention, SelfAttention

KINDS = ("cross", "encoder", "decoder")  # attention to the source, and self-attention of either side


@dataclass(frozen=True)
class Head:
    """One attention head; layers and heads are counted from 0."""

    kind: str
    layer: int
    head: int


@contextmanager
def without_heads(model: nn.Module, heads: Sequence[Head]) -> Iterator[None]:
    """Inside, these heads contribute nothing.

    Raises:
        UserError: there is no such head.
    """
    layers = attention_layers(model)
    with hooks() as handles:
        for kind, layer in {(head.kind, head.layer) for head in heads}:
            chosen = [head.head for head in heads if (head.kind, head.layer) == (kind, layer)]
            if not (0 <= layer < len(layers[kind])) or max(chosen) >= layers[kind][layer].heads:
                raise UserError(f"there is no {kind} attention head {max(chosen) + 1} in layer {layer + 1}")
            module = layers[kind][layer]
            handles.append(module.output.register_forward_pre_hook(_zeroing(chosen, module.heads)))
        yield


def attention_layers(model: nn.Module) -> dict[str, list[Any]]:
    """The attention modules of an encoder-decoder by kind, the lowest layer first; empty where there are none."""
    layers: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for name, module in model.named_modules():
        if isinstance(module, CrossAttention):
            layers["cross"].append(module)
        elif isinstance(module, SelfAttention):
            layers["encoder" if name.startswith("encoder") else "decoder"].append(module)
    return layers


def _zeroing(chosen: Sequence[int], heads: int) -> Any:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        context = inputs[0].unflatten(-1, (heads, -1)).clone()  # (..., N, K)
        context[..., list(chosen), :] = 0
        return (context.flatten(-2), *inputs[1:])

    return hook
