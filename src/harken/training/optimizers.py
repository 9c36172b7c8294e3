"""AdamW with weight decay on matrices only, and gradient clipping by the global norm.

g <- g * min(1, clip / |g|), |g| the Euclidean norm over all parameters together. Pascanu et al. (2013),
Loshchilov and Hutter (2019).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from harken.training.config import TrainConfig


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only, not on biases and norms."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, eps=1e-9, fused=True)


def use_device_rate(optimizer: torch.optim.Optimizer, rate: Tensor) -> None:
    """Let an optimizer on a GPU read its learning rate from a tensor (), so that its step can be captured."""
    for group in optimizer.param_groups:
        group["lr"], group["capturable"] = rate, True


def clip_by_global_norm(parameters: Iterable[Tensor], limit: float | None) -> Tensor:
    """Scale all gradients so that their norm is at most `limit`; returns the norm before clipping."""
    present = [parameter for parameter in parameters if parameter.grad is not None]
    if limit is None:
        return nn.utils.get_total_norm([parameter.grad for parameter in present if parameter.grad is not None])
    return nn.utils.clip_grad_norm_(present, limit)


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: dict[Tensor, str]) -> Iterator[tuple[str, Tensor]]:
    """The optimizer state as named tensors for a checkpoint."""
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            yield f"optimizer.{key}.{names[parameter]}", value


def restore_optimizer(optimizer: torch.optim.Optimizer, names: dict[Tensor, str], tensors: dict[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` gave."""
    for parameter, name in names.items():
        for key in ("step", "exp_avg", "exp_avg_sq"):
            saved = tensors.get(f"optimizer.{key}.{name}")
            if saved is not None:
                where = "cpu" if key == "step" and not parameter.is_cuda else parameter.device
                optimizer.state[parameter][key] = saved.to(where)
