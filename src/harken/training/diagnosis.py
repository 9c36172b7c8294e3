"""Where a NaN or infinite loss began, and the batch that gave it.

>>> from torch import nn
>>> network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
>>> with torch.no_grad():
...     _ = network[1].weight.fill_(float("nan"))
>>> with first_nonfinite(network) as nonfinite:
...     _ = network(torch.ones(1, 2))
>>> nonfinite.place
"the weights of 1 (Linear) are NaN or infinite: '1.weight'"
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harken.files import atomic_write
from harken.training.average import local_part
from harken.training.task import Indices, tensors_of
from harken.training.weights import save_tensors

BATCHES = "nonfinite-step-*"  # files of `write_batch`


@dataclass
class Nonfinite:
    """The first place at which the hooks saw a value that is NaN or infinite; "" for none."""

    place: str = ""


@contextmanager
def first_nonfinite(model: nn.Module) -> Iterator[Nonfinite]:
    """Name the first layer whose output is NaN or infinite while the block runs the model."""
    nonfinite, names = Nonfinite(), {module: name or "the model" for name, module in model.named_modules()}

    def look(module: nn.Module, inputs: Any, output: Any) -> None:
        if nonfinite.place or is_finite(output):
            return
        layer = f"{names[module]} ({type(module).__name__})"
        broken = [name for name, value in module.named_parameters(names[module]) if not is_finite(value)]
        if broken:
            nonfinite.place = f"the weights of {layer} are NaN or infinite: {broken[0]!r}"
        elif not is_finite(inputs):
            nonfinite.place = f"what goes into {layer} is NaN or infinite"
        else:
            nonfinite.place = f"the output of {layer} is NaN or infinite, what goes into it is finite"

    hooks = [module.register_forward_hook(look) for module in model.modules()]
    try:
        yield nonfinite
    finally:
        for hook in hooks:
            hook.remove()


def is_finite(value: Any) -> bool:
    """Whether all floating-point tensors in a value (a tensor, tuples, lists, dicts) are finite, this rank's part."""
    floats = (tensor.detach() for tensor in tensors_of(value) if tensor.is_floating_point())
    return all(bool(torch.isfinite(local_part(tensor)).all()) for tensor in floats)


def nonfinite_loss(loss: Tensor) -> str:
    """Describe a NaN or infinite loss to which every layer gave finite values; "" where the loss is finite too."""
    return "" if is_finite(loss) else "the loss is NaN or infinite, all layers are finite"


def infinite_gradients(model: nn.Module) -> str:
    """The first parameter, in the order of the backward pass, whose gradient is NaN or infinite; "" for none."""
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not is_finite(parameter.grad):
            return f"the loss is finite, the gradient of {name!r} is NaN or infinite"
    return ""


def write_batch(folder: Path, step: int, place: str, indices: Indices, batch: Any) -> Path:
    """Write a batch for inspection: its tensors as safetensors, the rest beside it as JSON; returns the first path."""
    tensors: dict[str, Tensor] = {}
    rest: dict[str, Any] = {}
    _flatten("batch", batch, tensors, rest)
    path = folder / f"nonfinite-step-{step}.safetensors"
    save_tensors(path, {**tensors, "indices": torch.from_numpy(np.ascontiguousarray(indices))})
    atomic_write(path.with_suffix(".json"), json.dumps({"step": step, "found": place, **rest}, indent=2) + "\n")
    return path


def _flatten(name: str, value: Any, tensors: dict[str, Tensor], rest: dict[str, Any]) -> None:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor):
        tensors[name] = value.detach().clone()
    elif hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
        for field in getattr(value, "_fields", None) or value.__dataclass_fields__:
            _flatten(f"{name}.{field}", getattr(value, field), tensors, rest)
    elif isinstance(value, dict):
        for key, part in value.items():
            _flatten(f"{name}.{key}", part, tensors, rest)
    elif isinstance(value, tuple | list):
        for place, part in enumerate(value):
            _flatten(f"{name}.{place}", part, tensors, rest)
    else:
        rest[name] = value if isinstance(value, bool | int | float | str | None) else repr(value)[:1000]
