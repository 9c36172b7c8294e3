"""Cross-entropy with label smoothing.

loss = -(1 - e) log p(y) - (e / V) sum_v log p(v), summed over the tokens that are not padding

Szegedy et al. (2016). `harken.kernels.cross_entropy` fuses it with the output layer; this is its reference.

>>> logits = torch.tensor([[2.0, 0.0]])
>>> round(smoothed_cross_entropy(logits, torch.tensor([0]), smoothing=0.1, padding=-1).item(), 4)
0.2269
"""

from __future__ import annotations

import torch
from torch import Tensor


def smoothed_cross_entropy(
    logits: Tensor, targets: Tensor, smoothing: float = 0.0, padding: int = 0, z_loss: float = 0.0
) -> Tensor:
    """Logits (M, V), targets (M,) -> the summed loss, a scalar; rows whose target is `padding` do not count.

    `z_loss` is the factor of (log Z)^2, Z = sum_v exp(logit_v), which keeps logits from drifting (Chowdhery et al.,
    2022).
    """
    log_probability = torch.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))  # (M, V)
    real = targets != padding
    chosen = log_probability.gather(-1, targets.clamp(min=0)[:, None])[:, 0]  # (M,)
    loss = -(1 - smoothing) * chosen - smoothing * log_probability.mean(-1)
    if z_loss:
        loss = loss + z_loss * logits.to(loss.dtype).logsumexp(-1).square()
    return (loss * real).sum()
