"""Sampling: draw the next token from the model's distribution and feed it back.

    p(v) = softmax(logits / temperature)       below 1 sharper, above 1 flatter, 0: argmax
    top-k    only the k most probable tokens                            Fan et al. (2018)
    top-p    only the fewest most probable tokens with mass p in sum    Holtzman et al. (2020)
    min-p    only tokens at least p times as probable as the best one   Nguyen et al. (2024)

The rest is renormalised. A row's random numbers depend on (seed, row) alone, so that its text does not depend on the
batch.

>>> logits = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))
>>> filtered_probabilities(logits, top_k=2)[0].tolist()
[0.6666666865348816, 0.3333333432674408, 0.0, 0.0]
>>> filtered_probabilities(logits, top_p=0.8)[0].tolist()
[0.5555555820465088, 0.2777777910232544, 0.1666666716337204, 0.0]
>>> filtered_probabilities(logits, min_p=0.5)[0].tolist()
[0.6666666865348816, 0.3333333432674408, 0.0, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harken.errors import UserError
from harken.search.contract import StepModel
from harken.search.hypotheses import NOT_IN_TEXT


def filtered_probabilities(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Tensor:
    """Logits (B, V) -> the probabilities (B, V) to draw from."""
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        best = logits.topk(top_k, -1).indices
        logits = torch.full_like(logits, -torch.inf).scatter(-1, best, logits.gather(-1, best))
    if min_p:
        logits = logits.masked_fill(logits < logits.amax(-1, keepdim=True) + math.log(min_p), -torch.inf)
    probabilities = torch.softmax(logits, -1)
    if top_p is None or top_p >= 1:
        return probabilities
    ordered, indices = torch.sort(probabilities, -1, descending=True)
    before = ordered.cumsum(-1) - ordered  # the mass of more probable tokens
    ordered = ordered.masked_fill(before >= top_p - 1e-6, 0.0)  # tolerance for rounding in the sum
    probabilities = torch.zeros_like(probabilities).scatter(-1, indices, ordered)
    return probabilities / probabilities.sum(-1, keepdim=True)


def draw(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """(B, V) and one number from [0, 1) a row (B,) -> tokens (B,): the first whose cumulative probability exceeds it.

    >>> draw(torch.tensor([[0.2, 0.0, 0.8]]).repeat(3, 1), torch.tensor([0.1, 0.2, 0.99])).tolist()
    [0, 2, 2]
    """
    reached = probabilities.double().cumsum(-1)
    reached = reached / reached[:, -1:]
    return torch.searchsorted(reached, numbers.double()[:, None], right=True)[:, 0].clamp(max=reached.shape[-1] - 1)


MULTIPLIERS = (-4658895280553007687, -7723592293110705685)  # of splitmix64, as signed integers
INCREMENT = -7046029254386353131


def uniform(seed: int, *counters: Tensor) -> Tensor:
    """Numbers from [0, 1), one for each entry of the counters (R,): a hash (splitmix64) of the seed and its counters.

    Without a generator there is no order in which numbers must be drawn, so rows may come, leave and change places.

    >>> rows = torch.arange(3)
    >>> torch.equal(uniform(1, rows)[1:], uniform(1, rows[1:]))
    True
    """
    state = torch.full_like(counters[0], seed)
    for counter in counters:
        state = state * INCREMENT + counter + 1
        for shift, multiplier in zip((30, 27), MULTIPLIERS, strict=True):
            state = (state ^ (state >> shift & (1 << 64 - shift) - 1)) * multiplier
        state = state ^ (state >> 31 & (1 << 33) - 1)
    return (state >> 11 & (1 << 53) - 1).double() * 2.0**-53


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn.

    Args:
        temperature, top_k, top_p, min_p: see the module's docstring.
        seed: of all random numbers.
        rows: (B,) a number for each source of a call that its random numbers depend on, such as the number of its line;
            by default its place in the call.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0
    rows: Tensor | None = None

    def __post_init__(self) -> None:
        check(self.temperature, self.top_k, self.top_p, self.min_p)

    def draw(self, scores: Tensor, source: Tensor, sample: Tensor, position: int) -> Tensor:
        """Scores (R, V), the source (R,) of each row and its number (R,) among the samples of it -> tokens (R,)."""
        rows = source if self.rows is None else self.rows.to(source.device)[source]
        numbers = uniform(self.seed, rows, sample, torch.full_like(sample, position))
        probabilities = filtered_probabilities(scores, self.temperature, self.top_k, self.top_p, self.min_p)
        return draw(probabilities, numbers)


@torch.no_grad()
def sample(
    model: StepModel,
    state: Any,
    tokens: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    seed: int = 0,
    forbidden: Sequence[int] = NOT_IN_TEXT,
) -> Iterator[Tensor]:
    """Yield tokens (B,) without end, each drawn after the last was fed back.

    Args:
        tokens: (B,) the last token of every row's prompt, not yet in `state`.
        forbidden: ids that are never drawn.

    Raises:
        UserError: settings that leave nothing to draw from, or a model whose logits are not numbers.
    """
    check(temperature, top_k, top_p, min_p)
    random = [torch.Generator().manual_seed(((seed << 20) + row) % 2**63) for row in range(len(tokens))]
    while True:
        logits = model.step(tokens, state).float()
        if not bool(torch.isfinite(logits).all()):
            raise UserError("the model's logits are not finite numbers; its training has diverged")
        logits[:, list(forbidden)] = -torch.inf
        numbers = torch.cat([torch.rand(1, generator=generator, dtype=torch.float64) for generator in random])
        tokens = draw(filtered_probabilities(logits, temperature, top_k, top_p, min_p), numbers.to(logits.device))
        yield tokens


def check(temperature: float, top_k: int | None, top_p: float | None, min_p: float | None = None) -> None:
    """Validate the settings.

    Raises:
        UserError: a setting that leaves nothing to draw from.
    """
    if not temperature >= 0:
        raise UserError(f"temperature is {temperature}; it must be 0 (the most probable token) or more")
    if top_k is not None and top_k < 1:
        raise UserError(f"top-k is {top_k}; at least 1 token must be left to draw from")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"top-p is {top_p}; it must be above 0 and at most 1")
    if min_p is not None and not 0 <= min_p <= 1:
        raise UserError(f"min-p is {min_p}; it must be between 0 and 1")
