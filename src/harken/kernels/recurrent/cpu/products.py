"""Matrix products of the CPU kernels: thin ones with a weight packed once, wide ones split over threads.

The product of every step is thin, (rows, H) with the same weight. oneDNN multiplies with a weight that lies as its
kernels read it; on the machine of `benchmarks/records` that is 109 GFLOP/s a core where MKL makes 85 of unpacked ones.
A small weight takes `torch.mm`, whose call is 10 microseconds shorter, and so do float64 and a torch without oneDNN.

>>> weight, values = torch.randn(512, 300), torch.randn(3, 300)
>>> torch.allclose(Packed(weight)(values), values @ weight.T, atol=1e-4)
True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

LEAST_PACKED = 2**17  # numbers in a weight: from here on packing is faster
BLOCK_ROWS = 128  # of a wide product at a time: the result is still in the cache when it is copied
TYPICAL_ROWS = 32  # oneDNN packs for a number of rows; what it makes of this one is good for all


def has_packed_products() -> bool:
    """Whether this torch can multiply with packed weights."""
    return bool(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled)


class Packed:
    """`values @ weight.T`, weight (O, I), many times."""

    def __init__(self, weight: Tensor) -> None:
        large = weight.numel() >= LEAST_PACKED
        self.packed = large and weight.dtype == torch.float32 and has_packed_products()
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight.default(weight.contiguous(), TYPICAL_ROWS)
            self.multiply = torch.ops.mkldnn._linear_pointwise.default
        else:
            self.weight = weight.t()

    def __call__(self, values: Tensor, bias: Tensor | None = None) -> Tensor:
        """(rows, I) -> (rows, O), a new tensor."""
        if self.packed:
            product: Tensor = self.multiply(values, self.weight, bias, "none", [], "")
            return product
        return values @ self.weight if bias is None else torch.addmm(bias, values, self.weight)


def linear_tasks(
    values: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    out: Tensor,
    parts: int,
    then: Callable[[Tensor, int], None] | None = None,
) -> list[Callable[[], object]]:
    """Tasks that make `out = values @ weight.T + bias` (N, O), each for some rows.

    `then(product, start)` may change the product of some rows, from row `start` on, before it is copied.
    """
    product = Packed(weight)

    def fill(low: int, high: int) -> None:
        for start in range(low, high, BLOCK_ROWS):
            some = slice(start, min(start + BLOCK_ROWS, high))
            block = product(values[some], bias)
            if then is not None:
                then(block, start)
            out[some].copy_(block)

    edges = [len(values) * part // parts for part in range(parts + 1)]
    return [partial(fill, low, high) for low, high in pairwise(edges) if high > low]


def column_sums(values: Tensor) -> Tensor:
    """(N, O) -> (O,): a product with ones reads memory once, at full speed."""
    return values.t() @ values.new_ones(values.shape[0])
