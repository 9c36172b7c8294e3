"""AdamW with weight decay on matrices only, or Muon for hidden matrices; gradient clipping by the global norm.

g <- g * min(1, clip / |g|), |g| the Euclidean norm over all parameters together. Pascanu et al. (2013),
Loshchilov and Hutter (2019).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from harken.training.config import TrainConfig
from harken.training.muon import Muon

OUTPUTS = ("output", "output_weight", "emit", "answer", "crf")  # parts of models whose matrices AdamW trains
KEYS = ("step", "exp_avg", "exp_avg_sq", "momentum_buffer")  # of an optimizer's state


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer of a recipe, with weight decay on matrices only, not on biases and norms."""
    hidden = hidden_matrices(model) if config.optimizer == "muon" else []
    rest = [parameter for parameter in model.parameters() if not any(parameter is one for one in hidden)]
    matrices = [parameter for parameter in rest if parameter.dim() >= 2]
    vectors = [parameter for parameter in rest if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, eps=1e-9, fused=True)
    return Muon(hidden, adamw, config.learning_rate, config.weight_decay) if hidden else adamw


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices between hidden states: no embeddings, no output layer.

    >>> [tuple(value.shape) for value in hidden_matrices(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)))]
    [(2, 4)]
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return [
        value
        for name, value in model.named_parameters()
        if value.dim() == 2 and id(value) not in tables and name.split(".")[0] not in OUTPUTS
    ]


def use_device_rate(optimizer: torch.optim.Optimizer, rate: Tensor) -> None:
    """Let an optimizer on a GPU read its learning rate from a tensor (), so that its step can be captured."""
    for group in optimizer.param_groups:
        group["lr"] = rate
        if "capturable" in group:
            group["capturable"] = True


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
        for key in KEYS:
            saved = tensors.get(f"optimizer.{key}.{name}")
            if saved is not None:
                where = "cpu" if key == "step" and not parameter.is_cuda else parameter.device
                optimizer.state[parameter][key] = saved.to(where)
