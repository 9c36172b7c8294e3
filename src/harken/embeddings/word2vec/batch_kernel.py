"""word2vec on a batch of windows in torch, for GPUs, in place of `harken.embeddings.word2vec.kernel`.

    x = H O^T       g = rate (label - sigmoid(x))       H += g O       O += g^T H        for all windows of a batch

H (B, C, D) are the neighbours of B words, or (B, 1, D) their means (CBOW); O (B, A, D) the word's own output row and
those of its negative samples. Draws have the same distribution as on a CPU: words subsampled, a window size drawn for
every word, negatives by an alias table and shared by a window.

All of a batch is computed from the values before it, so a row that is in many windows would get the sum of many
independent steps and overshoot. Where the learning rates of a row's steps sum to more than `MOST`, they
are scaled down to it; measured on wiki-en, where 0.5 and 1 lost nothing and 2 in batches of 8,192 diverged.

Reference: `harken.embeddings.word2vec.reference.step`, equal for a batch of one window.

>>> inputs, outputs = torch.eye(2), torch.zeros(2, 2)
>>> one = torch.ones(1, 1)
>>> loss = step(inputs, outputs, torch.tensor([[0]]), one, torch.tensor([[0, 1]]), torch.ones(1, 2), 0.5)
>>> round(float(loss), 4), outputs.tolist()
(1.3863, [[0.25, 0.0], [-0.25, 0.0]])
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

MOST = {"skipgram": 0.5, "cbow": 1.0}  # bound on the sum of the learning rates of a row's steps in one batch


def subsample(ids: Tensor, keep: Tensor, generator: torch.Generator) -> Tensor:
    """The words of a stream that are kept, -1 between sentences; keep (V,) are their probabilities."""
    drawn = torch.rand(len(ids), generator=generator, device=ids.device, dtype=keep.dtype)
    return ids[(ids < 0) | (drawn < keep[ids.clamp(min=0)])]


def windows(sampled: Tensor, start: int, stop: int, window: int, reach: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbours (B, 2 window) of the words at start to stop, and a mask of those that exist (1 or 0).

    Args:
        sampled: all words, (M,), -1 between sentences.
        reach: (M,), drawn from 1 to `window` for each.
    """
    here = torch.arange(start, stop, device=sampled.device)
    offsets = torch.arange(-window, window, device=sampled.device)
    offsets = offsets + (offsets >= 0)  # no word is its own neighbour
    positions = here[:, None] + offsets  # (B, 2 window)
    inside = (positions >= 0) & (positions < len(sampled)) & (offsets.abs() <= reach[start:stop, None])
    positions = positions.clamp(0, len(sampled) - 1)
    low, high = max(0, start - window), min(len(sampled), stop + window)
    sentence = (sampled[low:high] < 0).cumsum(0)  # a sentence end belongs to the sentence after it
    around = sampled[positions]
    same = sentence[positions.clamp(low, high - 1) - low] == sentence[here - low][:, None]
    known = inside & same & (around >= 0) & (sampled[start:stop, None] >= 0)
    return around.clamp(min=0), known.float()


def negative_samples(
    words: Tensor, count: int, height: Tensor, other: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Output rows (B, 1 + count), the word's own first, and a mask of those that count.

    A sample that equals the word is drawn again once; if it still does, it is masked.
    """

    def draw() -> Tensor:
        shape = (len(words), count)
        position = torch.rand(shape, generator=generator, device=words.device, dtype=torch.float64) * len(height)
        column = position.long().clamp(max=len(height) - 1)
        return torch.where(position - column < height[column], column, other[column])

    drawn = draw()
    drawn = torch.where(drawn == words[:, None], draw(), drawn)
    rows = torch.cat([words[:, None], drawn], 1)
    counted = torch.cat([torch.ones_like(words[:, None]), drawn != words[:, None]], 1)
    return rows, counted.float()


def step(
    inputs: Tensor,
    outputs: Tensor,
    around: Tensor,
    known: Tensor,
    rows: Tensor,
    counted: Tensor,
    rate: float,
    is_cbow: bool = False,
) -> Tensor:
    """Update both matrices, (V, D) each, by one step on the windows; returns the summed loss.

    Args:
        around: neighbours (B, C); those with known (B, C) = 0 are masked.
        rows: output rows (B, A), the word's own first; those with counted (B, A) = 0 are masked.
    """
    hidden, there = inputs[around], known  # (B, C, D)
    if is_cbow:
        there = known.amax(1, keepdim=True)  # (B, 1)
        hidden = (hidden * known[:, :, None]).sum(1, keepdim=True) / known.sum(1).clamp(min=1)[:, None, None]
    answers = outputs[rows]  # (B, A, D)
    signs = rows.new_full((rows.shape[1],), -1).to(hidden.dtype)
    signs[0] = 1
    signed = torch.bmm(hidden, answers.transpose(1, 2)) * signs  # (B, C, A)
    weights = there[:, :, None] * counted[:, None, :]
    error = rate * torch.sigmoid(-signed) * signs * weights  # rate (label - sigmoid)
    change = torch.bmm(error, answers)  # (B, C, D)
    if is_cbow:
        change = change * known[:, :, None]  # the update of a mean goes to each of its words
    windows = MOST["cbow" if is_cbow else "skipgram"] / rate
    add_rows(outputs, rows, torch.bmm(error.transpose(1, 2), hidden), counted * there.amax(1, keepdim=True), windows)
    add_rows(inputs, around, change, known, windows)
    return -(F.logsigmoid(signed) * weights).sum()


def add_rows(table: Tensor, rows: Tensor, change: Tensor, counted: Tensor, most: float) -> None:
    """Add changes (B, C, D) to rows (B, C) of a table; rows with a count above `most` are scaled down to it."""
    flat = rows.flatten()
    times = table.new_zeros(len(table)).index_add_(0, flat, counted.flatten())
    share = (most / times.clamp(min=1)).clamp(max=1)
    table.index_add_(0, flat, change.flatten(0, 1) * share[flat][:, None])
