"""A trained classifier: the model folder as an object.

model = harken.load("runs/opinions")
model.predict(["the film was not good"])        # ['negative']
model.predict_proba(["the film was not good"])  # (1, 2), in the order of model.classes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.data.text.labelled import cleaned
from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizer
from harken.errors import UserError
from harken.models.heads.classifier import ClassifierModel
from harken.models.reader import FrameInput, values_alone
from harken.tasks.by_length import rows_of_part
from harken.tasks.classify.build import build_classifier
from harken.tasks.classify.labels import load_fine, load_labels
from harken.tasks.classify.reading import Rows, as_rows, by_word, in_context, require_kind, stored_channels
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.context import COPY, Context, open_context
from harken.tasks.label_batch import LabelBatch
from harken.training.checkpoints import load_weights
from harken.training.loop import MODEL
from harken.training.machine import choose_device

BATCH_TOKENS = 16384


class Classifier:
    """Model, labels and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self,
        recipe: ClassifyRecipe,
        model: ClassifierModel,
        classes: Sequence[str],
        tokenizer: Tokenizer | None = None,
        folder: Path | None = None,
        context: Context | None = None,
    ) -> None:
        self.recipe, self.folder = recipe, folder
        self.model = model.eval()
        self.classes, self.tokenizer, self.context = list(classes), tokenizer, context

    @classmethod
    def load(cls, folder: Path, recipe: ClassifyRecipe, device: str = "auto") -> Classifier:
        """The model of a folder whose recipe was read."""
        classes = load_labels(folder)
        tokenizer = load_tokenizer(folder, JOINT) if recipe.data.kind == "text" else None
        inputs = tokenizer.size if tokenizer else stored_channels(folder / MODEL, "reader.inputs.mean")
        context = open_context(folder / COPY, device) if recipe.embeddings.elmo else None
        merged = load_fine(folder, len(classes))[1] if recipe.classifier.fine else None
        model = build_classifier(recipe, inputs, len(merged or classes), context, merged)
        load_weights(model, folder / MODEL)
        return cls(recipe, model.to(choose_device(device)), classes, tokenizer, folder, context)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def channels(self) -> int | None:
        """Of the signals it reads; None where it reads texts."""
        inputs = self.model.reader.inputs
        return len(inputs.mean) if isinstance(inputs, FrameInput) else None

    def predict(self, examples: Sequence[Any]) -> list[str]:
        """The likeliest label of every text or array (T, C).

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        return [self.classes[best] for best in self.predict_proba(examples).argmax(1)]

    def predict_proba(self, examples: Sequence[Any], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """The probability of every class (N, K), columns in the order of `classes`.

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        found = np.zeros((len(examples), len(self.classes)))
        for chosen, values, lengths in self._batches(examples):
            with torch.no_grad():
                logits = self.model(values, lengths)[0].float()
            found[chosen] = torch.softmax(logits, -1).cpu().numpy()
            if progress:
                progress(len(chosen))
        return found

    def attention(self, example: Any) -> np.ndarray:
        """The pooling's weight of every word of a text, or of every frame of a signal; they sum to 1, but for the end.

        Raises:
            UserError: the model pools in another way; `saliency` knows what it goes by.
        """
        _, values, lengths = next(self._batches([example]))
        with torch.no_grad():
            weights = self.model(values, lengths)[1]
        if weights is None:
            raise UserError(
                f'classifier.pooling is "{self.recipe.classifier.pooling}", which has no weights; use saliency, or '
                'train with classifier.pooling = "attention"'
            )
        return by_word(example, weights[0], self.recipe.data, self.tokenizer)

    def saliency(self, example: Any) -> np.ndarray:
        """How much each word, or frame, moves the likeliest label: |d logit / d e_t|, summed over a word's pieces."""
        _, values, lengths = next(self._batches([example]))
        return by_word(example, self.model.saliency(values, lengths)[0], self.recipe.data, self.tokenizer)

    def words(self, text: str) -> list[str]:
        """What the weights of a text belong to: its words, as the model reads them."""
        return cleaned(text, self.recipe.data).split()

    def batch(self, examples: Sequence[Any]) -> LabelBatch:
        """Examples as the network reads them, for `harken.inspection`: alone, or each with its label, (example, label).

        Raises:
            UserError: examples of another kind than the model was trained on, or none.
        """
        pairs = [one if isinstance(one, tuple) else (one, None) for one in examples]
        if not pairs:
            raise UserError("there is no example to read; give at least one")
        rows = self._rows([example for example, _ in pairs])
        values, lengths = (tensor.to(self.device) for tensor in rows.gather(np.arange(len(pairs))))
        with torch.no_grad():
            wanted = self.model(values, lengths)[0].argmax(-1)  # what it says itself, where no label is known
        for row, (_, label) in enumerate(pairs):
            if label in self.classes:
                wanted[row] = self.classes.index(label)
        return LabelBatch((values, lengths), wanted, direct=self.recipe.classifier.pooling != "last")

    def reading(self, example: str) -> tuple[LabelBatch, dict[str, list[str]], str]:
        """For `harken inspect --gates`: a text, or the first signal of a file, as a batch, its steps, and a title."""
        from harken.tasks.classify.looking import read_example, steps_of

        found = read_example(example, self.recipe.data)
        batch = self.batch([found])
        steps = steps_of(found, values_alone(batch.inputs[0]), self.tokenizer)
        return batch, {"reader.encoder": steps}, f"{example} → {self.predict([found])[0]}"

    def _rows(self, examples: Sequence[Any]) -> Rows:
        if isinstance(examples, str):
            raise UserError("a single text was given where a list is wanted; write [text]")
        require_kind(examples, self.recipe)
        known = examples if self.tokenizer is None else [cleaned(text, self.recipe.data) for text in examples]
        rows = as_rows(known, self.recipe, self.tokenizer, self.channels)
        return in_context(rows, known, self.recipe, self.context)

    def _batches(self, examples: Sequence[Any]) -> Iterator[tuple[np.ndarray, Any, Tensor]]:
        rows = self._rows(examples)
        for chosen in rows_of_part(rows.lengths, 0, 1, BATCH_TOKENS):
            values, lengths = rows.gather(chosen)
            yield chosen, values.to(self.device), lengths.to(self.device)
