"""The names of weights in `torch.nn.RNN`, `LSTM` and `GRU`, and in model files of earlier versions.

    torch and harken   weight_ih_l1_reverse        earlier   cells.3.weight_ih        (layer 1, second direction)

`load_state_dict` takes both.

>>> weight_suffix(3, directions=2), split_name("weight_ih_l1_reverse")
('_l1_reverse', ('weight_ih', 1, True))
"""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor, nn

from harken.kernels.recurrent.call import PARAMETERS
from harken.kernels.recurrent.cudnn import torch_weights

NAME = re.compile(r"(\w+?)_l(\d+)(_reverse)?")


def weight_suffix(number: int, directions: int) -> str:
    """The end of torch's names for the weights of a cell; `number` counts layers, and directions within them."""
    depth, reverse = divmod(number, directions)
    return f"_l{depth}{'_reverse' if reverse else ''}"


def split_name(name: str) -> tuple[str, int, bool]:
    """A name of torch's -> the cell's name of the weight, the layer, and whether it reads backwards."""
    match = NAME.fullmatch(name)
    assert match is not None, name
    return match[1], int(match[2]), match[3] is not None


def accept_stored_names(module: Any, state: dict[str, Any], prefix: str, *others: Any) -> None:
    """Rename, before they are loaded, weights that have the names of an earlier version."""
    for old, new in module.stored_names().items():
        if prefix + old in state:
            state[prefix + new] = state.pop(prefix + old)


def torch_state(module: Any) -> dict[str, Tensor]:
    """The weights of a plain stack as torch's layer has them: a second bias that a cell lacks is 0."""
    named: dict[str, Tensor] = {}
    for number, cell in enumerate(module.cells):
        there = {"bias_hh": cell.bias_ih is not None}
        present = [name for name in PARAMETERS if there.get(name, getattr(cell, name, None) is not None)]
        for name, weight in zip(present, torch_weights([cell.tensors()]), strict=True):
            named[name + weight_suffix(number, module.directions)] = weight.detach()
    return named


def copy_weights(source: nn.RNNBase, target: nn.Module) -> None:
    """Into a stack of the same shape; device, dtype and mode (training or not) come along."""
    example = source.weight_ih_l0
    assert isinstance(example, Tensor)
    target.to(example.device, example.dtype).train(source.training)
    target.load_state_dict(source.state_dict())


def torch_arguments(module: nn.RNNBase) -> dict[str, Any]:
    """The arguments that one of torch's layers was constructed with."""
    names = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"]
    names += ["nonlinearity"] if isinstance(module, nn.RNN) else ["proj_size"] if isinstance(module, nn.LSTM) else []
    return {name: getattr(module, name) for name in names}
