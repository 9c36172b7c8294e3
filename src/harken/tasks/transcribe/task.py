"""Transcription as a task: recordings in batches of steps, the CTC loss, error rates by the best path.

Indices are numbered epoch * N + index, so that a worker knows from the number alone what to mix and how to change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from harken.data.audio.filterbank import frames_of, pad_rows
from harken.data.audio.utterances import Utterances
from harken.data.batching import token_batches
from harken.data.tokenizers.symbols import Symbols
from harken.metrics.edits import edits
from harken.models.heads.transcriber import TranscriberNetwork, summed_ctc
from harken.nn.ctc import frames_needed
from harken.search.ctc import greedy_ctc
from harken.tasks.sequence_task import SequenceTask, Sums
from harken.tasks.transcribe.frames import pad_targets, steps_of, training_frames
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.training.task import Indices

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
