"""Torch's own fused loops for the plain cells, one layer at a time; the definition steps through the cells of `nn`.

They are functions of the weights (cuDNN on a GPU, oneDNN or ATen on a CPU), so that a layer can keep its weights in its
cells. cuDNN wants the weights of a layer in one piece of memory: `flatten_for_cudnn` moves them there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import _VF, Tensor
from torch.backends.cudnn import rnn as cudnn

LOOPS: dict[str, Any] = {"LSTM": _VF.lstm, "GRU": _VF.gru, "RNN_TANH": _VF.rnn_tanh, "RNN_RELU": _VF.rnn_relu}


def run_layer(
    kind: str,
    values: Tensor,
    sizes: list[int],
    state: tuple[Tensor, ...],
    weights: list[Tensor],
    bias: bool,
    training: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Packed x (N, I) with `sizes` rows at each step, state parts (directions, B, H) -> packed (N, D), last state."""
    loop, bidirectional = LOOPS[kind], state[0].shape[0] == 2
    first: Any = state if kind == "LSTM" else state[0]
    options = (weights, bias, 1, 0.0, training, bidirectional)
    if sizes[0] == sizes[-1]:
        steps = values.view(len(sizes), sizes[0], -1)  # (T, B, I)
        output, *last = loop(steps, first, *options, False)
    else:
        output, *last = loop(values, torch.tensor(sizes), first, *options)
    return output.flatten(0, -2), tuple(last)


@torch.no_grad()
def flatten_for_cudnn(kind: str, weights: list[Tensor], per_direction: int, hidden: int, projection: int) -> None:
    """Put the weights of one layer, which lie on a GPU, into one piece of memory, in place."""
    first = weights[0]
    # torch itself leaves bfloat16 out, and its layers then copy all their weights at every call
    known = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    if not torch.backends.cudnn.enabled or first.dtype not in known:
        return
    if not all(weight.is_cuda and weight.dtype == first.dtype for weight in weights):
        return
    if len({weight.data_ptr() for weight in weights}) != len(weights) or not torch._use_cudnn_rnn_flatten_weight():
        return
    mode, both = cudnn.get_cudnn_mode(kind), len(weights) > per_direction
    with torch.cuda.device_of(first):
        torch._cudnn_rnn_flatten_weight(
            weights, per_direction, first.shape[1], mode, hidden, projection, 1, False, both
        )
