"""Weights to and from `torch.nn.RNN`, `LSTM` and `GRU`: the same numbers under other names.

    torch   weight_ih_l1_reverse        ours   cells.3.weight_ih        (layer 1, second direction)

`load_state_dict` takes both; `torch_state` gives torch's.
"""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor, nn

from harken.kernels.recurrent.cudnn import torch_weights

NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
PATTERN = re.compile(rf"(?:inner\.)?({'|'.join(NAMES)})_l(\d+)(_reverse)?")


def accept_torch_names(module: Any, state: dict[str, Any], prefix: str, *others: Any) -> None:
    """Rename, before they are loaded, the weights of a torch layer (or of a layer of harken's first version)."""
    for key in [key for key in state if key.startswith(prefix)]:
        found = PATTERN.fullmatch(key.removeprefix(prefix))
        if found:
            name, depth, reverse = found.groups()
            state[f"{prefix}cells.{int(depth) * module.directions + bool(reverse)}.{name}"] = state.pop(key)


def torch_state(module: Any) -> dict[str, Tensor]:
    """The weights of a plain stack under torch's names."""
    named: dict[str, Tensor] = {}
    for place, cell in enumerate(module.cells):
        depth, way = divmod(place, module.directions)
        there = {"bias_hh": cell.bias_ih is not None}  # made of zeros where a cell has one bias
        present = [name for name in NAMES if there.get(name, getattr(cell, name, None) is not None)]
        suffix = f"_l{depth}{'_reverse' if way else ''}"
        for name, weight in zip(present, torch_weights([cell]), strict=True):
            named[name + suffix] = weight.detach()
    return named


def copy_weights(source: nn.RNNBase, target: nn.Module) -> None:
    """Into a stack of the same shape; device, dtype and mode (training or not) come along."""
    example = source.weight_ih_l0
    assert isinstance(example, Tensor)
    target.to(example.device, example.dtype).train(source.training)
    target.load_state_dict(source.state_dict())


def torch_arguments(module: nn.RNNBase) -> dict[str, Any]:
    """What one of torch's layers was constructed with."""
    names = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"]
    names += ["nonlinearity"] if isinstance(module, nn.RNN) else ["proj_size"] if isinstance(module, nn.LSTM) else []
    return {name: getattr(module, name) for name in names}
