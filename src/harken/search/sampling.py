"""Sampling: draw the next token, feed it back, draw again.

    p(v) = softmax(logits / temperature)       below 1 sharper, above 1 flatter, 0 the likeliest alone
    top-k    the k likeliest alone are drawn from                     Fan et al. (2018)
    top-p    the fewest likeliest that together have p of the chance  Holtzman et al. (2020)

What is left is scaled to sum to 1. Every row draws from random numbers of its own, (seed, row), so that a row's text
does not depend on how many others are written beside it.

>>> logits = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))
>>> chances(logits, top_k=2)[0].tolist()
[0.6666666865348816, 0.3333333432674408, 0.0, 0.0]
>>> chances(logits, top_p=0.8)[0].tolist()
[0.5555555820465088, 0.2777777910232544, 0.1666666716337204, 0.0]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, PAD
from harken.errors import UserError
from harken.search.contract import StepModel

NEVER = (PAD, BOS)  # what no text has


def chances(logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """Logits (B, V) -> the probabilities (B, V) that are drawn from."""
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        kept = logits.topk(top_k, -1).indices
        logits = torch.full_like(logits, -torch.inf).scatter(-1, kept, logits.gather(-1, kept))
    found = torch.softmax(logits, -1)
    if top_p is None or top_p >= 1:
        return found
    ordered, places = torch.sort(found, -1, descending=True)
    before = ordered.cumsum(-1) - ordered  # what likelier tokens have together
    ordered = ordered.masked_fill(before >= top_p - 1e-6, 0.0)  # a sum of floats may miss p by a hair
    found = torch.zeros_like(found).scatter(-1, places, ordered)
    return found / found.sum(-1, keepdim=True)


def draw(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """(B, V) and one number from [0, 1) a row (B,) -> tokens (B,): the first whose cumulated chance exceeds it.

    >>> draw(torch.tensor([[0.2, 0.0, 0.8]]).repeat(3, 1), torch.tensor([0.1, 0.2, 0.99])).tolist()
    [0, 2, 2]
    """
    reached = probabilities.double().cumsum(-1)
    reached = reached / reached[:, -1:]
    return torch.searchsorted(reached, numbers.double()[:, None], right=True)[:, 0].clamp(max=reached.shape[-1] - 1)


@torch.no_grad()
def sample(
    model: StepModel,
    state: Any,
    tokens: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    forbidden: Sequence[int] = NEVER,
) -> Iterator[Tensor]:
    """Tokens (B,) without end, each drawn after the last was fed back.

    Args:
        tokens: (B,) the last token of every row's prompt, not yet in `state`.
        forbidden: ids that are never drawn.

    Raises:
        UserError: settings that leave nothing to draw from, or a model whose logits are not numbers.
    """
    check(temperature, top_k, top_p)
    random = [torch.Generator().manual_seed((seed << 20) + row) for row in range(len(tokens))]
    while True:
        logits, state, _ = model.step(tokens, state)
        logits = logits.float()
        if not bool(torch.isfinite(logits).all()):
            raise UserError("the model's logits are not finite numbers; its training has diverged")
        logits[:, list(forbidden)] = -torch.inf
        numbers = torch.cat([torch.rand(1, generator=one, dtype=torch.float64) for one in random])
        tokens = draw(chances(logits, temperature, top_k, top_p), numbers.to(logits.device))
        yield tokens


def check(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Refuse what leaves nothing to draw from.

    Raises:
        UserError: which setting, and what it may be.
    """
    if not temperature >= 0:
        raise UserError(f"temperature is {temperature}; it must be 0 (the likeliest token alone) or more")
    if top_k is not None and top_k < 1:
        raise UserError(f"top-k is {top_k}; at least 1 token must be left to draw from")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"top-p is {top_p}; it must be above 0 and at most 1")
