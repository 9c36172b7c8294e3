"""The decoder step: the interface between search and models.

    state = model.start(source, lengths, beam=1, max_length=T)       caches are allocated here
    logits (R, V) = model.step(tokens (R,), state)                   R = sources * beam rows; changes the state in place
    state.reorder_(beam_index (R,))                                  hypotheses of a source change places
    state.expand_(beam), state.keep_(sources)                        from 1 to `beam` hypotheses; fewer sources

Search knows nothing else of a model, so anything with these calls can be searched: a recurrent decoder, a Transformer
with its cache, several models at once (`harken.search.ensemble`), a table in a test. The hypotheses of a source are
side by side in a batch. Tensors of the source are stored once a source; `reorder_` leaves them alone. The caller may
change the logits in place.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from harken.errors import UserError


class State(Protocol):
    """The state of a decoder for some sources, with `beam` hypotheses each."""

    beam: int

    def reorder_(self, beam_index: Tensor) -> None:
        """Row r goes on with the hypothesis of row beam_index[r] (R,), which belongs to the same source."""

    def expand_(self, beam: int) -> None:
        """From one hypothesis a source to `beam` equal ones."""

    def keep_(self, sources: Tensor) -> None:
        """Drop all sources but these (B',), in rising order, with all of their hypotheses."""


class StepModel(Protocol):
    """A decoder that computes one token at a time."""

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """tokens (R,) -> logits (R, V) of the next; where asked for, attention (R, S) is left in the state."""
        ...


def attention_of(state: Any) -> Tensor:
    """The attention (R, S) of the last step.

    Raises:
        UserError: the model has none.
    """
    weights: Tensor | None = state.attention
    if weights is None:
        raise UserError("search.coverage_penalty needs attention to the source, and this model has none; set it to 0")
    return weights


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


def is_worth_compacting(live: int, rows: int, device: torch.device) -> bool:
    """Whether to drop the rows that are done: from an eighth of them on a CPU, from a half on a GPU."""
    return live <= (rows * 7 // 8 if device.type == "cpu" else rows // 2)
