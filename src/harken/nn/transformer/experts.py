"""A mixture of experts in place of one feed-forward layer: each token is sent to the few that suit it.

g = W_g x (+ noise in training)      A = the `active` highest of g      y = sum_{e in A} softmax(g_A)_e FFN_e(x)

with FFN as in E13. A single active expert is weighed by softmax(g)_e over all, or the gate would have no gradient.
So that no expert is left without work, the loss gets a share of

balance = E sum_e load_e importance_e

where load_e is the share of all choices that fell on e and importance_e the mean of softmax(g)_e: 1 where either is
even, up to E where one expert gets everything. The gate learns through the importance, as counts have no gradient.
Shazeer et al. (2017), with their noise softplus(W_n x) times a normal number; the product: Fedus et al. (2021).

Tokens are sorted by expert, so that each expert makes one product over its own and none over the others';
`definition` sends every token through every expert and weighs most of it by 0.

>>> layer = Experts(width=4, inner=8, experts=3, active=2)
>>> values, balance = layer(torch.randn(2, 5, 4))
>>> values.shape, 0 < balance.item() < 3
(torch.Size([2, 5, 4]), True)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.activations import ACTIVATIONS, inner_width
from harken.nn.dropout import Dropout


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
        noise: bool = False,
    ) -> None:
        super().__init__()
        if not 1 <= active <= experts:
            raise ValueError(f"{active} of {experts} experts cannot be active; choose 1 to {experts}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"there is no activation called {activation!r}; choose one of {', '.join(ACTIVATIONS)}")
        self.experts, self.active = experts, active
        self.activation, self.dropout = ACTIVATIONS[activation], Dropout(dropout)
        self.gate = nn.Linear(width, experts, bias=False)
        self.noise = nn.Linear(width, experts, bias=False) if noise else None
        wide = inner_width(activation, inner)
        self.expand, self.expand_bias = _weights(experts, wide, width), nn.Parameter(torch.zeros(experts, wide))
        self.contract, self.contract_bias = _weights(experts, width, inner), nn.Parameter(torch.zeros(experts, width))

    def forward(self, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(..., D) -> (..., D) and the balance; where the mask (...) is False a token gives 0 and does not count."""
        tokens, real = _real(values, mask)  # (M, D)
        chosen, shares, balance = self.choose(tokens)
        order = chosen.flatten().argsort(stable=True)  # (M A,) choices, those of one expert side by side
        counts = self.counts(chosen).tolist()
        sent = tokens[order // self.active].split(counts)
        found = torch.cat([self.expert(number, part) for number, part in enumerate(sent) if len(part)] or [tokens])
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)  # where each choice went
        found = found[back].unflatten(0, chosen.shape)  # (M, A, D)
        return _put_back((shares[..., None].to(found.dtype) * found).sum(1), values, real), balance

    def definition(self, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same with every expert on every token."""
        tokens, real = _real(values, mask)
        chosen, shares, balance = self.choose(tokens)
        weights = torch.zeros(len(tokens), self.experts, dtype=shares.dtype, device=shares.device)
        weights = weights.scatter(1, chosen, shares)  # (M, E), 0 for those that were not chosen
        found = torch.stack([self.expert(number, tokens) for number in range(self.experts)], 1)  # (M, E, D)
        return _put_back((weights[..., None].to(found.dtype) * found).sum(1), values, real), balance

    def choose(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(M, D) -> the experts chosen (M, A), their shares (M, A) and the balance."""
        exact = torch.promote_types(tokens.dtype, torch.float32)  # half precision would flip choices
        with torch.autocast(tokens.device.type, enabled=False):
            scores = F.linear(tokens.to(exact), self.gate.weight.to(exact))  # (M, E)
            noisy = scores
            if self.noise is not None and self.training:
                spread = F.softplus(F.linear(tokens.to(exact), self.noise.weight.to(exact)))
                noisy = scores + torch.randn_like(scores) * spread
        best, chosen = noisy.topk(self.active, -1)
        load = self.counts(chosen) / max(1, chosen.numel())
        importance = torch.softmax(scores, -1).sum(0) / max(1, len(tokens))
        shares = torch.softmax(noisy, -1).gather(1, chosen) if self.active == 1 else torch.softmax(best, -1)
        return chosen, shares, self.experts * (load * importance).sum()

    def counts(self, chosen: Tensor) -> Tensor:
        """Choices (M, A) -> how many fell on each expert (E,); `bincount` would do, but cannot be traced."""
        return (chosen.flatten()[:, None] == torch.arange(self.experts, device=chosen.device)).sum(0)

    def expert(self, number: int, tokens: Tensor) -> Tensor:
        """FFN_e: (M, D) -> (M, D)."""
        inner = self.activation(F.linear(tokens, self.expand[number], self.expand_bias[number]))
        return F.linear(self.dropout(inner), self.contract[number], self.contract_bias[number])


def _weights(experts: int, outputs: int, inputs: int) -> nn.Parameter:
    weight = torch.empty(experts, outputs, inputs)
    for one in weight:
        nn.init.xavier_uniform_(one)
    return nn.Parameter(weight)


def _real(values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """(..., D) -> the real tokens (M, D), and which they are, where not all."""
    tokens = values.flatten(0, -2)
    real = None if mask is None else mask.expand(values.shape[:-1]).flatten()
    return (tokens if real is None else tokens[real]), real


def _put_back(found: Tensor, values: Tensor, real: Tensor | None) -> Tensor:
    """(M, D) -> (..., D), 0 where there was padding."""
    if real is not None:
        places = real.nonzero()[:, 0]
        found = found.new_zeros(len(real), found.shape[-1]).index_copy(0, places, found)
    return found.view(values.shape)
