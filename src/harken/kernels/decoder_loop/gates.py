"""Fast twin of `harken.nn.recurrent.lstm.lstm_gates` on a GPU: one kernel forward, one back, where torch launches a
dozen.

`lstm_gates(product, token, cell)` is the definition's `lstm_gates(product + token, cell)`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 256  # hidden units to a program


class _Gates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, product: Tensor, token: Tensor | None, cell: Tensor) -> tuple[Tensor, Tensor]:
        from harken.kernels.decoder_loop import triton_kernels as kernels

        product, cell = product.contiguous(), cell.contiguous()
        token = token if token is None or token.stride(-1) == 1 else token.contiguous()
        batch, hidden = cell.shape
        new_hidden, new_cell = torch.empty_like(cell, dtype=product.dtype), torch.empty_like(cell)
        given = product if token is None else token
        kernels.lstm_kernel[(batch, -(-hidden // BLOCK))](
            product, given, cell, new_hidden, new_cell, hidden, given.stride(0), TOKEN=token is not None, BLOCK=BLOCK
        )
        ctx.save_for_backward(product, token, cell)
        ctx.set_materialize_grads(False)
        return new_hidden, new_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *pulls: Tensor | None) -> Any:
        from harken.kernels.decoder_loop import triton_kernels as kernels

        product, token, cell = ctx.saved_tensors
        batch, hidden = cell.shape
        from_hidden, from_cell = (None if pull is None else pull.contiguous() for pull in pulls)
        by_product, by_cell = torch.empty_like(product), torch.empty_like(cell)
        given = product if token is None else token
        kernels.lstm_back_kernel[(batch, -(-hidden // BLOCK))](
            product if from_hidden is None else from_hidden, product if from_cell is None else from_cell,
            product, given, cell, by_product, by_cell, hidden, given.stride(0),
            HIDDEN=from_hidden is not None, CELL=from_cell is not None, TOKEN=token is not None, BLOCK=BLOCK,
        )  # fmt: skip
        return by_product, None if token is None else by_product.to(token.dtype), by_cell


def lstm_gates(product: Tensor, token: Tensor | None, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Pre-activations (B, 4H), perhaps in two parts, in the order i, f, g, o, and the last cell (B, H) -> h, C."""
    return _Gates.apply(product, token, cell)
