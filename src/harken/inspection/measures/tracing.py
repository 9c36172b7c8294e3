"""Every recurrent layer of any model, watched while the model runs as it always does.

A module is traceable if its forward takes `trace=` and then hands a `harken.nn.recurrent.trace.Trace` back at the end
of its result: RNN, LSTM, GRU, and the recurrent decoder of `harken.models`. Hooks ask each of them for its trace and
take it off the result again, so the modules around them notice nothing, and no module keeps anything between calls.
Torch's own `nn.RNN`, `nn.LSTM` and `nn.GRU` keep no gates: in a copy of the model, harken's layers stand in for them.

>>> from harken.nn import GRU
>>> model = nn.Sequential(GRU(3, 5, num_layers=2, bidirectional=True, batch_first=True))
>>> with tracing(model) as records:
...     output, state = model(torch.randn(2, 7, 3))
>>> [record.name for record in records]
['0 layer 1 →', '0 layer 1 ←', '0 layer 2 →', '0 layer 2 ←']
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace  # noqa: F401 - of the example
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from harken.nn import GRU, LSTM, RNN
from harken.nn.recurrent.stack import Stack
from harken.nn.recurrent.trace import DirectionTrace, Trace

ARROWS = "→←"
Layer = TypeVar("Layer")


@dataclass(frozen=True)
class NamedLayers(Generic[Layer]):
    """The result of each layer, every one with a `name`: by its number, by its name, or one after the other.

    >>> layers = NamedLayers([SimpleNamespace(name="encoder"), SimpleNamespace(name="decoder")])
    >>> layers[0].name, layers["decoder"].name, len(layers)
    ('encoder', 'decoder', 2)
    """

    layers: list[Layer]

    def __getitem__(self, which: int | str) -> Layer:
        if isinstance(which, int):
            return self.layers[which]
        for layer in self.layers:
            if layer.name == which:  # type: ignore[attr-defined]
                return layer
        names = ", ".join(str(layer.name) for layer in self.layers)  # type: ignore[attr-defined]
        raise KeyError(f"there is no layer {which!r}; there are {names}")

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)


@dataclass(frozen=True)
class LayerRecord:
    """One layer in one direction, during one call of its module."""

    module: str  # its path in the model; "" for the model itself
    call: int  # 0 for the first; a module may be called more than once
    depth: int  # 0 for the lowest layer of the module
    direction: int  # 0 reads forwards, 1 backwards
    layers: int  # of the module
    directions: int
    trace: DirectionTrace

    @property
    def name(self) -> str:
        """`encoder.0 layer 1 →`: as much of it as tells layers apart."""
        parts = [self.module] if self.module else []
        if self.layers > 1 or not parts:
            parts.append(f"layer {self.depth + 1}")
        if self.directions > 1:
            parts.append(ARROWS[self.direction])
        if self.call:
            parts.append(f"call {self.call + 1}")
        return " ".join(parts)


@contextmanager
def hooks() -> Iterator[list[Any]]:
    """A list of the handles of hooks, which are removed when the block ends."""
    handles: list[Any] = []
    try:
        yield handles
    finally:
        for handle in handles:
            handle.remove()


def is_traceable(module: nn.Module) -> bool:
    """Whether a module can hand back what its cells did."""
    return isinstance(module, Stack) or getattr(module, "traceable", False) is True


@contextmanager
def tracing(model: nn.Module) -> Iterator[list[LayerRecord]]:
    """A list that fills with what the recurrent layers of `model` do until the block ends."""
    records: list[LayerRecord] = []
    with hooks() as handles:
        for name, module in model.named_modules():
            if is_traceable(module):
                handles += _watch(name, module, records)
        yield records


def _watch(name: str, module: nn.Module, records: list[LayerRecord]) -> list[Any]:
    requested: list[bool] = []  # whether the caller wanted the trace itself, for each call under way
    calls = 0
    signature = inspect.signature(module.forward)

    def before(_: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        bound = signature.bind(*arguments, **options)
        requested.append(bool(bound.arguments.get("trace", False)))
        bound.arguments["trace"] = True
        return bound.args, bound.kwargs

    def after(_: nn.Module, arguments: Any, options: Any, result: tuple[Any, ...]) -> Any:
        nonlocal calls
        *usual, trace = result
        if isinstance(trace, Trace):
            for depth, directions in enumerate(trace):
                for number, direction in enumerate(directions):
                    records.append(LayerRecord(name, calls, depth, number, len(trace), len(directions), direction))
        calls += 1
        if requested.pop():
            return result
        return tuple(usual) if len(usual) > 1 else usual[0]

    return [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after, with_kwargs=True),
    ]


@contextmanager
def still(model: nn.Module) -> Iterator[None]:
    """The model without dropout and with gradients, and afterwards as it was; `.grad` is never touched."""
    modes = {module: module.training for module in model.modules()}
    parameters = [parameter for parameter in model.parameters() if parameter.is_floating_point()]
    frozen = [parameter for parameter in parameters if not parameter.requires_grad]
    model.eval()
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        with torch.enable_grad():
            yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)
        for module, mode in modes.items():
            module.training = mode


def with_harken_layers(model: nn.Module) -> nn.Module:
    """The model itself; where it has recurrent layers of torch's, a copy that computes the same with harken's."""
    peers: dict[type[nn.Module], Any] = {nn.RNN: RNN, nn.LSTM: LSTM, nn.GRU: GRU}
    if type(model) in peers:
        return peers[type(model)].from_torch(model)
    if not any(type(module) in peers for module in model.modules()):
        return model
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) in peers:
                setattr(module, name, peers[type(child)].from_torch(child))
    return model
