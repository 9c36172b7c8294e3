"""A trained regressor: the model folder as an object.

model = harken.load("runs/prices")
model.predict(["three rooms and a garden"])   # [312000.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from harken.data.text.labelled import cleaned
from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizer
from harken.errors import UserError
from harken.inspection.picture import Picture
from harken.models.build import build_encoder
from harken.models.heads.classifier import ClassifierModel
from harken.models.heads.regressor import RegressorModel
from harken.models.reader import FrameInput, Reader, TokenInput, values_alone
from harken.tasks.by_length import rows_of_part
from harken.tasks.classify.looking import picture_of, read_example, steps_of, to_one
from harken.tasks.classify.reading import Rows, as_rows, by_word, in_context, stored_channels
from harken.tasks.context import COPY, Context, open_context
from harken.tasks.regress.recipe import RegressRecipe
from harken.training.checkpoints import load_weights
from harken.training.loop import MODEL
from harken.training.machine import choose_device

BATCH_TOKENS = 16384


@dataclass(frozen=True)
class NumberBatch:
    """Examples and their numbers as `harken.inspection.running` runs a network on them."""

    values: Any  # (B, T) ids, with the layers of a context or without, or (B, T, C) frames
    lengths: Tensor  # (B,)
    wanted: Tensor  # (B,)
    direct: bool  # whether the answer looks at every step

    def losses(self, network: RegressorModel) -> tuple[Tensor, Tensor]:
        """Squared errors (B, 1) in units of the deviation, and the place of each row's only one (B,): 0."""
        wanted = (self.wanted - network.mean[0]) / network.deviation[0]
        squares = (network.standard(self.values, self.lengths)[:, :1] - wanted[:, None]).square()
        return squares, torch.zeros_like(self.lengths)


class Regressor:
    """Model and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self,
        recipe: RegressRecipe,
        model: RegressorModel,
        tokenizer: Tokenizer | None,
        folder: Path | None = None,
        context: Context | None = None,
    ) -> None:
        self.recipe, self.folder, self.tokenizer, self.context = recipe, folder, tokenizer, context
        self.model = model.eval()

    @classmethod
    def load(cls, folder: Path, recipe: RegressRecipe, device: str = "auto") -> Regressor:
        """The model of a folder whose recipe was read."""
        tokenizer = load_tokenizer(folder, JOINT) if recipe.data.kind == "text" else None
        context = open_context(folder / COPY, device) if recipe.embeddings.elmo else None
        inputs = tokenizer.size if tokenizer else stored_channels(folder / MODEL, "network.reader.inputs.mean")
        model = build_regressor(recipe, inputs, context)
        load_weights(model, folder / MODEL)
        return cls(recipe, model.to(choose_device(device)), tokenizer, folder, context)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def rows(self, examples: Sequence[Any]) -> Rows:
        """Texts or arrays (T, C) as the network reads them.

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        if isinstance(examples, str):
            raise UserError("a single text was given where a list is wanted; write [text]")
        inputs = self.model.network.reader.inputs
        channels = len(inputs.mean) if isinstance(inputs, FrameInput) else None
        known = examples if self.tokenizer is None else [cleaned(text, self.recipe.data) for text in examples]
        recipe = cast(Any, self.recipe)
        return in_context(as_rows(known, recipe, self.tokenizer, channels), known, recipe, self.context)

    def batch(self, examples: Sequence[Any]) -> NumberBatch:
        """Examples as the network reads them, for `harken.inspection`: alone, or as (example, number).

        Raises:
            UserError: examples of another kind than the model was trained on, or none.
        """
        pairs = [one if isinstance(one, tuple) else (one, None) for one in examples]
        if not pairs:
            raise UserError("there is no example to read; give at least one")
        rows = self.rows([example for example, _ in pairs])
        values, lengths = rows.gather(np.arange(len(pairs)))
        mean = float(self.model.mean[0])
        wanted = torch.tensor([mean if number is None else float(number) for _, number in pairs], device=self.device)
        return NumberBatch(
            values.to(self.device), lengths.to(self.device), wanted, direct=self.recipe.regressor.pooling != "last"
        )

    def reading(self, example: str) -> tuple[NumberBatch, dict[str, list[str]], str]:
        """For `harken inspect --gates`: a text, or the first signal of a file, as a batch, its steps, and a title."""
        found = read_example(example, self.recipe.data)
        batch = self.batch([found])
        steps = steps_of(found, values_alone(batch.values), self.tokenizer)
        return batch, {"network.reader.encoder": steps}, f"{example} → {self.predict([found])[0]:.6g}"

    def look(self, example: str) -> Picture:
        """What the number depends on, over the words of a text or the steps of the first signal in a file."""
        found = read_example(example, self.recipe.data)
        batch, network = self.batch([found]), self.model.network
        with torch.no_grad():
            weights = network(batch.values, batch.lengths)[1]
        steps = {"attention": weights} if weights is not None else {}
        steps["gradient"] = network.saliency(batch.values, batch.lengths)
        shown = {
            kind: to_one(by_word(found, values[0], self.recipe.data, self.tokenizer)) for kind, values in steps.items()
        }
        return picture_of(found, shown, f"{self.predict([found])[0]:.6g}", self.recipe.data)

    def predict(self, examples: Sequence[Any]) -> np.ndarray:
        """(N,), a number for every text or array (T, C).

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        rows = self.rows(examples)
        found = np.zeros(len(rows))
        for chosen in rows_of_part(rows.lengths, 0, 1, BATCH_TOKENS):
            values, lengths = rows.gather(chosen)
            with torch.no_grad():
                made = self.model(values.to(self.device), lengths.to(self.device))[:, 0]
            found[chosen] = made.double().cpu().numpy()
        return found


def build_regressor(recipe: RegressRecipe, inputs: int, context: Context | None = None) -> RegressorModel:
    """A new network for `inputs` ids or channels, with weights drawn from torch's current random state."""
    encoder, chosen = build_encoder(recipe.model), recipe.regressor
    reads: nn.Module = (
        TokenInput(inputs, encoder.embedding) if recipe.data.kind == "text" else FrameInput(inputs, encoder.embedding)
    )
    if context is not None:
        reads = context.beside(reads, encoder.embedding)
    reader = Reader(reads, encoder)
    return RegressorModel(
        ClassifierModel(reader, 1, pooling=chosen.pooling, score=chosen.score, dropout=chosen.dropout)
    )
