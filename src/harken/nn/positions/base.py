"""Where positions enter attention itself: the plain kind, which others change in one place.

`turn` changes queries and keys before they are compared, and before keys are cached (rotary); `attend` changes the
comparison (ALiBi, relative), which is otherwise that of a score (`head_scores.py`). Queries stand at the end of the
keys: of T queries and S keys, query i is at S - T + i, so one rule serves whole sequences (T = S) and single steps with
a cache (T = 1).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn.attention.head_scores import PLAIN, ScaledHeads


def distances(targets: int, sources: int, device: torch.device | str | None = None) -> Tensor:
    """(T, S) whole numbers j - i from query to key, below 0 for the past.

    >>> distances(2, 3).tolist()
    [[-1, 0, 1], [-2, -1, 0]]
    """
    keys = torch.arange(sources, device=device)
    return keys - keys[sources - targets :, None]


class AttentionPositions(nn.Module):
    """Attention that knows of no positions: E12 as it stands."""

    measures = False  # whether given distances are used
    turns = False  # whether `turn` does anything, which only scores that multiply queries with keys can stand

    def turn(self, query: Tensor, key: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Queries and keys (B, N, T, K), the first at position `start`."""
        return query, key

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        dropout: float = 0.0,
        given: Tensor | None = None,
        score: ScaledHeads = PLAIN,
    ) -> Tensor:
        """Contexts (B, N, T, K), the quick way; `given` distances (B, T, S) are for kinds that use them."""
        return score.attend(query, key, value, mask, causal, dropout)

    def attend_with_weights(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        given: Tensor | None = None,
        score: ScaledHeads = PLAIN,
    ) -> tuple[Tensor, Tensor]:
        """The definition of `attend`: contexts, and weights (B, N, T, S)."""
        return score.attend_with_weights(query, key, value, mask, causal)
