"""A pre-trained masked model: the model folder as an object.

model = harken.load("runs/masked")
model.fill("the black [MASK] sleeps")[0][:2]    # [('cat', 0.41), ('dog', 0.22)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from harken.data.io.token_rows import pad
from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizer
from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.inspection.gates import ENDS, axis_pieces
from harken.metrics.interval import Interval, bootstrap
from harken.models.build import build_encoder
from harken.models.heads.masked import FIRST_WORD, MASK, MaskedModel
from harken.models.reader import Reader, TokenInput
from harken.tasks.by_length import rows_of_part
from harken.tasks.label_batch import LabelBatch
from harken.tasks.masked.recipe import MaskedRecipe
from harken.tasks.masked.task import hide_all, score_rows
from harken.tasks.masked.text import as_rows
from harken.tasks.scores import Metric, Scores
from harken.training.checkpoints import MODEL, load_weights
from harken.training.machine import choose_device

if TYPE_CHECKING:
    from harken.inspection.picture import Picture

HOLE = "[MASK]"  # how a text says that a word is hidden
BATCH_TOKENS = 4096


def build_masked_model(recipe: MaskedRecipe, size: int) -> MaskedModel:
    """A new network for `size` tokens, with weights drawn from torch's current random state."""
    encoder = build_encoder(recipe.model)
    return MaskedModel(Reader(TokenInput(size, encoder.embedding), encoder))


class MaskedReader:
    """Model, tokenizer and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self, recipe: MaskedRecipe, model: MaskedModel, tokenizer: Tokenizer, folder: Path | None = None
    ) -> None:
        self.recipe, self.folder, self.tokenizer = recipe, folder, tokenizer
        self.model = model.eval()

    @classmethod
    def load(cls, folder: Path, recipe: MaskedRecipe, device: str = "auto") -> MaskedReader:
        """The model of a folder whose recipe was read."""
        tokenizer = load_tokenizer(folder, JOINT)
        model = build_masked_model(recipe, tokenizer.size)
        load_weights(model, folder / MODEL)
        return cls(recipe, model.to(choose_device(device)), tokenizer, folder)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @torch.no_grad()
    def fill(self, text: str, count: int = 5) -> list[list[tuple[str, float]]]:
        """For every [MASK] in a text the likeliest tokens with their chances, the best first.

        Raises:
            UserError: nothing is masked.
        """
        if HOLE not in text:
            raise UserError(f"nothing is hidden in {text!r}; write {HOLE} in place of a word")
        ids, lengths = pad([[*self._encode(text), EOS]])
        ids = ids.to(self.device)
        logits = self.model(ids, lengths.to(self.device), ids == MASK)[:, FIRST_WORD:]  # (M, V)
        best = torch.softmax(logits.float(), -1).topk(min(count, logits.shape[1]))
        names = [self.tokenizer.pieces([index + FIRST_WORD for index in found]) for found in best.indices.tolist()]
        return [
            list(zip(found, chances, strict=True)) for found, chances in zip(names, best.values.tolist(), strict=True)
        ]

    def batch(self, lines: Sequence[str]) -> LabelBatch:
        """Lines with one word to guess, for `harken.inspection`: their first gap, or where there is none the last word.

        Raises:
            UserError: a line without words; or there is none.
        """
        rows = [self._encode(line)[: self.recipe.data.max_tokens - 1] for line in lines]
        if not rows or not all(rows):
            raise UserError("there is a line without words, or none at all; give some words")
        places = [row.index(MASK) if MASK in row else len(row) - 1 for row in rows]
        known, lengths = pad([[*row, EOS] for row in rows])
        chosen = torch.zeros(known.shape, dtype=torch.bool)
        chosen[torch.arange(len(rows)), torch.tensor(places)] = True
        ids = known.masked_fill(chosen, MASK)
        inputs = [tensor.to(self.device) for tensor in (ids, lengths, chosen)]
        wanted = known[chosen].to(self.device)
        with torch.no_grad():
            own = self.model(*inputs).argmax(-1)  # what it says itself of a gap
        return LabelBatch(inputs, torch.where(wanted == MASK, own, wanted))

    def reading(self, text: str) -> tuple[LabelBatch, dict[str, list[str]], str]:
        """For `harken inspect --gates`: a text as a batch, its pieces, and a title."""
        batch = self.batch([text])
        ids = batch.inputs[0][0].tolist()
        names = axis_pieces(self.tokenizer, ids[:-1])
        steps = [HOLE if index == MASK else name for index, name in zip(ids, names, strict=False)]
        return batch, {"reader.encoder": [*steps, ENDS[1]]}, text

    def _encode(self, text: str) -> list[int]:
        """Ids of a text, gaps as MASK."""
        row: list[int] = []
        for number, part in enumerate(text.split(HOLE)):
            row += [MASK] * (number > 0)
            row += self.tokenizer.encode(part.lower() if self.recipe.data.lowercase else part)
        return row

    def evaluate(self, lines: Sequence[str], *, progress: Callable[[int], None] | None = None) -> Scores:
        """Perplexity of hidden words and the share that is guessed; the same words are hidden at every call."""
        rows = as_rows(lines, self.tokenizer, self.recipe.data.max_tokens)
        hidden = hide_all(rows, self.tokenizer.size, self.recipe.masking.rate)
        found: list[tuple[float, float, float]] = []
        for examples in rows_of_part(rows.lengths, 0, 1, BATCH_TOKENS):
            found += score_rows(self.model, rows, hidden, examples)
            if progress:
                progress(len(examples))
        losses, right, words = np.array(found).T
        loss = bootstrap(losses, words)
        perplexity = Interval(*(math.exp(value) for value in (loss.value, loss.low, loss.high)))
        note = f"of {int(words.sum()):,} hidden words"
        return Scores(
            len(rows),
            "rows",
            [
                Metric.of("perplexity", perplexity, f"{note}; lower is better", digits=2),
                Metric.of("accuracy", bootstrap(right, words), "share guessed", digits=4),
            ],
        )

    def picture(self, text: str, count: int = 12) -> Picture:
        """The likeliest words of every gap, as shades."""
        from harken.inspection.tables import HeatMaps, ShadeTable

        found = self.fill(text, count)
        panels = []
        for number, gap in enumerate(found, start=1):
            title = text if len(found) == 1 else f"{text} ({number})"
            words, chances = [word for word, _ in gap], [[chance] for _, chance in gap]
            panels.append(ShadeTable(["chance"], words, chances, title, down="word"))
        return HeatMaps(panels)
