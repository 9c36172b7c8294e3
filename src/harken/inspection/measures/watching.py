"""The outputs of modules that keep no trace while a model runs: cells in a loop of the user's own, and stacked blocks.

cells     `nn.RNNCell`, `nn.LSTMCell`, `nn.GRUCell` and harken's cells that are called once for each step
blocks    layers that take a whole sequence (B, T, D) and return one: those of a Transformer or a convolutional network,
          of torch, harken or another package. They are found in a `ModuleList` or `Sequential`, or by their class.

>>> cell, x = nn.GRUCell(3, 4), torch.randn(5, 2, 3)
>>> with watching(cell) as watched:
...     h = None
...     for step in x:
...         h = cell(step, h)
>>> [(one.name, one.kind, one.parts["hidden"].shape) for one in watched.cells()]  # (B, T, H)
[('GRUCell', 'GRU', torch.Size([2, 5, 4]))]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from harken.inspection.measures.tracing import hooks, is_traceable
from harken.nn.recurrent.cell import Cell
from harken.nn.transformer.block import DecoderBlock, EncoderBlock

BLOCKS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, EncoderBlock, DecoderBlock)
STATE = ("hidden", "cell")


@dataclass(frozen=True)
class Watched:
    """The outputs of one module: for each word the tensors on the way to the loss, and how they make (B, T, D)."""

    name: str
    kind: str  # LSTM, GRU, RNN, or the class of a block
    module: nn.Module
    steps: dict[str, list[Tensor]]  # of a cell: T tensors (B, H); of a block one tensor
    time_first: bool = False  # a block's (T, B, D)
    is_block: bool = False

    @property
    def parts(self) -> dict[str, Tensor]:
        """Each word as (B, T, D)."""
        return {word: self.assemble(tensors) for word, tensors in self.steps.items()}

    def assemble(self, tensors: list[Tensor]) -> Tensor:
        """Assemble the tensors of `steps`, or their gradients, to (B, T, D)."""
        if not self.is_block:
            return torch.stack([tensor if tensor.dim() == 2 else tensor[None] for tensor in tensors], 1)
        return tensors[0].transpose(0, 1) if self.time_first else tensors[0]

    @property
    def attends(self) -> bool:
        """Whether every position reaches every other one directly."""
        return any("attention" in type(module).__name__.lower() for module in self.module.modules())


@dataclass
class Watching:
    """The outputs of the watched modules until the block ended."""

    called: dict[str, tuple[nn.Module, list[Any]]] = field(default_factory=dict)  # name -> module, results

    def cells(self) -> list[Watched]:
        """Cells that were called more than once."""
        cells = []
        for name, (module, results) in self.called.items():
            if not _is_cell(module) or len(results) < 2:
                continue
            states = [result if isinstance(result, tuple) else (result,) for result in results]
            states = [state for state in states if state[0].shape == states[0][0].shape]
            steps = {word: list(parts) for word, parts in zip(STATE, zip(*states, strict=True), strict=False)}
            cells.append(Watched(name, type(module).__name__.removesuffix("Cell"), module, steps))
        return cells

    def blocks(self) -> list[Watched]:
        """Blocks that returned a sequence, in the order of their first calls."""
        blocks = []
        for name, (module, results) in self.called.items():
            if _is_cell(module):
                continue
            for call, result in enumerate(results):
                output = result[0] if isinstance(result, tuple | list) and result else result
                if isinstance(output, Tensor) and output.dim() == 3 and output.requires_grad:
                    label = f"{name} call {call + 1}" if call else name
                    steps = {"hidden": [output]}
                    blocks.append(Watched(label, type(module).__name__, module, steps, time_first(module), True))
        return blocks


@contextmanager
def watching(model: nn.Module) -> Iterator[Watching]:
    """Keep what cells and blocks of `model` return until the block ends."""
    watched = Watching()

    def keep(name: str) -> Any:
        def after(module: nn.Module, inputs: Any, result: Any) -> None:
            watched.called.setdefault(name, (module, []))[1].append(result)

        return after

    with hooks() as handles:
        handles += [module.register_forward_hook(keep(name)) for name, module in _candidates(model).items()]
        yield watched


def time_first(module: nn.Module) -> bool:
    """Whether a layer takes (T, B, D), as torch's do by default."""
    return next((not part.batch_first for part in module.modules() if hasattr(part, "batch_first")), False)


def _is_cell(module: nn.Module) -> bool:
    return isinstance(module, nn.RNNCellBase | Cell)


def _candidates(model: nn.Module) -> Mapping[str, nn.Module]:
    """Cells outside of layers that trace them; and blocks, the outermost ones, without recurrent layers inside."""
    traced = {inner for module in model.modules() if is_traceable(module) for inner in module.modules()}
    candidates = {
        name or type(module).__name__: module
        for name, module in model.named_modules()
        if _is_cell(module) and module not in traced
    }
    blocks = dict(_blocks("", model, traced))
    if not blocks and not candidates:  # no stack: the parts of the model itself
        blocks = {name: module for name, module in model.named_children() if module not in traced} or {
            type(model).__name__: model
        }
    return candidates | blocks


def _blocks(path: str, module: nn.Module, traced: set[nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """The outermost blocks below a module."""
    for name, child in module.named_children():
        child_path = f"{path}.{name}" if path else name
        listed = isinstance(module, nn.ModuleList) or (isinstance(module, nn.Sequential) and any(child.children()))
        if child in traced or _is_cell(child):
            continue
        holds_list = isinstance(child, nn.ModuleList | nn.Sequential)
        is_block = isinstance(child, BLOCKS) or (listed and not holds_list)
        if is_block and not any(inner in traced or _is_cell(inner) for inner in child.modules()):
            yield child_path, child
        else:
            yield from _blocks(child_path, child, traced)
