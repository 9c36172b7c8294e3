"""word2vec on a batch of windows at once, in torch: what a GPU does in place of `harken.embeddings.kernels.word2vec`.

    x = H O^T       g = rate (answer - sigmoid(x))       H += g O       O += g^T H        for all windows of a batch

H (B, C, D) are the neighbours of B words, or (B, 1, D) their means (CBOW); O (B, A, D) the word's own output row and
those of its wrong answers. Draws follow the same law as on a CPU: words thinned out, a reach drawn for every word,
wrong answers by an alias table and shared by a window.

All of a batch is learnt from the values before it, so a row that is in many windows would take the sum of many steps
that do not know of each other, and overshoot. Where the learning rates of a row's steps sum to more than `MOST`, they
are scaled down to it; measured on wiki-en, where 0.5 and 1 lost nothing and 2 in batches of 8,192 diverged.

Definition: `harken.embeddings.word2vec.reference.step`, equal for a batch of one window.

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

MOST = {"skipgram": 0.5, "cbow": 1.0}  # what the learning rates of a row's steps in one batch may sum to


def thinned(ids: Tensor, keep: Tensor, generator: torch.Generator) -> Tensor:
    """The words of a stream that stay, -1 between sentences; keep (V,) is how likely each word does."""
    drawn = torch.rand(len(ids), generator=generator, device=ids.device, dtype=keep.dtype)
    return ids[(ids < 0) | (drawn < keep[ids.clamp(min=0)])]


def windows(kept: Tensor, start: int, stop: int, window: int, reach: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbours (B, 2 window) of the words at start to stop, and which of them are there (1 or 0).

    Args:
        kept: all words, (M,), -1 between sentences.
        reach: (M,), drawn from 1 to `window` for each.
    """
    here = torch.arange(start, stop, device=kept.device)
    offsets = torch.arange(-window, window, device=kept.device)
    offsets = offsets + (offsets >= 0)  # no word is its own neighbour
    places = here[:, None] + offsets  # (B, 2 window)
    inside = (places >= 0) & (places < len(kept)) & (offsets.abs() <= reach[start:stop, None])
    places = places.clamp(0, len(kept) - 1)
    low, high = max(0, start - window), min(len(kept), stop + window)
    sentence = (kept[low:high] < 0).cumsum(0)  # an end counts to the sentence after it
    around = kept[places]
    same = sentence[places.clamp(low, high - 1) - low] == sentence[here - low][:, None]
    known = inside & same & (around >= 0) & (kept[start:stop, None] >= 0)
    return around.clamp(min=0), known.float()


def wrong_answers(
    words: Tensor, wanted: int, height: Tensor, other: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Output rows (B, 1 + wanted), the word's own first, and which of them count: a wrong one is not the word itself.

    One that is the word is drawn anew once; where it is again, it counts nothing.
    """

    def draw() -> Tensor:
        shape = (len(words), wanted)
        place = torch.rand(shape, generator=generator, device=words.device, dtype=torch.float64) * len(height)
        column = place.long().clamp(max=len(height) - 1)
        return torch.where(place - column < height[column], column, other[column])

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
    """Teach both matrices, (V, D) each, all that the windows say; the summed loss.

    Args:
        around: neighbours (B, C); those with known (B, C) = 0 are none.
        rows: output rows (B, A), the right one first; those with counted (B, A) = 0 are none.
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
    parts = rate * torch.sigmoid(-signed) * signs * weights  # rate x (answer - sigmoid)
    change = torch.bmm(parts, answers)  # (B, C, D)
    if is_cbow:
        change = change * known[:, :, None]  # the change of a mean goes to each of its words
    windows = MOST["cbow" if is_cbow else "skipgram"] / rate
    add_rows(outputs, rows, torch.bmm(parts.transpose(1, 2), hidden), counted * there.amax(1, keepdim=True), windows)
    add_rows(inputs, around, change, known, windows)
    return -(F.logsigmoid(signed) * weights).sum()


def add_rows(table: Tensor, rows: Tensor, change: Tensor, counted: Tensor, most: float) -> None:
    """Add changes (B, C, D) to rows (B, C) of a table; those of a row that counts more than `most` are scaled to it."""
    flat = rows.flatten()
    times = table.new_zeros(len(table)).index_add_(0, flat, counted.flatten())
    share = (most / times.clamp(min=1)).clamp(max=1)
    table.index_add_(0, flat, change.flatten(0, 1) * share[flat][:, None])
