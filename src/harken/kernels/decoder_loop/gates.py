"""The gates of an LSTM on a GPU as one kernel forward and one backward; the reference is
`harken.nn.recurrent.lstm.LSTMCell.apply_gates`.

`lstm_gates(product, token, cell)` is the state that the reference makes of `product + token` and `cell`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.autograd import first_order
from harken.kernels.backend import Backend
from harken.kernels.settings import why_no_triton

BLOCK = 256  # hidden units to a program


def why_not_in_loops(values: Tensor) -> str | None:
    """The reason for which the kernels of a decoder's loop are not used for these values; None: they are."""
    if torch.compiler.is_compiling() or values.dtype == torch.float64:
        return "torch.compile records the call, or it computes in float64"
    return why_no_triton(values.is_cuda)


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
    @first_order("the GPU kernel of LSTM gates")
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> Any:
        from harken.kernels.decoder_loop import triton_kernels as kernels

        product, token, cell = ctx.saved_tensors
        batch, hidden = cell.shape
        grad_hidden, grad_cell = (None if grad is None else grad.contiguous() for grad in grad_outputs)
        grad_product, grad_old_cell = torch.empty_like(product), torch.empty_like(cell)
        given = product if token is None else token
        kernels.lstm_backward_kernel[(batch, -(-hidden // BLOCK))](
            product if grad_hidden is None else grad_hidden, product if grad_cell is None else grad_cell,
            product, given, cell, grad_product, grad_old_cell, hidden, given.stride(0),
            HIDDEN=grad_hidden is not None, CELL=grad_cell is not None, TOKEN=token is not None, BLOCK=BLOCK,
        )  # fmt: skip
        return grad_product, None if token is None else grad_product.to(token.dtype), grad_old_cell


def lstm_gates(product: Tensor, token: Tensor | None, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Pre-activations (B, 4H), perhaps in two parts, in the order i, f, g, o, and the last cell (B, H) -> h, C."""
    return _Gates.apply(product, token, cell)


LSTM_GATES = Backend("triton", why_not_in_loops, lstm_gates)
