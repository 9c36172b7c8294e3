"""How a recurrent decoder looks into its memory on a GPU while it is trained: one kernel a step (E8 with E9).

The scores of `harken.nn.attention.scores` are a query made ready (projected, scaled, turned into a direction) and then
either a product with the keys or v^T tanh(k + q); `harken.kernels.decoder_loop.attention` does the rest. `Attention`
itself is the definition, and is what runs everywhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.additive_attention.operator import HAS_TRITON
from harken.kernels.decoder_loop import cuda_graph as decoder_loop
from harken.kernels.decoder_loop.attention import DeferredAttention, is_supported
from harken.kernels.recurrent.deferred import DeferredLinear
from harken.nn.attention.scores import AdditiveScore, CosineScore, DotScore, MultiplicativeScore, ScaledDotScore

Ready = Callable[[Tensor], Tensor]


def readied(score: nn.Module) -> Ready | None:
    """What a score does to its query (B, H) before it meets the keys; None where that is not all it does."""
    if type(score) is AdditiveScore and score.coverage is None:
        return DeferredLinear(score.query.weight)
    if type(score) is CosineScore:
        return lambda query: F.normalize(query, dim=-1) * torch.exp(-score.log_temperature)
    if type(score) is ScaledDotScore:
        return lambda query: query / math.sqrt(query.shape[-1])
    if type(score) in (DotScore, MultiplicativeScore):
        return lambda query: query
    return None


def quick_kernels(values: Tensor) -> bool:
    """Whether the loop's own kernels are to be used for this."""
    return HAS_TRITON and values.dtype != torch.float64 and decoder_loop.is_available(values.device)


def quick_look(score: nn.Module, keys: Tensor, memory: Tensor, mask: Tensor | None) -> Ready | None:
    """Query (B, H) -> context (B, M), for one forward pass with gradients; None where `Attention` has to do it."""
    if not quick_kernels(memory) or not is_supported(keys, memory):
        return None
    ready = readied(score)
    if ready is None:
        return None
    if torch.is_autocast_enabled("cuda"):
        low = torch.get_autocast_dtype("cuda")
        keys, memory = keys.to(low), memory.to(low)
    vector = score.energy.weight[0] if isinstance(score, AdditiveScore) else None
    looks = DeferredAttention(keys, memory, mask, vector)
    return lambda query: looks(ready(query))
