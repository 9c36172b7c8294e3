"""Memory that `cpu_recurrent` uses again: fresh pages from the system cost more than the gates that fill them.

The gates of a layer of 64 x 64 steps of 512 units are 33 MB; asking the system for them takes 17 ms, filling them 3.
So they are kept for the next pass once a backward pass is through with them, up to `MOST` bytes in all.

>>> import torch
>>> taken = take(torch.empty(0), 3, 4)
>>> taken.shape
torch.Size([3, 4])
>>> give_back([taken])
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from torch import Tensor

MOST = 2**28  # bytes kept for later, 256 MiB
LEAST = 2**20  # bytes: smaller ones come quickly from the allocator
_spare: list[Tensor] = []  # flat, longest kept first
_lock = threading.Lock()


def take(like: Tensor, rows: int, width: int) -> Tensor:
    """(rows, width) of the dtype of `like`, holding anything."""
    wanted = rows * width
    with _lock:
        fitting = [flat for flat in _spare if flat.dtype == like.dtype and wanted <= len(flat) <= 2 * wanted]
        if fitting:
            best = min(fitting, key=len)
            _spare[:] = [flat for flat in _spare if flat is not best]
            return best[:wanted].view(rows, width)
    return like.new_empty(wanted).view(rows, width)


def give_back(tensors: Iterable[Tensor]) -> None:
    """What nobody reads any more, as `take` gave it."""
    with _lock:
        for tensor in tensors:
            flat = tensor._base if tensor._base is not None else tensor
            if flat.dim() == 1 and flat.numel() * flat.element_size() >= LEAST:
                _spare.append(flat.detach())
        while sum(flat.numel() * flat.element_size() for flat in _spare) > MOST:
            _spare.pop(0)
