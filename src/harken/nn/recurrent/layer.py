"""A stack with first weights, and with the way to `torch.nn` and back.

>>> from harken.nn import GRU
>>> peer = nn.GRU(3, 5, num_layers=2, batch_first=True)
>>> layer, values = GRU.from_torch(peer), torch.randn(2, 7, 3)
>>> torch.equal(layer(values)[0], peer(values)[0]), type(layer.to_torch()).__name__
(True, 'GRU')
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from harken.nn.recurrent.initialization import initialize, set_forget_bias
from harken.nn.recurrent.interop import copy_weights, torch_state
from harken.nn.recurrent.stack import Stack


class RecurrentLayer(Stack):
    """The way to torch and back, and the first weights."""

    peer: Any  # a class of torch.nn
    lacking: list[str]  # options in use that the peer lacks

    def begin(self, orthogonal: bool, forget_bias: float | None, device: Any, dtype: torch.dtype | None) -> None:
        """Draw the first weights and move them to where they are wanted."""
        for cell in self.cells:
            if orthogonal:
                initialize(cell, forget_bias or 0.0)
            elif forget_bias is not None:
                set_forget_bias(cell, forget_bias)
        self.to(device=device, dtype=dtype)

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """A layer with the shape, the weights (copied) and the batch order of torch's own."""
        if not isinstance(module, cls.peer):
            found = f"{type(module).__module__}.{type(module).__name__}"
            raise ValueError(f"{cls.__name__}.from_torch takes torch.nn.{cls.peer.__name__}, not {found}")
        layer = cls(**_arguments(module))
        copy_weights(module, layer)
        return layer

    def to_torch(self) -> nn.RNNBase:
        """Torch's own layer with the same weights (copied)."""
        lacking = [*self.lacking, *self.options.extras()]
        if lacking:
            raise ValueError(f"torch.nn.{self.peer.__name__} has no {', '.join(lacking)}: this layer has no twin there")
        options, example = self.options, self.cells[0].weight_ih
        assert isinstance(example, Tensor)
        shape = (options.input_size, options.hidden_size, options.num_layers)
        module: nn.RNNBase = self.peer(
            *shape,
            bias=options.bias not in (False, "none"),
            batch_first=options.batch_first,
            dropout=options.dropout,
            bidirectional=options.bidirectional,
            device=example.device,
            dtype=example.dtype,
            **self.peer_arguments(),
        )
        module.load_state_dict(torch_state(self))
        return module.train(self.training)

    def peer_arguments(self) -> dict[str, Any]:
        """What the peer's constructor takes beside the common arguments."""
        return {}


def _arguments(module: nn.RNNBase) -> dict[str, Any]:
    names = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"]
    names += ["nonlinearity"] if isinstance(module, nn.RNN) else ["proj_size"] if isinstance(module, nn.LSTM) else []
    return {name: getattr(module, name) for name in names}
