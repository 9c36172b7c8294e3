"""What BIO tags rule out: a continuation without what it continues.

    B-x I-x ... I-x     an entity of kind x          never I-x first, after O, or after another kind

>>> moves, firsts = broken_moves(["B-person", "I-person", "O"])
>>> moves.tolist(), firsts.tolist()
([[False, False, False], [False, False, False], [False, True, False]], [False, True, False])
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def broken_moves(tags: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Which tag may not follow which (K, K), from row to column, and which may not be the first (K,)."""
    kinds = [tag[2:] if tag.startswith("I-") else None for tag in tags]
    moves = [[kind is not None and before not in (f"B-{kind}", f"I-{kind}") for kind in kinds] for before in tags]
    return torch.tensor(moves), torch.tensor([kind is not None for kind in kinds])
