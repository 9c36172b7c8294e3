"""Transcription as a task: recordings in batches of frames, the CTC loss, error rates by the best path.

Indices are numbered epoch * N + index, so that a worker knows from the number alone what to mix and how to change it.
`refuse_misfits` says before training which recordings do not fit their texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from harken.data.audio.augmentation import add_gain_and_noise, equalise, perturb_speed, spec_augment, stretch_time
from harken.data.audio.filterbank import frame_count, frames_of, log_mel, log_mels, pad_rows, postprocess, stacked_count
from harken.data.audio.utterances import Utterances
from harken.data.batching import token_batches
from harken.data.tokenizers.symbols import Symbols
from harken.errors import UserError
from harken.metrics.edits import edits
from harken.models.heads.transcriber import TranscriberNetwork, summed_ctc
from harken.nn.ctc import frames_needed
from harken.search.ctc import greedy_ctc
from harken.tasks.sequence_task import SequenceTask, Sums
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.training.task import Indices


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


AUGMENTING = 1  # tells the numbers that change a recording from those that mixed it


class TranscribeBatch(NamedTuple):
    """Recordings and their texts."""

    frames: Tensor  # (B, T, C)
    lengths: Tensor  # (B,)
    targets: Tensor  # (B, S)
    target_lengths: Tensor  # (B,)
    indices: Indices  # (B,)


class TranscribeTask(SequenceTask[TranscriberNetwork, TranscribeBatch]):
    """See `harken.tasks.sequence_task`."""

    unit = "symbols"
    unread = SequenceTask.unread | {"label_smoothing"}
    monitor = "symbol_error"
    collates_in_processes = True  # sound is made, augmented and transformed while it is collated

    def __init__(
        self,
        recipe: TranscribeRecipe,
        train: Utterances,
        valid: Utterances,
        symbols: Symbols,
        model: TranscriberNetwork,
    ) -> None:
        self.recipe, self.train, self.symbols = recipe, train, symbols
        self.known: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # of the last two epochs that were asked for
        self.references = valid.texts()
        self.valid_frames = frames_of([valid.samples(0, index) for index in range(len(valid))], recipe.features)
        valid_lengths = np.array([len(frames) for frames in self.valid_frames])
        super().__init__(model, recipe.train, self._counts(0)[0], valid_lengths)

    def _counts(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """(steps (N,), symbols (N,)) of an epoch, whose recordings may be mixed anew."""
        known = self.known  # a thread may draw the next epoch meanwhile
        if epoch not in known:
            rows = range(len(self.train))
            steps = [steps_of(self.train.length(epoch, index), self.recipe) for index in rows]
            texts = [max(1, len(self.symbols.split(self.train.text(epoch, index)))) for index in rows]
            counts = np.array(steps), np.array(texts)
            self.known = {**dict(list(known.items())[-1:]), epoch: counts}
            return counts
        return known[epoch]

    def epoch(self, number: int) -> Sequence[Indices]:
        """Recordings of like length together, in an order drawn for this epoch."""
        settings, (lengths, _) = self.settings, self._counts(number)
        batches = token_batches(lengths, lengths, settings.batch_tokens, seed=settings.seed, epoch=number, noise=1)
        return [batch + number * len(self.train) for batch in batches]

    def size(self, indices: Indices) -> int:
        """Symbols of the texts; an empty text counts as one."""
        epoch, rows = int(indices[0]) // len(self.train), indices % len(self.train)
        return int(self._counts(epoch)[1][rows].sum())

    def share(self, indices: Indices, parts: int) -> list[Indices]:
        epoch, rows = int(indices[0]) // len(self.train), indices % len(self.train)
        ordered = indices[np.argsort(self._counts(epoch)[0][rows], kind="stable")]
        return [ordered[part::parts] for part in range(parts)]

    def collate(self, indices: Indices, valid: bool = False) -> TranscribeBatch:
        if valid:
            targets = [self.symbols.encode(self.references[index]) for index in indices]
            frames = pad_rows([self.valid_frames[index] for index in indices])
            return TranscribeBatch(*frames, *pad_targets(targets), indices)
        recordings, targets, generators = [], [], []
        for number in indices:
            epoch, index = divmod(int(number), len(self.train))
            targets.append(self.symbols.encode(self.train.text(epoch, index)))
            random = np.random.default_rng([self.settings.seed, epoch, index, AUGMENTING])
            recordings.append(self.train.samples(epoch, index))
            generators.append(random if random.random() < self.recipe.augment.share(epoch) else None)
        frames = training_frames(recordings, self.recipe, [frames_needed(target) for target in targets], generators)
        return TranscribeBatch(*frames, *pad_targets(targets), indices)

    def loss(self, model: TranscriberNetwork, batch: TranscribeBatch) -> tuple[Tensor, int]:
        """CTC, summed over the recordings."""
        return model.loss(*batch[:4]), self.size(batch.indices)

    def evaluate(self, model: TranscriberNetwork, batch: TranscribeBatch) -> Sums:
        """Loss, and the edits of the best path of every recording."""
        log_probs, steps = model(batch.frames, batch.lengths)  # (B, T', V + 1), (B,)
        loss = float(summed_ctc(log_probs, steps, batch.targets, batch.target_lengths))
        sums = {"loss": loss, "errors": 0, "symbols": 0, "word_errors": 0, "words": 0}
        for index, values, count in zip(batch.indices, log_probs.cpu().numpy(), steps.tolist(), strict=True):
            text, reference = self.symbols.decode(greedy_ctc(values[:count])), self.references[index]
            symbols = edits(self.symbols.split(reference), self.symbols.split(text))
            words = edits(reference.split(), text.split())
            sums["errors"] += symbols.total
            sums["symbols"] += symbols.length
            sums["word_errors"] += words.total
            sums["words"] += words.length
        return sums

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Mean loss per symbol, and errors per symbol and per word."""
        scores = {
            name: sums[key] / max(1, sums["symbols"]) for name, key in (("loss", "loss"), ("symbol_error", "errors"))
        }
        if self.symbols.kind == "character" and any(" " in text for text in self.references):
            scores["word_error"] = sums["word_errors"] / max(1, sums["words"])
        return scores
