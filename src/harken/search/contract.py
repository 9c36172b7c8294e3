"""The decoder step: the interface between search and models.

    logits, state, attention = model.step(tokens, state)

Anything with such a `step` can be searched: a recurrent decoder, a Transformer with its cache, a table in a test.
A `state` holds one row for each hypothesis; `state.select(rows)` reorders, repeats and drops them.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from harken.errors import UserError


class State(Protocol):
    """The state of a decoder after a prefix, one row for each hypothesis."""

    def select(self, rows: Tensor) -> Any:
        """A new state with the rows numbered in `rows` (B',), in that order, repeats allowed."""
        ...


class StepModel(Protocol):
    """A decoder that computes one token at a time."""

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any, Tensor | None]:
        """tokens (B,) -> logits (B, V), the next state, attention (B, S) or None."""
        ...


def device_of(model: StepModel, device: torch.device | str | None, max_lengths: int | Tensor) -> torch.device:
    """The device to search on: `device`, else that of the model's weights, else that of `max_lengths`, else the CPU."""
    if device is not None:
        return torch.device(device)
    if isinstance(model, nn.Module):
        for parameter in model.parameters():
            return parameter.device
    return max_lengths.device if isinstance(max_lengths, Tensor) else torch.device("cpu")


def limits(max_lengths: int | Tensor, rows: int, device: torch.device) -> Tensor:
    """The most tokens each row may have, EOS included, as (rows,) on `device`.

    Raises:
        UserError: a limit below 1, or not one limit for every row.
    """
    lengths = torch.as_tensor(max_lengths, dtype=torch.long)
    if lengths.dim() > 0 and lengths.shape != (rows,):
        shape = tuple(lengths.shape)
        raise UserError(f"max_lengths has shape {shape}; give one number, or one for each of {rows} rows.")
    if lengths.numel() and int(lengths.min()) < 1:
        raise UserError(f"max_lengths holds {int(lengths.min())}; it must be at least 1.")
    return lengths.to(device).expand(rows)
