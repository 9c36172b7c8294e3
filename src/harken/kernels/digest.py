"""A digest of the contents of tensors on a CPU, to notice that weights have changed; for `harken.kernels.weights`.

    digest = sum_i x_i w_i mod 2^64,     w_i = (i K mod 2^32) | 1,     x_i the i-th 32 bits of a storage

All w_i are odd, so a change of one number is always noticed; changes of several cancel out by chance alone.

>>> import torch
>>> weights = torch.arange(6.0)
>>> equal, other = weights.clone(), weights.flip(0)
>>> digest(extents([weights])) == digest(extents([equal])), digest(extents([weights])) == digest(extents([other]))
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba.extending import intrinsic

from harken.kernels.caching import cached_njit, is_cached

if TYPE_CHECKING:
    from torch import Tensor

MULTIPLIER = np.uint32(2654435761)  # of Knuth's multiplicative hashing
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # between storages: 2^64 divided by the golden ratio


def extents(tensors: Iterable[Tensor]) -> Any:
    """(storages, 2) the address and the bytes of each storage, once each; valid while the tensors live."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    return np.array(list(sizes.items()), np.int64).reshape(-1, 2)


def _typed_pointer(typing_context: Any, address: Any) -> Any:
    """An integer as a pointer."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return numba.types.voidptr(numba.types.int64), build


_pointer: Any = intrinsic(_typed_pointer)


@cached_njit
def digest(storages: Any) -> Any:
    """The digest of the contents of storages, given by `extents`."""
    total = np.uint64(0)
    for row in range(storages.shape[0]):
        address, size = storages[row, 0], storages[row, 1]
        words = numba.carray(_pointer(address), (size // 4,), np.uint32)
        rest = numba.carray(_pointer(address + size // 4 * 4), (size % 4,), np.uint8)
        part = np.uint64(0)
        for index in range(words.shape[0]):
            weight = np.uint32(np.uint32(index) * MULTIPLIER) | np.uint32(1)
            part += np.uint64(words[index]) * np.uint64(weight)
        for index in range(rest.shape[0]):
            part = part * np.uint64(257) + np.uint64(rest[index])
        total = total * FACTOR + part
    return total


def is_compiled() -> bool:
    """Whether the compiled function is in this process or on disk for this CPU."""
    return is_cached(digest, (extents([]),))


def compile_ahead() -> None:
    """Compiles the function, or loads it from disk."""
    digest(extents([]))
