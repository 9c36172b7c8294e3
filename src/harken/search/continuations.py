"""The likeliest next tokens of every hypothesis, in an order that never depends on chance.

Padding and the start symbol are never written, whatever the model says. Log-probabilities are taken over the whole
vocabulary, so a score is the same number that training would give the sentence.

>>> import torch
>>> continuations(torch.tensor([[9.0, 0.0, 9.0, 1.0, 0.0]]), 2)[1]    # ids 0 (PAD) and 2 (BOS) are passed over
tensor([[3, 1]])
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, PAD

NEVER = float("-inf")  # the score of what must not be chosen


def ranked(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Sort the last axis, best first; equal scores keep their order. Returns values and positions."""
    return torch.sort(scores, dim=-1, descending=True, stable=True)


def continuations(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities and ids, both (B, C), best first; C is `count` or what the vocabulary has.

    Args:
        logits: (B, V), of any float type; the sum is taken in float32 or better.
        count: how many next tokens each hypothesis is asked for.
    """
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    log_probabilities = logits.log_softmax(-1)
    needed = min(count + 2, logits.shape[-1])  # two more: PAD and BOS may be among them
    values, ids = _largest(log_probabilities, needed)
    ids, order = ids.sort(-1)  # of equal log-probabilities the lower id comes first
    values = values.gather(-1, order).clamp(max=0.0)  # rounding must not make a hypothesis better as it grows
    values = values.masked_fill((ids == PAD) | (ids == BOS), NEVER)
    values, order = ranked(values)
    return values[:, :count], ids.gather(-1, order)[:, :count]  # (B, C)


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`topk`, and of values equal to the last one chosen those with the lowest ids.

    `topk` may choose any of them. A tie across the edge is so rare in a trained model that it is looked for, and then
    all is sorted; on a GPU looking would wait for the device, so there its `topk`, the same in every run, is taken.
    """
    if count == values.shape[-1] or values.device.type != "cpu":
        return values.topk(count)
    best, ids = values.topk(count + 1)
    if bool(((best[:, -1] == best[:, -2]) & (best[:, -1] > NEVER)).any()):
        best, ids = ranked(values)
    return best[:, :count], ids[:, :count]
