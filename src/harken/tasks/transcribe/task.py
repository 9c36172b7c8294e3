"""Transcription as a task: recordings in batches of steps, the CTC loss, error rates by the best path.

Indices are numbered epoch * N + index, so that a worker knows from the number alone what to mix and how to change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from harken.tasks.by_length import rows_of_part
from harken.tasks.transcribe.frames import pad_targets, steps_of, training_frames
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.training.task import Indices

AUGMENTING = 1  # tells the numbers that change a recording from those that mixed it


class TranscribeTask:
    """See `harken.training.task.Task`."""

    monitor = "symbol_error"
    mode = "min"

    def __init__(
        self,
        recipe: TranscribeRecipe,
        train: Utterances,
        valid: Utterances,
        symbols: Symbols,
        model: TranscriberNetwork,
    ) -> None:
        self.recipe, self.train, self.symbols, self.model = recipe, train, symbols, model
        self.references = valid.texts()
        self.valid_frames = frames_of([valid.samples(0, index) for index in range(len(valid))], recipe.features)
        self.valid_lengths = np.array([len(frames) for frames in self.valid_frames])
        self.known: tuple[int, np.ndarray, np.ndarray] | None = None  # of one epoch: steps and symbols of each example

    def epoch(self, number: int) -> Sequence[Indices]:
        """Recordings of like length together, in an order drawn for this epoch."""
        settings, (lengths, _) = self.recipe.train, self._counts(number)
        batches = token_batches(lengths, lengths, settings.batch_tokens, seed=settings.seed, epoch=number, noise=1)
        return [batch + number * len(self.train) for batch in batches]

    def _counts(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        if self.known is None or self.known[0] != epoch:
            rows = range(len(self.train))
            steps = [steps_of(self.train.length(epoch, index), self.recipe) for index in rows]
            texts = [max(1, len(self.symbols.split(self.train.text(epoch, index)))) for index in rows]
            self.known = epoch, np.array(steps), np.array(texts)
        return self.known[1], self.known[2]

    def size(self, examples: Indices) -> int:
        """Symbols of the texts; an empty text counts as one."""
        epoch, rows = int(examples[0]) // len(self.train), examples % len(self.train)
        return int(self._counts(epoch)[1][rows].sum())

    def share(self, examples: Indices, parts: int) -> list[Indices]:
        """Deal the rows out by length, so that every part has as much to do."""
        epoch, rows = int(examples[0]) // len(self.train), examples % len(self.train)
        ordered = examples[np.argsort(self._counts(epoch)[0][rows], kind="stable")]
        return [ordered[part::parts] for part in range(parts)]

    def loss(self, examples: Indices) -> Tensor:
        """Summed over the recordings."""
        recordings, targets, generators = [], [], []
        for example in examples:
            epoch, index = divmod(int(example), len(self.train))
            targets.append(self.symbols.encode(self.train.text(epoch, index)))
            random = np.random.default_rng([self.recipe.train.seed, epoch, index, AUGMENTING])
            recordings.append(self.train.samples(epoch, index))
            generators.append(random if random.random() < self.recipe.augment.share(epoch) else None)
        needed = [frames_needed(target) for target in targets]
        frames = training_frames(recordings, self.recipe, needed, generators)
        device = next(self.model.parameters()).device
        return self.model.loss(*(tensor.to(device) for tensor in (*frames, *pad_targets(targets))))

    def validate(self, part: int, parts: int) -> Any:
        """Loss and mistakes of every recording of the part."""
        device = next(self.model.parameters()).device
        found: dict[str, float] = dict.fromkeys(("loss", "errors", "symbols", "word_errors", "words"), 0.0)
        for rows in rows_of_part(self.valid_lengths, part, parts, self.recipe.train.batch_tokens):
            frames, lengths = (tensor.to(device) for tensor in pad_rows([self.valid_frames[row] for row in rows]))
            targets = [self.symbols.encode(self.references[row]) for row in rows]
            padded = [tensor.to(device) for tensor in pad_targets(targets)]
            log_probs, steps = self.model(frames, lengths)
            found["loss"] += float(summed_ctc(log_probs, steps, *padded))
            for row, values, count in zip(rows, log_probs.cpu().numpy(), steps.tolist(), strict=True):
                text, wanted = self.symbols.decode(greedy_ctc(values[:count])), self.references[row]
                symbols = edits(self.symbols.split(wanted), self.symbols.split(text))
                words = edits(wanted.split(), text.split())
                found["errors"] += symbols.total
                found["symbols"] += symbols.length
                found["word_errors"] += words.total
                found["words"] += words.length
        return found

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss per symbol, and mistakes per symbol and per word."""
        total = {name: sum(result[name] for result in results) for name in results[0]}
        scores = {
            "loss": total["loss"] / max(1.0, total["symbols"]),
            "symbol_error": total["errors"] / max(1.0, total["symbols"]),
        }
        if self.symbols.kind == "character" and any(" " in text for text in self.references):
            scores["word_error"] = total["word_errors"] / max(1.0, total["words"])
        return scores
