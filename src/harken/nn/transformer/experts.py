"""A mixture of experts in place of one feed-forward layer: a gate routes each token to a few of E networks.

g = W_g x      A = the `active` highest of g      y = sum_{e in A} softmax(g_A)_e FFN_e(x)

A single active expert is weighted by softmax(g)_e over all experts; otherwise the gate would have no gradient. The
load-balancing loss keeps the experts in use:

balance = E sum_e load_e importance_e

load_e is the fraction of all choices that fell on e, importance_e the mean of softmax(g)_e. It is 1 where either is
uniform and E where one expert gets every token. Its gradient reaches the gate through the importance.
Shazeer et al. (2017); the load-balancing loss: Fedus et al. (2021).

`forward` sorts the tokens by expert, so that each expert multiplies its own tokens only; `reference` sends every token
through every expert.

>>> layer = Experts(width=4, inner=8, experts=3, active=2)
>>> values, balance = layer(torch.randn(2, 5, 4))
>>> values.shape, 0 < balance.item() < 3
(torch.Size([2, 5, 4]), True)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.activations import ACTIVATIONS, inner_width
from harken.nn.dropout import Dropout

FEWEST_TOKENS = 64  # on a CPU: for fewer, as in a decoding step, a loop over the experts is faster than grouped_mm


@dataclass
class Balance:
    """The load-balancing loss of all mixtures of experts in a forward pass.

    One object is passed through the blocks and each block with experts appends to it, so that no module keeps state.

    >>> balance = Balance()
    >>> balance.parts += [torch.tensor(1.0), torch.tensor(1.5)]
    >>> balance.total().item()
    2.5
    """

    real: Tensor | None = None  # (B, T) True where a token counts; None: everywhere
    parts: list[Tensor] = field(default_factory=list)

    def total(self) -> Tensor:
        """The sum over the layers; 0 where there were none."""
        return torch.stack(self.parts).sum() if self.parts else torch.tensor(0.0)


class Experts(nn.Module):
    """E feed-forward layers of the same shape and the gate that chooses `active` of them for each token."""

    def __init__(
        self,
        width: int,
        inner: int,
        experts: int,
        active: int = 2,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 1 <= active <= experts:
            raise ValueError(f"{active} of {experts} experts cannot be active; choose 1 to {experts}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"there is no activation called {activation!r}; choose one of {', '.join(ACTIVATIONS)}")
        self.experts, self.active = experts, active
        self.activation, self.dropout = ACTIVATIONS[activation], Dropout(dropout)
        self.gate = nn.Linear(width, experts, bias=False)
        wide = inner_width(activation, inner)
        self.expand, self.expand_bias = _weights(experts, wide, width), nn.Parameter(torch.zeros(experts, wide))
        self.contract, self.contract_bias = _weights(experts, width, inner), nn.Parameter(torch.zeros(experts, width))

    def forward(self, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(..., D) -> (..., D) and the balance; where the mask (...) is False a token gives 0 and does not count."""
        tokens = values.flatten(0, -2)  # (M, D)
        real = None if mask is None else mask.expand(values.shape[:-1]).flatten()
        tokens = tokens if real is None else tokens[real]
        chosen, shares, balance = self.choose(tokens)  # (M, A)
        expert, order = chosen.flatten().sort(stable=True)  # (M A,): the choices of one expert side by side
        counts = self.counts(chosen)
        inner = grouped_linear(tokens[order // self.active], self.expand, self.expand_bias, expert, counts)
        inner = self.dropout(self.activation(inner))
        outputs = grouped_linear(inner, self.contract, self.contract_bias, expert, counts)  # (M A, D)
        position = torch.empty_like(order)
        position[order] = torch.arange(len(order), device=order.device)  # the inverse permutation
        outputs = outputs[position].unflatten(0, chosen.shape)  # (M, A, D)
        return _restore((shares[..., None].to(outputs.dtype) * outputs).sum(1), values, real), balance

    def reference(self, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same with every expert on every token."""
        tokens = values.flatten(0, -2)
        real = None if mask is None else mask.expand(values.shape[:-1]).flatten()
        tokens = tokens if real is None else tokens[real]
        chosen, shares, balance = self.choose(tokens)
        weights = torch.zeros(len(tokens), self.experts, dtype=shares.dtype, device=shares.device)
        weights = weights.scatter(1, chosen, shares)  # (M, E), 0 for those that were not chosen
        outputs = torch.stack([self.expert(number, tokens) for number in range(self.experts)], 1)  # (M, E, D)
        return _restore((weights[..., None].to(outputs.dtype) * outputs).sum(1), values, real), balance

    def choose(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(M, D) -> the experts chosen (M, A), their weights (M, A) and the balance."""
        exact = torch.promote_types(tokens.dtype, torch.float32)  # half precision would flip choices
        scores = _exact_linear(tokens.to(exact), self.gate.weight.to(exact))  # (M, E)
        best, chosen = scores.topk(self.active, -1)
        load = self.counts(chosen) / max(1, chosen.numel())
        probabilities = torch.softmax(scores, -1)
        importance = probabilities.sum(0) / max(1, len(tokens))
        shares = probabilities.gather(1, chosen) if self.active == 1 else torch.softmax(best, -1)
        return chosen, shares, self.experts * (load * importance).sum()

    def counts(self, chosen: Tensor) -> Tensor:
        """Choices (M, A) -> how many fell on each expert (E,); `bincount` would do, but cannot be traced."""
        return (chosen.flatten()[:, None] == torch.arange(self.experts, device=chosen.device)).sum(0)

    def expert(self, number: int, tokens: Tensor) -> Tensor:
        """FFN_e: (M, D) -> (M, D)."""
        inner = self.activation(F.linear(tokens, self.expand[number], self.expand_bias[number]))
        return F.linear(self.dropout(inner), self.contract[number], self.contract_bias[number])


def grouped_linear(tokens: Tensor, weight: Tensor, bias: Tensor, expert: Tensor, counts: Tensor) -> Tensor:
    """W_e x + b_e for tokens (M, I) sorted by expert (M,); weight (E, O, I), bias (E, O), counts (E,) -> (M, O).

    `F.grouped_mm` needs no counts on the host and is 1.3 times as fast as a loop over the experts (CPU, float32, 4
    experts of 256 x 1024). It has no float64, wants rows of 16 bytes, and torch 2.13 traces it in bfloat16 only.
    """
    device = tokens.device.type
    if device != "meta" and torch.is_autocast_enabled(device):
        low = torch.get_autocast_dtype(device)
        tokens, weight, bias = tokens.to(low), weight.to(low), bias.to(low)
    if _has_grouped_mm(tokens, weight):
        ends = counts.cumsum(0, dtype=torch.int32)
        return F.grouped_mm(tokens, weight.transpose(-1, -2), offs=ends) + bias[expert]
    if tokens.is_meta:  # counts are unknown there, and any split has the same number of operations
        sizes = [len(part) for part in torch.empty(len(tokens)).tensor_split(len(weight))]
    else:
        sizes = counts.tolist()
    parts = zip(tokens.split(sizes), weight, bias, strict=True)
    products = [F.linear(part, matrix, vector) for part, matrix, vector in parts if len(part)]
    return torch.cat(products) if products else F.linear(tokens, weight[0], bias[0])


def _has_grouped_mm(tokens: Tensor, weight: Tensor) -> bool:
    dtypes = (torch.float32, torch.bfloat16, torch.float16) if tokens.device.type == "cpu" else (torch.bfloat16,)
    return (
        hasattr(F, "grouped_mm")
        and tokens.device.type in ("cpu", "cuda")
        and tokens.dtype == weight.dtype
        and tokens.dtype in dtypes
        and not torch.compiler.is_compiling()
        and (tokens.is_cuda or len(tokens) >= FEWEST_TOKENS)
        and weight.shape[1] % 8 == 0
        and weight.shape[2] % 8 == 0
    )


def _exact_linear(values: Tensor, weight: Tensor) -> Tensor:
    """`F.linear` in the dtype of its inputs, under autocast too."""
    if values.is_meta:  # autocast does not know this device
        return F.linear(values, weight)
    with torch.autocast(values.device.type, enabled=False):
        return F.linear(values, weight)


def _weights(experts: int, outputs: int, inputs: int) -> nn.Parameter:
    weight = torch.empty(experts, outputs, inputs)
    for matrix in weight:
        nn.init.xavier_uniform_(matrix)
    return nn.Parameter(weight)


def _restore(outputs: Tensor, values: Tensor, real: Tensor | None) -> Tensor:
    """(M, D) -> (..., D), 0 where there was padding."""
    if real is not None:
        indices = real.nonzero()[:, 0]
        outputs = outputs.new_zeros(len(real), outputs.shape[-1]).index_copy(0, indices, outputs)
    return outputs.view(values.shape)
