"""Connectionist temporal classification: the loss of a text that is not aligned to its frames.

A path has one of V symbols or blank (0) at every frame; merging repeats and dropping blanks gives its text. The
probability of a text is the sum over all its paths, p(y|x) = sum_{paths} prod_t p_t(path_t), computed by the forward
algorithm over l' = blank y_1 blank y_2 ... blank:

    alpha_t(s) = [alpha_{t-1}(s) + alpha_{t-1}(s-1) + alpha_{t-1}(s-2)] p_t(l'_s)
    loss = -log(alpha_T(last) + alpha_T(last - 1))

The third term applies only where l'_s is a symbol other than l'_{s-2}: two equal symbols need a blank between them.
Computed in log space. This is the reference for the tests; training calls torch's `F.ctc_loss`.
Graves, Fernandez, Gomez and Schmidhuber (2006).

>>> even = torch.full((1, 2, 3), 1 / 3).log()  # two frames; blank and two symbols, equally likely
>>> ctc_loss(even, torch.tensor([2]), torch.tensor([[1]]), torch.tensor([1])).neg().exp()  # 11, -1 and 1-
tensor([0.3333])
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

BLANK = 0


def ctc_loss(log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
    """-log p(target | frames) of every row, (B,); infinite where there are too few frames for the text.

    Args:
        log_probs: (B, T, V + 1), normalised; blank first.
        lengths: (B,) frames of each row.
        targets: (B, S) symbols from 1; padding is ignored.
        target_lengths: (B,) symbols of each row; 0 is the empty text.
    """
    batch, time, _ = log_probs.shape
    width = 2 * targets.shape[1] + 1  # of l'
    labels = torch.full((batch, width), BLANK, dtype=torch.long, device=targets.device)
    labels[:, 1::2] = targets
    skips = torch.zeros(batch, width, dtype=torch.bool, device=targets.device)  # where alpha(s-2) may come from
    skips[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    emitted = log_probs.gather(2, labels[:, None, :].expand(batch, time, width))  # (B, T, width)
    nothing = torch.tensor(-torch.inf, dtype=log_probs.dtype, device=log_probs.device)
    begin = torch.arange(width, device=targets.device) < 2
    alpha = torch.where(begin, emitted[:, 0], nothing)  # (B, width)
    for step in range(1, time):
        shifted = torch.nn.functional.pad(alpha[:, :-1], (1, 0), value=-torch.inf)
        two = torch.nn.functional.pad(alpha[:, :-2], (2, 0), value=-torch.inf)[:, :width]
        came = log_add(alpha, shifted, torch.where(skips, two, nothing))
        alpha = torch.where((step < lengths)[:, None], came + emitted[:, step], alpha)
    last = 2 * target_lengths[:, None]
    ends = alpha.gather(1, torch.cat([last, (last - 1).clamp(min=0)], 1))  # (B, 2)
    symbol_last = torch.where(target_lengths > 0, ends[:, 1], nothing)
    return -log_add(ends[:, 0], symbol_last)


def log_add(*values: Tensor) -> Tensor:
    """log sum exp whose gradient is 0, not NaN, where every term is -inf."""
    stacked = torch.stack(values)
    highest = stacked.max(0).values.detach()
    possible = highest > -torch.inf
    summed = (stacked - torch.where(possible, highest, 0.0)).exp().sum(0)
    return torch.where(possible, torch.where(possible, summed, 1.0).log() + highest, -torch.inf)


def frames_needed(target: Sequence[int]) -> int:
    """The fewest frames a text needs: one for each symbol, and a blank between equal ones; an empty text needs one.

    >>> frames_needed([1, 2, 3]), frames_needed([7, 7]), frames_needed([])
    (3, 3, 1)
    """
    repeats = sum(symbol == other for symbol, other in pairwise(target))
    return max(1, len(target) + repeats)
