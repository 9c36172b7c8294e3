"""Activations between the two linear maps of a feed-forward layer.

relu    max(0, x)
gelu    x P(X <= x) for a standard normal X; Hendrycks and Gimpel (2016)
gelu_tanh  its approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as in GPT-2
silu    x sigmoid(x), also called swish; Elfwing et al. (2018)
swiglu  SiLU(a) * b of the two halves [a; b], so the first map is twice as wide; Shazeer (2020)
geglu   the same with gelu_tanh, as in T5 v1.1

>>> ACTIVATIONS["swiglu"](torch.tensor([0.0, 1.0, 5.0, 2.0])).tolist()[0], inner_width("swiglu", 2)
(0.0, 4)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def swiglu(values: Tensor) -> Tensor:
    """(..., 2 F) -> (..., F): the first half, through SiLU, gates the second."""
    gate, candidate = values.chunk(2, -1)
    return F.silu(gate) * candidate


def gelu_tanh(values: Tensor) -> Tensor:
    """GELU by its approximation with tanh."""
    return F.gelu(values, approximate="tanh")


def geglu(values: Tensor) -> Tensor:
    """(..., 2 F) -> (..., F): the first half, through GELU by its approximation, gates the second."""
    gate, candidate = values.chunk(2, -1)
    return gelu_tanh(gate) * candidate


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
    "swiglu": swiglu,
    "geglu": geglu,
}
GATED = ("swiglu", "geglu")


def inner_width(activation: str, inner: int) -> int:
    """The width of the first map for a second map with `inner` inputs."""
    return 2 * inner if activation in GATED else inner
