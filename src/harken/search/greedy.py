"""Greedy search: the most probable token at every step.

    y_t = argmax_v p(v | y_1 .. y_{t-1}, x)

Fast, and used for validation during training. All rows advance together; a row that has ended leaves the batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.errors import UserError
from harken.search.contract import StepModel, device_of, limits
from harken.search.hypotheses import Hypothesis, continuations, normalise


@torch.no_grad()
def greedy_search(
    model: StepModel,
    state: Any,
    rows: int,
    *,
    max_lengths: int | Tensor,
    length_penalty: float = 1.0,
    device: torch.device | str | None = None,
) -> list[Hypothesis]:
    """One hypothesis for each of the `rows` rows of `state`.

    Args:
        max_lengths: the most tokens a row may have, EOS included: one number or (rows,).
        length_penalty: only for the `normalised` score; it does not change what is found.
        device: where the tokens are kept; by default where the model is.

    Raises:
        UserError: an impossible limit, or a model whose logits are not numbers.
    """
    if rows == 0:
        return []
    device = device_of(model, device, max_lengths)
    limit = limits(max_lengths, rows, device)
    steps = int(limit.max())
    written = torch.full((rows, steps), PAD, device=device)  # (rows, T)
    scores = torch.zeros(rows, device=device)
    alive = torch.arange(rows, device=device)  # which row of the result each row of the batch is
    tokens = torch.full((rows,), BOS, device=device)
    for position in range(steps):
        logits, state, _ = model.step(tokens, state)
        values, ids = continuations(logits, 1)  # (B, 1)
        tokens = ids[:, 0]
        written[alive, position] = tokens
        scores = scores.to(values.dtype).index_add(0, alive, values[:, 0])
        open_rows = (tokens != EOS) & (limit[alive] > position + 1)
        keep = open_rows.nonzero()[:, 0]  # synchronises with the device
        if len(keep) == 0:
            break
        if len(keep) < len(alive):
            alive, tokens, state = alive[keep], tokens[keep], state.select(keep)
    return [
        _hypothesis(ids, score, row, length_penalty)
        for row, (ids, score) in enumerate(zip(written.tolist(), scores.tolist(), strict=True))
    ]


def _hypothesis(written: list[int], score: float, row: int, penalty: float) -> Hypothesis:
    """Cut the padding and the EOS off one row of the result."""
    if not score > float("-inf"):
        raise UserError(f"The model's logits for row {row} are not finite numbers; its training has diverged.")
    finished = EOS in written
    tokens = written[: written.index(EOS)] if finished else [token for token in written if token != PAD]
    return Hypothesis(tokens, score, normalise(score, len(tokens) + finished, penalty), finished)
