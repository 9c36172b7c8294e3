"""Connections between the layers of a stack; x is the output of the layer below, f the layer.

none        f(x)
residual    x + f(x)                     He et al. (2016), in deep recurrent translators Wu et al. (2016)
highway     t * f(x) + (1 - t) * x       t = sigmoid(W x + b), b starting at -1: mostly x. Srivastava et al. (2015)
dense       f([x_0; f_1; f_2; ...])      every layer reads the input and all layers below. Huang et al. (2017)

The first layer reads the input alone, and layers below `first` (from 0) have no connections: deep recurrent translators
have residuals from the third layer on. The output of the stack has the same width for all of them.

>>> Connections("dense", input_size=3, width=5, layers=3).input_sizes
[3, 8, 13]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Connections(nn.Module):
    """The connections of a stack whose layers are `width` wide."""

    def __init__(self, kind: str | None, input_size: int, width: int, layers: int, first: int = 1) -> None:
        super().__init__()
        self.kind, self.first = kind, max(1, first)
        dense = [kind == "dense" and depth >= self.first for depth in range(1, layers)]
        above = [input_size + depth * width if all_of_it else width for depth, all_of_it in enumerate(dense, 1)]
        self.input_sizes = [input_size, *above]
        gates = [nn.Linear(width, width) for _ in range(layers - self.first if kind == "highway" else 0)]
        for gate in gates:
            nn.init.constant_(gate.bias, -1.0)
        self.gates = nn.ModuleList(gates) if kind == "highway" else None

    def into(self, below: list[Tensor]) -> Tensor:
        """The input of the next layer, from the input and the outputs of the layers below it (..., D)."""
        return torch.cat(below, -1) if self.kind == "dense" and len(below) > self.first else below[-1]

    def out(self, depth: int, below: list[Tensor], output: Tensor) -> Tensor:
        """The output of layer `depth`, which computed `output` (..., width), with its connection."""
        if depth < self.first or self.kind in (None, "dense"):
            return output
        if self.gates is None:
            return below[-1] + output
        transform = torch.sigmoid(self.gates[depth - self.first](below[-1]))
        return below[-1] + transform * (output - below[-1])

    def extra_repr(self) -> str:
        return repr(self.kind)
