"""Weight drop: dropout on the recurrent matrices, one mask for a whole pass (Merity et al., 2018, after DropConnect).

h_t = f(W x_t + (m * U) h_{t-1}),   m zeroes each entry of U with probability p and scales the rest by 1 / (1 - p)

U is the same at every step, so one dropped copy serves all of them: the layer is called with that copy in the place of
its own matrix and goes whichever way is quickest for it, as it would without. Gradients reach U through the copy.

>>> from harken.nn import LSTM
>>> layer = LSTM(3, 5)
>>> dropped = call_with_dropped_weights(layer, 0.5, torch.ones(1, 4, 3))[0]
>>> torch.equal(dropped, layer(torch.ones(1, 4, 3))[0])
False
>>> same = call_with_dropped_weights(layer.eval(), 0.5, torch.ones(1, 4, 3))[0]
>>> torch.equal(same, layer(torch.ones(1, 4, 3))[0])
True
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

RECURRENT = "weight_hh"


def call_with_dropped_weights(layer: nn.Module, p: float, *arguments: Any, **options: Any) -> Any:
    """What `layer(*arguments, **options)` gives with dropped recurrent matrices; in training alone."""
    if not layer.training or p == 0:
        return layer(*arguments, **options)
    dropped = {
        name: F.dropout(weight, p) for name, weight in layer.named_parameters() if name.split(".")[-1] == RECURRENT
    }
    return torch.func.functional_call(layer, dropped, arguments, options)
