"""Output layer and label-smoothed cross-entropy in one operator; the reference is `harken.nn.loss`.

`linear_cross_entropy` is the one entry: `cpu.py` computes blocks of logits that fit the cache of a CPU, `cuda.py` makes
one pass over half-precision logits on a GPU.
"""

from __future__ import annotations

from torch import Tensor

from harken.kernels.cross_entropy import cpu, cuda

__all__ = ["linear_cross_entropy"]


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

    Args:
        z_loss: factor of log(Z)^2, with Z the sum of the exponentials of the logits, which is added for every row and
            keeps the logits from drifting (Chowdhery et al., 2022).
        padding: rows with this target count for nothing; None: all rows count.
    """
    if cuda.is_supported(hidden):
        return cuda.linear_cross_entropy(hidden, weight, bias, targets, smoothing, z_loss, padding)
    return cpu.linear_cross_entropy(hidden, weight, bias, targets, smoothing, z_loss, padding)
