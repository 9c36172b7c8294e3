"""AdamW with weight decay on matrices only, or Muon for hidden matrices; gradient clipping by the global norm.

g <- g * min(1, clip / |g|), |g| the Euclidean norm over all parameters together. Pascanu et al. (2013),
Loshchilov and Hutter (2019).

Learning rate schedules: a linear warm-up, then

inverse_sqrt   sqrt(warmup / step)              Vaswani et al. (2017)
cosine         (1 + cos(pi progress)) / 2       Loshchilov and Hutter (2017)
linear         1 - progress
wsd            1, and in the last share `cooldown` of the budget (1 - progress) / cooldown       Hu et al. (2024)
plateau        multiplied by a factor whenever validation stalls
constant       1

`progress` is the fraction of the budget that is spent, of steps, epochs or minutes whichever is largest; so a run of
"ten minutes" ends with a learning rate of 0 on any machine.

>>> [round(factor("inverse_sqrt", step, progress=0, warmup=100), 3) for step in (1, 50, 100, 400)]
[0.01, 0.5, 1.0, 0.5]
>>> [round(factor("wsd", 1000, progress=p, warmup=100, cooldown=0.2), 3) for p in (0, 0.8, 0.9, 1)]
[1.0, 1.0, 0.5, 0.0]
>>> [round(factor("cosine", 1000, progress=p, warmup=100), 3) for p in (0, 0.5, 1)]
[1.0, 0.5, 0.0]
"""

from __future__ import annotations

import math
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
    rest = [parameter for parameter in model.parameters() if not any(parameter is matrix for matrix in hidden)]
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


def factor(
    schedule: str, step: int, progress: float, warmup: int, reduced: float = 1.0, cooldown: float = 0.2
) -> float:
    """The factor of the peak learning rate at `step` (from 1); `reduced` is the product of plateau's reductions."""
    rise = min(1.0, step / warmup) if warmup else 1.0
    progress = min(1.0, max(0.0, progress))
    if schedule == "inverse_sqrt":
        return rise if step < warmup else math.sqrt(max(warmup, 1) / step)
    if schedule == "cosine":
        return rise * (1 + math.cos(math.pi * progress)) / 2
    if schedule == "linear":
        return rise * (1 - progress)
    if schedule == "wsd":
        return rise * min(1.0, (1 - progress) / cooldown)
    if schedule == "plateau":
        return rise * reduced
    return rise
