"""Output layer and cross-entropy on a GPU in one pass over the logits; the reference is `harken.nn.loss`.

torch's cross-entropy on float32 logits reads or writes (M, V) about seven times, which is more traffic than all other
element-wise work of a small Transformer together. Here the product leaves half-precision logits; one Triton program per
row reads them, computes the loss in float32 and overwrites them with their gradient, which two products then turn into
the gradients of the hidden states and of the matrix. As on a CPU, the forward pass computes the gradients and the
backward pass scales them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.autograd import first_order
from harken.kernels.backend import Backend
from harken.kernels.settings import why_no_triton
from harken.kernels.triton_import import tl, triton

MOST_LOGITS = 2**31  # held at once: 4 GiB in half precision
BLOCK = 4096  # logits a program holds
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def why_not_cuda(hidden: Tensor, weight: Tensor) -> str | None:
    """The kernel runs on a GPU, in one of `DTYPES`."""
    return why_no_triton(hidden.is_cuda) or (
        None if _compute_dtype(weight) in DTYPES else "the kernel lacks the dtype of the weights"
    )


def _compute_dtype(weight: Tensor) -> torch.dtype:
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else weight.dtype


@triton.jit
def row_kernel(
    logits: tl.tensor,
    bias: tl.tensor,
    targets: tl.tensor,
    losses: tl.tensor,
    stride: tl.tensor,
    vocabulary: tl.tensor,
    smoothing: tl.tensor,
    z_loss: tl.tensor,
    PADDING: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Logits of one row -> its loss; the logits become their gradient."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row).to(tl.int32)
    start = logits + row * stride
    columns = tl.arange(0, BLOCK)
    if target == PADDING:
        for begin in range(0, vocabulary, BLOCK):
            inside = begin + columns < vocabulary
            tl.store(start + begin + columns, tl.zeros([BLOCK], logits.dtype.element_ty), mask=inside)
        tl.store(losses + row, 0.0)
    else:
        peak = -1.0e30
        total = 0.0
        summed = tl.zeros([BLOCK], tl.float32)
        for begin in range(0, vocabulary, BLOCK):
            inside = begin + columns < vocabulary
            values = tl.load(start + begin + columns, mask=inside, other=0.0).to(tl.float32)
            if HAS_BIAS:
                values += tl.load(bias + begin + columns, mask=inside, other=0.0).to(tl.float32)
            summed += tl.where(inside, values, 0.0)
            values = tl.where(inside, values, -1.0e30)
            higher = tl.maximum(peak, tl.max(values, 0))
            total = total * tl.exp(peak - higher) + tl.sum(tl.exp(values - higher), 0)
            peak = higher
        log_sum = peak + tl.log(total)
        chosen = tl.load(start + target).to(tl.float32)
        if HAS_BIAS:
            chosen += tl.load(bias + target).to(tl.float32)
        mean = tl.sum(summed, 0) / vocabulary
        loss = log_sum - (1.0 - smoothing) * chosen - smoothing * mean + z_loss * log_sum * log_sum
        tl.store(losses + row, loss)
        factor = 1.0 + 2.0 * z_loss * log_sum
        for begin in range(0, vocabulary, BLOCK):  # from the L2 cache
            inside = begin + columns < vocabulary
            values = tl.load(start + begin + columns, mask=inside, other=0.0).to(tl.float32)
            if HAS_BIAS:
                values += tl.load(bias + begin + columns, mask=inside, other=0.0).to(tl.float32)
            gradient = factor * tl.exp(values - log_sum) - smoothing / vocabulary
            gradient = tl.where(begin + columns == target, gradient - (1.0 - smoothing), gradient)
            tl.store(start + begin + columns, gradient.to(logits.dtype.element_ty), mask=inside)


@torch.library.custom_op(
    "harken::linear_cross_entropy",
    mutates_args=(),
    schema="(Tensor hidden, Tensor weight, Tensor? bias, Tensor targets, float smoothing, float z_loss, int padding,"
    " bool need_gradients) -> (Tensor, Tensor, Tensor, Tensor)",
)
def operator(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    z_loss: float,
    padding: int,
    need_gradients: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss, and the gradients of hidden states, matrix and bias, for tensors of one dtype."""
    rows, vocabulary = hidden.shape[0], weight.shape[0]
    losses = hidden.new_empty(rows, dtype=torch.float32)
    grad_hidden = torch.empty_like(hidden, memory_format=torch.contiguous_format)
    grad_weight = weight.new_zeros(weight.shape) if rows == 0 else weight.new_empty(weight.shape)
    grad_bias = hidden.new_zeros(0 if bias is None else bias.shape, dtype=torch.float32)
    each = max(1, MOST_LOGITS // vocabulary)
    for start in range(0, rows, each):
        block = slice(start, start + each)
        logits = hidden[block] @ weight.t()
        row_kernel[(logits.shape[0],)](
            *(logits, logits if bias is None else bias, targets[block], losses[block]),
            *(logits.stride(0), vocabulary, smoothing, z_loss),
            PADDING=padding,
            HAS_BIAS=bias is not None,
            BLOCK=BLOCK,
            num_warps=8,
        )
        if not need_gradients:
            continue
        torch.mm(logits, weight, out=grad_hidden[block])
        if start == 0:
            torch.mm(logits.t(), hidden[block], out=grad_weight)
        else:
            grad_weight.addmm_(logits.t(), hidden[block])
        if bias is not None:
            grad_bias += logits.sum(0, dtype=torch.float32)
    return losses.sum(), grad_hidden, grad_weight, grad_bias


@operator.register_fake
def _(hidden: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    grad_bias = hidden.new_empty(0 if bias is None else bias.shape, dtype=torch.float32)
    loss = hidden.new_empty((), dtype=torch.float32)
    return loss, hidden.new_empty(hidden.shape), weight.new_empty(weight.shape), grad_bias


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.bias_dtype = None if inputs[2] is None else inputs[2].dtype
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output[1:])


@first_order("the fused cross-entropy")
def _backward(ctx: Any, grad_loss: Tensor, *rest: Any) -> tuple[Any, ...]:
    hidden, weight, bias = ctx.saved_tensors
    grads = [(part * grad_loss).to(part.dtype) for part in (hidden, weight)]
    grad_bias = None if ctx.bias_dtype is None else (bias * grad_loss).to(ctx.bias_dtype)
    return *grads, grad_bias, None, None, None, None, None


operator.register_autograd(_backward, setup_context=_setup_context)


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    z_loss: float,
    padding: int | None,
) -> Tensor:
    """See `harken.nn.loss.linear_cross_entropy`."""
    low, ignored = _compute_dtype(weight), -100 if padding is None else padding
    grads = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    with torch.autocast("cuda", enabled=False):
        states, matrix = hidden.to(low), weight.to(low)
        return operator(states, matrix, bias, targets, smoothing, z_loss, ignored, grads)[0]


CUDA = Backend("cuda", why_not_cuda, linear_cross_entropy)
