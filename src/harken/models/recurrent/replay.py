"""A recurrent decoder's loop, replayed on a GPU (`harken.kernels.decoder_loop.cuda_graph`) in sizes rounded up to a
few.

Every size of batch, target and source would be a recording of its own; so each is padded to a multiple of STEP first:
targets and sources with what nobody looks at, the batch with its last row again, and the answer is cut back.

>>> rounded(1), rounded(16), rounded(17)
(8, 16, 24)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.decoder_loop import cuda_graph as decoder_loop
from harken.models.memory import Memory

STEP = 8


def rounded(size: int) -> int:
    """The next multiple of STEP."""
    return -(-size // STEP) * STEP


def padded(embedded: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
    """Embedded (B, T, E) and a memory of B x S, all three sizes rounded up."""
    batch, time = embedded.shape[:2]
    sources = memory.values.shape[1]
    rows, columns = rounded(batch) - batch, rounded(sources) - sources

    def more_rows(values: Tensor) -> Tensor:
        return values if not rows else torch.cat((values, values[-1:].expand(rows, *values.shape[1:])))

    mask = memory.mask
    if columns and mask is None:
        mask = torch.ones(batch, sources, dtype=torch.bool, device=embedded.device)
    mask = None if mask is None else more_rows(F.pad(mask, (0, columns)))
    states = None if memory.states is None else [tuple(map(more_rows, parts)) for parts in memory.states]
    values = more_rows(F.pad(memory.values, (0, 0, 0, columns)))
    wider = replace(memory, values=values, mask=mask, states=states)
    return more_rows(F.pad(embedded, (0, 0, 0, rounded(time) - time))), wider


def replayed(owner: nn.Module, read: Callable[[Tensor, Memory], Tensor], embedded: Tensor, memory: Memory) -> Tensor:
    """`read(embedded, memory)` (B, T, H), where only the owner's parameters, values, mask and states are read."""
    batch, time = embedded.shape[:2]
    embedded, memory = padded(embedded, memory)
    states = memory.states or []

    def function(embedded: Tensor, values: Tensor, mask: Tensor | None, *parts: Tensor) -> Tensor:
        rest = iter(parts)
        given = [tuple(next(rest) for _ in layer) for layer in states] if memory.states is not None else None
        return read(embedded, Memory(values, mask, given))

    flat = [part for layer in states for part in layer]
    return decoder_loop.replay(owner, function, (embedded, memory.values, memory.mask, *flat))[:batch, :time]
