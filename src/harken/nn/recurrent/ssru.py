"""The simpler simple recurrent unit (SSRU), a cheap stand-in for self-attention in a decoder.

    f_t = sigmoid(W_f x_t + b_f)
    c_t = f_t * c_{t-1} + (1 - f_t) * W x_t          c_0 = 0
    o_t = ReLU(c_t)

All products read the inputs alone, so they are computed for a whole sequence at once; what is left of the recurrence is
linear in c. `linear_recurrence` computes it in log2(T) passes over the sequence, a parallel scan (Hillis and Steele,
1986), and its gradient is the same scan from right to left. A step in search reads and writes one vector a row, however
long the prefix is. Kim et al. (2019), "From Research to Production and Back: Ludicrously Fast Neural Machine
Translation".

>>> layer, x = SSRU(4).double(), torch.randn(2, 5, 4, dtype=torch.float64)
>>> state, outputs = torch.zeros(2, 4, dtype=torch.float64), []
>>> for t in range(5):
...     output, state = layer.step(x[:, t], state)
...     outputs.append(output)
>>> torch.allclose(torch.stack(outputs, 1), layer(x))
True
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def _scan(decay: Tensor, values: Tensor) -> Tensor:
    """c_t = decay_t * c_{t-1} + values_t along axis 1; each pass doubles the steps that c_t and decay_t span."""
    span, length = 1, values.shape[1]
    while span < length:
        before, values = values, values.clone()
        values[:, span:].addcmul_(decay[:, span:], before[:, :-span])
        if 2 * span < length:
            before, decay = decay, decay.clone()
            decay[:, span:] *= before[:, :-span]
        span *= 2
    return values


class _LinearRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, decay: Tensor, values: Tensor) -> Tensor:
        states = _scan(decay, values)
        ctx.save_for_backward(decay, states)
        return states

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """g_t = dL/dc_t + f_{t+1} g_{t+1}; dL/dv_t = g_t and dL/df_t = g_t c_{t-1}."""
        decay, states = ctx.saved_tensors
        later = torch.cat((decay[:, 1:], torch.zeros_like(decay[:, :1])), 1)
        grad = _scan(later.flip(1), gradients[0].flip(1)).flip(1)
        earlier = torch.cat((torch.zeros_like(states[:, :1]), states[:, :-1]), 1)
        return grad * earlier, grad


def linear_recurrence(decay: Tensor, values: Tensor) -> Tensor:
    """c_t = decay_t * c_{t-1} + values_t, from c_0 = 0: both (B, T, D) -> (B, T, D), in a parallel scan.

    >>> linear_recurrence(torch.full((1, 4, 1), 0.5), torch.ones(1, 4, 1)).flatten().tolist()
    [1.0, 1.5, 1.75, 1.875]
    """
    states: Tensor = _LinearRecurrence.apply(decay, values)  # type: ignore[no-untyped-call]
    return states


class SSRU(nn.Module):
    """The recurrent unit of the module's docstring, from (B, T, D) to (B, T, D); a position sees earlier ones alone.

    Gates and states are computed in float32 at least.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.forget_candidate = nn.Linear(width, 2 * width, bias=False)  # W_f and W
        self.forget_bias = nn.Parameter(torch.zeros(width))

    def _gates(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """x -> f and W x."""
        forget, candidate = self.forget_candidate(values).chunk(2, -1)
        exact = torch.promote_types(forget.dtype, torch.float32)
        return torch.sigmoid(forget.to(exact) + self.forget_bias.to(exact)), candidate.to(exact)

    def forward(self, values: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        forget, candidate = self._gates(values)
        return torch.relu(linear_recurrence(forget, (1 - forget) * candidate)).to(values.dtype)

    def packed(self, values: Tensor, positions: Tensor) -> Tensor:
        """(T, D) -> (T, D) for packed sentences; the state begins anew where a token's position (T,) is 0."""
        forget, candidate = self._gates(values)
        decay = forget.masked_fill(positions[:, None] == 0, 0)
        states = linear_recurrence(decay[None], ((1 - forget) * candidate)[None])[0]
        return torch.relu(states).to(values.dtype)

    def step(self, values: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One token a row: x (R, D) and c (R, D) -> o (R, D) and the next c (R, D)."""
        forget, candidate = self._gates(values)
        state = forget * state + (1 - forget) * candidate
        return torch.relu(state).to(values.dtype), state


class SSRUCache:
    """The states of every layer, (L, R, D), with the calls of `harken.nn.attention.kv_cache.KVCache`.

    Shapes do not depend on the number of tokens, so a cache can be static wherever it is not grown or cut.

    Args:
        layers, rows, width: L, R and D.
        like: its device is the cache's, and its dtype where that is wider than float32.
        static: the position is kept as a tensor on the device.
    """

    def __init__(self, layers: int, rows: int, width: int, like: Tensor | None = None, static: bool = False) -> None:
        like = torch.empty(0) if like is None else like
        self.values = like.new_zeros((layers, rows, width), dtype=torch.promote_types(like.dtype, torch.float32))
        self.static = static
        self.length = 0  # tokens read, counting the current one
        self.position = torch.full((1,), -1, device=like.device)  # of the current token

    @property
    def rows(self) -> int:
        """R."""
        return self.values.shape[1]

    @property
    def start(self) -> int | Tensor:
        """The position of the current token; static: a tensor (1,)."""
        return self.position if self.static else self.length - 1

    def advance_(self, count: int = 1) -> None:
        """The next token.

        Raises:
            ValueError: several tokens at once.
        """
        if count != 1:
            raise ValueError(f"an SSRU reads one token of each row at a time, not {count}")
        self.length += 1
        if self.static:
            self.position.add_(1)

    def step(self, layer: SSRU, values: Tensor, number: int) -> Tensor:
        """The current token of each row (R, D) -> (R, D); `number` is that of the layer in the cache."""
        output, state = layer.step(values, self.values[number])
        self.values[number].copy_(state)
        return output

    def reset_(self) -> None:
        """Before the first token."""
        self.values.zero_()
        self.position.fill_(-1)
        self.length = 0

    def reorder_(self, rows: Tensor) -> None:
        """Row r goes on with the state of row rows[r] (R,)."""
        self.values.copy_(self.values.index_select(1, rows))

    def select_(self, rows: Tensor) -> None:
        """Other rows (R',), fewer or more."""
        self.values = self.values.index_select(1, rows)
