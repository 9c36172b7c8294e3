"""Language modelling as a task: streams of text in chunks, cross-entropy, perplexity.

Recurrent networks carry their states from chunk to chunk: these are in `carried`, one row for each stream, and are
cut off from the gradient. A stream always goes to the same worker, which thus finds the state that it left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.models.language.base import LanguageNetwork
from harken.models.recurrent.language import PARTS, RecurrentLanguageState
from harken.tasks.language.recipe import LanguageRecipe
from harken.tasks.language.scoring import log_probabilities
from harken.tasks.language.streams import Chunks, fitting_streams, independent, share_by_stream, streams, total_length
from harken.tasks.sequence_task import Sums, merge_sums
from harken.training.task import Indices

VALID_ROWS = 16  # parts of the validation text that are read side by side


class StreamBatch(NamedTuple):
    """One chunk of some streams."""

    tokens: Tensor  # (B, T + 1)
    streams: Tensor  # (B,)
    first: bool  # of a pass: nothing was read before


class LanguageTask:
    """See `harken.training.task.Task`."""

    monitor = "loss"
    mode = "min"

    def __init__(self, recipe: LanguageRecipe, model: LanguageNetwork, train: np.ndarray, valid: np.ndarray) -> None:
        self.recipe, self.settings, self.model = recipe, recipe.train, model
        self.valid = valid.astype(np.int64, copy=False)
        self.ids = train  # (N,), memory-mapped where the text is large
        self.streams = fitting_streams(len(train), recipe.streams, recipe.data.chunk)
        self.carried = model.carried(self.streams) if recipe.carries else {}
        self.loss_of: Callable[..., Any] = torch.compile(model.loss) if recipe.train.compile else model.loss

    def epoch(self, number: int) -> Sequence[Indices]:
        """Chunk after chunk of all streams; or chunks in an order drawn for this epoch, where nothing is carried."""
        data, random = self.recipe.data, np.random.default_rng([self.settings.seed, number])
        if self.recipe.carries:
            return streams(len(self.ids), self.streams, data.chunk, random, data.vary)
        return independent(len(self.ids), self.streams, data.chunk, random)

    def size(self, examples: Indices) -> int:
        """Tokens to predict."""
        return total_length(examples)

    def share(self, examples: Indices, parts: int) -> list[Indices]:
        """By the number of the stream, so that a worker meets its own streams again."""
        return share_by_stream(examples, parts)

    def collate(self, indices: Indices) -> StreamBatch:
        chunks = Chunks.read(indices)
        places = chunks.starts[:, None] + np.arange(chunks.length + 1)
        tokens = torch.from_numpy(self.ids[places].astype(np.int64, copy=False))
        return StreamBatch(tokens, torch.from_numpy(chunks.streams), chunks.first)

    def loss(self, model: LanguageNetwork, batch: StreamBatch) -> tuple[Tensor, int]:
        """Summed over all tokens of the chunks; the states after them go into `carried`."""
        read, targets = batch.tokens[:, :-1], batch.tokens[:, 1:]
        state = self._state(batch.streams) if self.carried and not batch.first else None
        loss, state = self.loss_of(read, targets, state, self.settings.label_smoothing, self.settings.z_loss)
        if self.carried:
            self._carry(batch.streams, state)
        return loss, targets.numel()

    def _state(self, rows: Tensor) -> RecurrentLanguageState:
        """Where the streams stand."""
        depth = len(self.carried) // len(self._parts)
        return RecurrentLanguageState(
            [tuple(self.carried[f"{part}.{layer}"][rows] for part in self._parts) for layer in range(depth)]
        )

    @torch.no_grad()
    def _carry(self, rows: Tensor, state: RecurrentLanguageState) -> None:
        """Keep the states for the next chunk; NaN and infinity become 0, or they would stay for ever."""
        for depth, layer in enumerate(state.layers):
            for part, value in zip(self._parts, layer, strict=True):
                kept = self.carried[f"{part}.{depth}"]
                kept[rows] = value.to(kept.dtype).nan_to_num(0.0, 0.0, 0.0)

    @property
    def _parts(self) -> tuple[str, ...]:
        return PARTS if "cell.0" in self.carried else PARTS[:1]

    def validate(self, part: int, parts: int) -> Sums:
        """Every worker reads its own piece of the validation text, in rows side by side."""
        cuts = np.linspace(0, len(self.valid) - 1, parts + 1).astype(int)
        mine = self.valid[cuts[part] : cuts[part + 1] + 1]
        rows = max(1, min(VALID_ROWS // parts, len(mine) // 64))
        log_probs = log_probabilities(self.model, mine, self.recipe.data.chunk, rows)
        return {"loss": float(-log_probs.sum()), "tokens": len(log_probs)}

    def score(self, results: list[Sums]) -> dict[str, float]:
        """Mean loss per token, and its perplexity."""
        sums = merge_sums(results)
        loss = sums["loss"] / max(1, sums["tokens"])
        return {"loss": loss, "perplexity": math.exp(min(loss, 50.0))}
