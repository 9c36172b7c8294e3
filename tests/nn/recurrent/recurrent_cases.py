"""Every cell and its variants, and random layers of them with random weights."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from harken.nn import GRU, LSTM, RNN

VARIANTS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "tanh": (RNN, {}),
    "relu": (RNN, {"nonlinearity": "relu"}),
    "sigmoid": (RNN, {"nonlinearity": "sigmoid"}),
    "lstm": (LSTM, {}),
    "lstm projected": (LSTM, {"proj_size": 2}),
    "lstm diagonal": (LSTM, {"peephole": "diagonal"}),
    "lstm full": (LSTM, {"peephole": "full", "proj_size": 1}),
    "lstm coupled": (LSTM, {"coupled": True}),
    "lstm coupled diagonal": (LSTM, {"coupled": True, "peephole": "diagonal", "proj_size": 2}),
    "lstm coupled full": (LSTM, {"coupled": True, "peephole": "full"}),
    "gru after": (GRU, {}),
    "gru before": (GRU, {"reset": "before"}),
}


def build(
    variant: str, inputs: int, hidden: int, layers: int = 1, dtype: torch.dtype = torch.float64, **more: Any
) -> Any:
    """A layer with normal weights; `hidden` is at least 3, wider than the projections above."""
    kind, options = VARIANTS[variant]
    layer = kind(inputs, hidden, layers, dtype=dtype, **{"batch_first": True, **options, **more})
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.7)
    return layer


def copy_cell(source: Any, target: Any) -> None:
    """The weights of a cell into another, wherever they are parameters."""
    with torch.no_grad():
        for (name, weight), (other, value) in zip(target.named_weights(), source.named_weights(), strict=True):
            assert name == other
            weight.copy_(value)


def parts_of(state: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


def random_state(layer: Any, batch: int) -> Any:
    sizes = layer.cells[0].state_sizes
    parts = tuple(torch.randn(len(layer.cells), batch, size, dtype=layer.cells[0].weight_ih.dtype) for size in sizes)
    return parts if len(parts) > 1 else parts[0]


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    time = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(0, time), min_size=1, max_size=3).filter(any))
    return {
        "variant": draw(st.sampled_from(sorted(VARIANTS))),
        "inputs": draw(st.integers(1, 3)),
        "hidden": draw(st.integers(3, 4)),
        "layers": draw(st.integers(1, 3)),
        "bias": draw(st.sampled_from([True, "one", False])),
        "bidirectional": draw(st.booleans()),
        "layer_norm": draw(st.booleans()),
        "connections": draw(st.sampled_from([None, "residual", "highway", "dense"])),
        "zoneout": draw(st.sampled_from([0.0, 0.3])),
        "recurrent_dropout": draw(st.sampled_from([0.0, 0.3])),
        "lengths": lengths if draw(st.booleans()) else None,
        "time": time,
        "batch": len(lengths),
        "with_state": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }
