"""Utterances as padded batches of frames, and what must be true of them before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.data.audio.augmentation import equalised, louder_and_noisier, masked, sped, stretched
from harken.data.audio.filterbank import finished, frame_count, joined_count, log_mel
from harken.data.audio.utterances import Utterances
from harken.data.tokenizers.symbols import Symbols
from harken.errors import UserError
from harken.nn.ctc import frames_needed
from harken.tasks.transcribe.recipe import TranscribeRecipe


def steps_of(samples: int, recipe: TranscribeRecipe) -> int:
    """Steps that the encoder reads of so many samples."""
    return recipe.front.shortened(joined_count(frame_count(samples, recipe.features), recipe.features))


def training_frames(
    samples: np.ndarray, recipe: TranscribeRecipe, needed: int, random: np.random.Generator
) -> np.ndarray:
    """(T, C) of a recording as training hears it, `random` deciding; never shortened below the steps it needs."""
    features, augment = recipe.features, recipe.augment
    changed = louder_and_noisier(sped(samples, augment, random), augment, random)
    energies = stretched(log_mel(changed, features), augment, random)
    if recipe.front.shortened(joined_count(len(energies), features)) < needed:
        energies = log_mel(louder_and_noisier(samples, augment, random), features)
    return finished(masked(equalised(energies, augment, random), augment, random), features)


def pad_frames(rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """(frames (B, T, C) filled up with 0, lengths (B,))."""
    lengths = torch.tensor([len(row) for row in rows])
    frames = torch.zeros(len(rows), int(lengths.max()), rows[0].shape[1])
    for number, row in enumerate(rows):
        frames[number, : len(row)] = torch.from_numpy(row)
    return frames, lengths


@dataclass(frozen=True)
class HeardBatch:
    """Recordings, and what each of their steps says on the best path of the text, for `harken.inspection`."""

    frames: Tensor  # (B, T, C)
    lengths: Tensor  # (B,)
    said: Tensor  # (B, T') symbols and blanks
    last: Tensor  # (B,) the step that ends the last symbol

    def predictions(self, network: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities (B, T', V + 1), what is said (B, T'), and the place of the last symbol (B,)."""
        return network(self.frames, self.lengths)[0], self.said, self.last


def pad_targets(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """(symbols (B, S), lengths (B,)); an empty batch of texts is one symbol wide, which is not looked at."""
    lengths = torch.tensor([len(row) for row in rows])
    targets = torch.ones(len(rows), max(1, int(lengths.max())), dtype=torch.long)
    for number, row in enumerate(rows):
        targets[number, : len(row)] = torch.tensor(row, dtype=torch.long)
    return targets, lengths


def refuse_misfits(utterances: Utterances, symbols: Symbols, recipe: TranscribeRecipe, split: str) -> None:
    """Say before training which recording is too short for its text, or too long for the positions.

    Raises:
        UserError: its name, and what may be done.
    """
    longest = recipe.model.longest
    for index in range(len(utterances)):
        samples = utterances.length(0, index)
        steps, needed = steps_of(samples, recipe), frames_needed(symbols.encode(utterances.text(0, index)))
        where = f"{utterances.name(index)} of the {split} split"
        if steps < needed:
            raise UserError(
                f"{where} is too short for its text: {samples / recipe.features.rate:.2f} s make {steps} steps, and "
                f"{needed} are needed; lower features.skip, front.stride or features.hop, or leave the recording out"
            )
        if longest is not None and steps > longest:
            raise UserError(
                f"{where} has {steps} steps, more than model.max_length {longest}; raise it, or take positions that "
                "are not learned"
            )
