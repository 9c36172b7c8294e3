"""A trained regressor: the model folder as an object.

model = harken.load("runs/prices")
model.predict(["three rooms and a garden"])   # [312000.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from harken.data.frames import FrameRows
from harken.data.labelled import cleaned
from harken.data.rows import TokenRows
from harken.data.tokenizers import JOINT, Tokenizer, load_tokenizer
from harken.errors import UserError
from harken.models.build import build_encoder
from harken.models.classifier import ClassifierModel
from harken.models.reader import FrameInput, Reader, TokenInput
from harken.models.regressor import RegressorModel
from harken.tasks.by_length import rows_of_part
from harken.tasks.classify.reading import as_rows
from harken.tasks.regress.recipe import RegressRecipe
from harken.training.checkpoints import load_weights
from harken.training.loop import MODEL
from harken.training.machine import choose_device

BATCH_TOKENS = 16384


class Regressor:
    """Model and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self, recipe: RegressRecipe, model: RegressorModel, tokenizer: Tokenizer | None, folder: Path | None = None
    ) -> None:
        self.recipe, self.folder, self.tokenizer = recipe, folder, tokenizer
        self.model = model.eval()

    @classmethod
    def load(cls, folder: Path, recipe: RegressRecipe, device: str = "auto") -> Regressor:
        """The model of a folder whose recipe was read."""
        tokenizer = load_tokenizer(folder, JOINT) if recipe.data.kind == "text" else None
        model = build_regressor(recipe, tokenizer.size if tokenizer else _channels(folder / MODEL))
        load_weights(model, folder / MODEL)
        return cls(recipe, model.to(choose_device(device)), tokenizer, folder)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def rows(self, examples: Sequence[Any]) -> TokenRows | FrameRows:
        """Texts or arrays (T, C) as the network reads them.

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        if isinstance(examples, str):
            raise UserError("a single text was given where a list is wanted; write [text]")
        inputs = self.model.network.reader.inputs
        channels = len(inputs.mean) if isinstance(inputs, FrameInput) else None
        known = examples if self.tokenizer is None else [cleaned(text, self.recipe.data) for text in examples]
        return as_rows(known, cast(Any, self.recipe), self.tokenizer, channels)

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


def build_regressor(recipe: RegressRecipe, inputs: int) -> RegressorModel:
    """A new network for `inputs` ids or channels, with weights drawn from torch's current random state."""
    encoder, chosen = build_encoder(recipe.model), recipe.regressor
    reads: nn.Module = (
        TokenInput(inputs, encoder.embedding) if recipe.data.kind == "text" else FrameInput(inputs, encoder.embedding)
    )
    reader = Reader(reads, encoder)
    return RegressorModel(
        ClassifierModel(reader, 1, pooling=chosen.pooling, score=chosen.score, dropout=chosen.dropout)
    )


def _channels(weights: Path) -> int:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, "pt") as stored:
            return int(stored.get_slice("network.reader.inputs.mean").get_shape()[0])
    except (SafetensorError, OSError) as problem:
        raise UserError(f"{weights} holds no regressor of signals ({problem}); copy the folder anew") from problem
