"""Cross-entropy with label smoothing.

loss = -(1 - e) log p(y) - (e / V) sum_v log p(v), summed over the tokens that are not padding

Szegedy et al. (2016). `linear_cross_entropy` has the output layer in it, for which there are kernels: `cpu` computes
blocks of logits that fit the cache of a CPU, `cuda` makes one pass over half-precision logits on a GPU.

>>> logits = torch.tensor([[2.0, 0.0]])
>>> round(smoothed_cross_entropy(logits, torch.tensor([0]), smoothing=0.1, padding=-1).item(), 4)
0.2269
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.backend import choose, reference
from harken.kernels.cross_entropy.cpu import CPU
from harken.kernels.cross_entropy.cuda import CUDA


def smoothed_cross_entropy(
    logits: Tensor, targets: Tensor, smoothing: float = 0.0, padding: int | None = 0, z_loss: float = 0.0
) -> Tensor:
    """Logits (M, V), targets (M,) -> the summed loss, a scalar; rows whose target is `padding` do not count.

    `z_loss` is the factor of (log Z)^2, Z = sum_v exp(logit_v), which keeps logits from drifting (Chowdhery et al.,
    2022).
    """
    log_probability = torch.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))  # (M, V)
    chosen = log_probability.gather(-1, targets.long().clamp(min=0)[:, None])[:, 0]  # (M,)
    loss = -(1 - smoothing) * chosen - smoothing * log_probability.mean(-1)
    if z_loss:
        loss = loss + z_loss * logits.to(loss.dtype).logsumexp(-1).square()
    return (loss if padding is None else loss * (targets != padding)).sum()


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
    z_loss: float = 0.0,
    padding: int | None = None,
) -> Tensor:
    """`smoothed_cross_entropy(hidden @ weight.T + bias, targets)` for hidden (M, D), weight (V, D), targets (M,).

    Rows whose target is `padding` do not count; None: all rows count.
    """
    return choose(BACKENDS, hidden, weight).run(hidden, weight, bias, targets, smoothing, z_loss, padding)


def _unfused(hidden: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    targets, smoothing, z_loss, padding = options
    return smoothed_cross_entropy(F.linear(hidden, weight, bias), targets, smoothing, padding, z_loss)


BACKENDS = CUDA, CPU, reference("reference", _unfused)
