"""The first weights of recurrent layers.

Orthogonal recurrent blocks keep the length of h, so that gradients neither vanish nor explode at once (Saxe et al.,
2014); input weights are Glorot-uniform; biases are 0, but the forget gates of LSTMs start open (Jozefowicz et al.,
2015); peepholes are 0: they start as a plain LSTM.
"""

from __future__ import annotations

from torch import nn

from harken.nn.recurrent.lstm import LSTMCell


def initialize(module: nn.Module, forget_bias: float = 1.0) -> None:
    """Draw the weights of a cell, or of one of torch's recurrent layers."""
    for name, parameter in module.named_parameters():
        if "norm" in name:
            continue
        if "weight_hh" in name:
            for block in parameter.data.split(_block(module)):
                nn.init.orthogonal_(block)
        elif "weight_ih" in name or "weight_hr" in name:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
    set_forget_bias(module, forget_bias)


def _block(module: nn.Module) -> int:
    size = module.hidden_size
    assert isinstance(size, int)
    return size


def set_forget_bias(module: nn.Module, value: float) -> None:
    """Start the forget gates of an LSTM at sigmoid(value), where it has biases."""
    for name, parameter in module.named_parameters():
        if isinstance(module, nn.LSTM | LSTMCell) and "bias_" in name:
            gates = parameter.data.chunk(3 if getattr(module, "coupled", False) else 4)
            gates[0 if len(gates) == 3 else 1].fill_(value if "bias_ih" in name else 0.0)
