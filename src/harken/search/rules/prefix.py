"""A given beginning of the output: forced, or preferred.

    hard    the tokens of the prefix, then what the search finds
    soft    p'(v) = (1 - b) p(v) + b [v is the next token of the prefix], while a hypothesis follows the prefix

Scores of a hard prefix are the model's log-probabilities of its tokens, as in forced decoding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harken.data.tokenizers.tokens import EOS, PAD
from harken.errors import UserError
from harken.lazy_torch import torch
from harken.search.hypotheses import NEG_INF
from harken.search.rules.base import ScoreRule, SoFar

if TYPE_CHECKING:
    from torch import Tensor


class Prefix(ScoreRule):
    """Prefixes, one for each source of the call; an empty one leaves its source alone.

    Args:
        prefixes: token ids of each source.
        bias: None forces them; a number b from 0 to 1 mixes them in.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], bias: float | None = None) -> None:
        if bias is not None and not 0 <= bias < 1:
            raise UserError(f"the bias of a prefix is {bias}; it must be at least 0 and below 1")
        longest = max((len(prefix) for prefix in prefixes), default=0)
        rows = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
        self.tokens = np.array(rows, np.int64).reshape(len(rows), longest)  # (B, P)
        self.bias = bias

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        at = so_far.length
        if at >= self.tokens.shape[1]:
            return scores
        rows = torch.as_tensor(self.tokens, device=scores.device)[so_far.source]  # (R, P)
        token = rows[:, at : at + 1]  # (R, 1)
        applies = token != PAD
        if self.bias is None:
            forced = torch.full_like(scores, NEG_INF).scatter(1, token, scores.gather(1, token))
            return torch.where(applies, forced, scores)
        applies = applies & (so_far.tokens == rows[:, :at]).all(1, keepdim=True)
        mixed = scores + math.log1p(-self.bias)
        if self.bias:
            towards = torch.logaddexp(mixed.gather(1, token), torch.full_like(scores[:, :1], math.log(self.bias)))
            mixed = mixed.scatter(1, token, towards)
        return torch.where(applies, mixed, scores)


class ForcedFirst(ScoreRule):
    """The first token of every output, which costs nothing: the language of the target, say."""

    def __init__(self, token: int) -> None:
        self.token = token

    def restrict(self, logits: Tensor, so_far: SoFar) -> Tensor:
        if so_far.length:
            return logits
        logits = torch.full_like(logits, NEG_INF)
        logits[:, self.token] = 0.0
        return logits


def check_prefix(prefix: Sequence[int], limit: int) -> None:
    """Refuse a prefix that leaves no room for an output.

    Raises:
        UserError: with the reason.
    """
    if len(prefix) >= limit:
        raise UserError(
            f"the prefix has {len(prefix)} tokens, and the output may have {limit} with its end; shorten the prefix, "
            "or raise search.max_length_extra"
        )
    if EOS in prefix or PAD in prefix:
        raise UserError("the prefix holds the end of a sentence; give words alone")
