"""Muon: the momentum of a hidden matrix is orthogonalised before it is applied; AdamW for everything else.

M <- m M + (1 - m) G      U S V^T = G + m (M - G)      W <- W - rate (0.2 sqrt(max(rows, columns)) U V^T + decay W)

U V^T is approximated by five Newton-Schulz steps on the singular values. The factor gives updates the size of AdamW's,
so that one learning rate serves both (Liu et al., 2025). Jordan et al. (2024).

`torch.optim.Muon` computes the same, one matrix at a time and with a rate that is a number. Here matrices of one shape
are orthogonalised together, and the step can be captured as part of a CUDA graph: the rate may be a tensor, and
`grad_scale` and `found_inf` mean what they do for torch's fused optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.775, 2.0315)  # of the quintic iteration; singular values end between 0.7 and 1.2
STEPS = 5
MOMENTUM = 0.95
SMALLEST_NORM = 1e-7


class Muon(torch.optim.Optimizer):
    """Muon for `matrices`, and an optimizer whose groups and state are shared for the other parameters."""

    grad_scale: Tensor | None = None  # gradients are divided by it
    found_inf: Tensor | None = None  # 1 where the step must change nothing

    def __init__(
        self, matrices: Sequence[Tensor], others: torch.optim.Optimizer, lr: float, weight_decay: float
    ) -> None:
        self.others = others
        super().__init__([{"params": list(matrices), "lr": lr, "weight_decay": weight_decay}], {})
        self.matrices = self.param_groups[0]
        self.param_groups += others.param_groups  # the same dicts: a new rate is seen by both
        self.state = others.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        self.others.grad_scale, self.others.found_inf = self.grad_scale, self.found_inf  # type: ignore[attr-defined]
        self.others.step()
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for parameter in self.matrices["params"]:
            if parameter.grad is not None:
                by_shape.setdefault(parameter.shape, []).append(parameter)
        for parameters in by_shape.values():
            self._update(parameters)

    def _update(self, parameters: list[Tensor]) -> None:
        rate, decay = self.matrices["lr"], self.matrices["weight_decay"]
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        gradient = torch.stack([parameter.grad for parameter in parameters])  # type: ignore[misc]
        keep: Any = 1.0
        if self.grad_scale is not None:
            gradient = gradient / self.grad_scale
        if self.found_inf is not None:
            keep = 1.0 - self.found_inf
            gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
        momentum = torch.stack(buffers)
        momentum += (gradient - momentum) * ((1 - MOMENTUM) * keep)
        rows, columns = parameters[0].shape
        change = orthogonalised(gradient.lerp(momentum, MOMENTUM)).to(gradient.dtype)
        change = change * (rate * keep * 0.2 * max(rows, columns) ** 0.5)
        fade = 1.0 - rate * decay * keep
        for parameter, buffer, update, new in zip(parameters, buffers, change, momentum, strict=True):
            buffer.copy_(new)
            parameter.mul_(fade).sub_(update)


def orthogonalised(matrices: Tensor) -> Tensor:
    """(..., A, B) -> about U V^T of each U S V^T: every singular value becomes about 1.

    >>> values = torch.linalg.svdvals(orthogonalised(torch.randn(3, 8, 5, generator=torch.manual_seed(0))).float())
    >>> bool((values > 0.6).all() and (values < 1.3).all())
    True
    """
    a, b, c = COEFFICIENTS
    low = torch.bfloat16 if matrices.is_cuda else torch.float32  # some CPUs crash in bfloat16
    values: Tensor = matrices.to(low)
    tall = values.shape[-2] > values.shape[-1]
    values = values.mT if tall else values
    values = values / values.norm(dim=(-2, -1), keepdim=True).clamp(min=SMALLEST_NORM)
    for _ in range(STEPS):
        gram = values @ values.mT
        values = a * values + (b * gram + c * gram @ gram) @ values
    return values.mT if tall else values
