"""Utterances as padded batches of frames, and what must be true of them before training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from harken.data.audio.augmentation import add_gain_and_noise, equalise, perturb_speed, spec_augment, stretch_time
from harken.data.audio.filterbank import frame_count, log_mel, log_mels, pad_rows, postprocess, stacked_count
from harken.data.audio.utterances import Utterances
from harken.data.tokenizers.symbols import Symbols
from harken.errors import UserError
from harken.nn.ctc import frames_needed
from harken.tasks.transcribe.recipe import TranscribeRecipe


def steps_of(samples: int, recipe: TranscribeRecipe) -> int:
    """Steps that the encoder reads of so many samples."""
    return recipe.front.shortened(stacked_count(frame_count(samples, recipe.features), recipe.features))


def training_frames(
    recordings: Sequence[np.ndarray],
    recipe: TranscribeRecipe,
    needed: Sequence[int],
    generators: Sequence[np.random.Generator | None],
) -> tuple[Tensor, Tensor]:
    """(frames (B, T, C) padded with 0, lengths (B,)) of recordings as they are trained on.

    Args:
        needed: steps that the text of each needs; augmentation never leaves fewer.
        generators: what decides how each recording is augmented; None: not at all.
    """
    features, augment = recipe.features, recipe.augment
    changed = [
        samples if random is None else add_gain_and_noise(perturb_speed(samples, augment, random), augment, random)
        for samples, random in zip(recordings, generators, strict=True)
    ]
    energies, lengths = log_mel(*pad_rows(changed), features)
    if all(random is None for random in generators):
        return postprocess(energies, lengths, features)
    rows = [row[:length].numpy() for row, length in zip(energies, lengths.tolist(), strict=True)]
    for number, random in enumerate(generators):
        if random is None:
            continue
        row = stretch_time(rows[number], augment, random)
        if recipe.front.shortened(stacked_count(len(row), features)) < needed[number]:
            row = log_mels([add_gain_and_noise(recordings[number], augment, random)], features)[0].numpy()
        rows[number] = spec_augment(equalise(row, augment, random), augment, random)
    return postprocess(*pad_rows(rows), features)


def pad_targets(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """(symbols (B, S), lengths (B,)); a batch of empty texts is one symbol wide, which is not read."""
    padded = pad_sequence([torch.tensor(row or [1]) for row in rows], batch_first=True, padding_value=1)
    return padded, torch.tensor([len(row) for row in rows])


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
