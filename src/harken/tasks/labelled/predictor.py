"""A trained model that reads labelled examples: what `Classifier` and `Regressor` share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from harken.data.series.signals import read_signals
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.labelled import cleaned
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.words import unseen_words, words_of
from harken.errors import UserError
from harken.inspection.figure.values import left_to_right
from harken.inspection.measures.gates import ENDS, axis_pieces
from harken.inspection.pictures.picture import Picture
from harken.inspection.pictures.sequences import SignalWeights
from harken.inspection.pictures.tables import WordWeights
from harken.models.heads.classifier import ClassifierModel
from harken.models.reader import FrameInput, values_alone
from harken.tasks.artifacts import TokenizerArtifact
from harken.tasks.context import COPY, Context, open_context
from harken.tasks.labelled.reading import Rows, as_rows, by_word, in_context, require_kind, stored_shapes
from harken.tasks.labelled.recipe import LabelledRecipe
from harken.tasks.predictor import Predictor
from harken.training.folder import MODEL

TOKENIZER = TokenizerArtifact()
R = TypeVar("R", bound=LabelledRecipe)
M = TypeVar("M", bound=nn.Module)


class LabelledPredictor(Predictor[R, M]):
    """Reads texts, or arrays (T, C), and gives one answer for each."""

    def __init__(
        self,
        recipe: R,
        model: M,
        tokenizer: Tokenizer | None = None,
        folder: Path | None = None,
        context: Context | None = None,
    ) -> None:
        super().__init__(recipe, model, folder)
        self.tokenizer, self.context = tokenizer, context

    @property
    @abstractmethod
    def network(self) -> ClassifierModel:
        """The network that reads and pools: the model, or a part of it."""

    @abstractmethod
    def answer_of(self, example: Any) -> str:
        """The answer to one example in words."""

    def title_of(self, example: Any) -> str:
        """The title of a figure about one example."""
        return self.answer_of(example)

    @abstractmethod
    def batch(self, examples: Sequence[Any]) -> Any:
        """Examples as `harken.inspection` runs a network on them: alone, or as (example, target).

        Raises:
            UserError: examples of another kind than the model was trained on, or none.
        """

    @property
    def channels(self) -> int | None:
        """The channels of the signals it reads; None where it reads texts."""
        inputs = self.network.reader.inputs
        return len(inputs.mean) if isinstance(inputs, FrameInput) else None

    def rows(self, examples: Sequence[Any]) -> Rows:
        """Texts or arrays (T, C) as the network reads them.

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        if isinstance(examples, str):
            raise UserError("a single text was given where a list is expected; write [text]")
        if not isinstance(examples, Iterable):
            raise UserError(f"{type(examples).__name__} was given where a list of examples is expected")
        require_kind(examples, self.recipe)
        known = examples if self.tokenizer is None else [cleaned(text, self.recipe.data) for text in examples]
        rows = as_rows(known, self.recipe, self.tokenizer, self.channels)
        return in_context(rows, known, self.recipe, self.context)

    def padded(self, examples: Sequence[Any]) -> tuple[Any, Tensor]:
        """All examples as one batch on the model's device, and their lengths (B,).

        Raises:
            UserError: as `rows`; or there are none.
        """
        if not len(examples):
            raise UserError("there is no example to read; give at least one")
        values, lengths = self.rows(examples).gather(np.arange(len(examples)))
        return values.to(self.device), lengths.to(self.device)

    def attention(self, example: Any) -> np.ndarray:
        """The pooling's weight of every word of a text, or of every frame of a signal; they sum to 1, but for the end.

        Raises:
            UserError: the model pools in another way; `saliency` is there for all.
        """
        with torch.no_grad():
            weights = self.network(*self.padded([example]))[1]
        if weights is None:
            section = "classifier" if hasattr(self.recipe, "classifier") else "regressor"
            raise UserError(
                f'{section}.pooling is "{self.recipe.head.pooling}", which has no weights; use saliency, or '
                f'train with {section}.pooling = "attention"'
            )
        return by_word(example, weights[0], self.recipe.data, self.tokenizer)

    def saliency(self, example: Any) -> np.ndarray:
        """|d answer / d e_t| of every word, summed over its pieces, or of every frame (Simonyan et al., 2014)."""
        weights = self.network.saliency(*self.padded([example]))[0]
        return by_word(example, weights, self.recipe.data, self.tokenizer)

    def unseen_words(self, text: str) -> list[str]:
        """See `harken.tasks.predictor`."""
        return [] if self.tokenizer is None else unseen_words(self.tokenizer, cleaned(text, self.recipe.data))

    def words(self, text: str) -> list[str]:
        """The words of a text as the model reads them, to which its weights belong."""
        text = cleaned(text, self.recipe.data)
        return (
            text.split() if self.tokenizer is None else words_of(self.tokenizer, self.tokenizer.encode(text), text)[0]
        )

    def attention_figure(self, example: str) -> Picture:
        """Draw how much the answer depends on each word of a text, or each step of the first signal in a file.

        Raises:
            UserError: a text without words, or a file that cannot be read.
        """
        value, pooling = read_example(example, self.recipe.data), self.recipe.head.pooling
        weights = {"attention": to_one(self.attention(value))} if pooling == "attention" else {}
        name = "gradient" if weights else f"gradient ({pooling} pooling)"
        weights[name] = to_one(self.saliency(value))
        words = self.words(value) if isinstance(value, str) else []
        return picture_of(value, words, weights, self.title_of(value), self.recipe.data)

    def reading(self, example: str) -> tuple[Any, dict[str, list[str]], str]:
        """Read a text, or the first signal of a file, for `harken inspect --gates`: a batch, its steps, and a title."""
        value = read_example(example, self.recipe.data)
        steps = steps_of(value, values_alone(self.padded([value])[0]), self.tokenizer)
        name = "reader.encoder" if self.network is self.model else "network.reader.encoder"
        return self.batch([value]), {name: steps}, f"{left_to_right(example)} → {left_to_right(self.answer_of(value))}"


def open_reader(folder: Path, recipe: LabelledRecipe, device: str, weights: str) -> tuple[int, Tokenizer | None, Any]:
    """Read from a folder the number of ids or channels, the tokenizer, and the frozen context.

    Args:
        weights: the tensor of the stored model that has an entry for each channel of a signal.
    """
    tokenizer = TOKENIZER.load(folder) if recipe.data.kind == "text" else None
    if tokenizer is None and weights not in (shapes := stored_shapes(folder / MODEL)):
        raise UserError(f"{folder / MODEL} holds no model of signals; copy the folder again")
    inputs = tokenizer.size if tokenizer else shapes[weights][0]
    return inputs, tokenizer, open_context(folder / COPY, device) if recipe.embeddings.elmo else None


def steps_of(example: str | np.ndarray, values: Tensor, tokenizer: Tokenizer | None) -> list[str]:
    """The names of the steps of a batch of one example: the pieces of a text and its end, or numbers."""
    if tokenizer is None:
        return [str(number + 1) for number in range(len(example))]
    return [*axis_pieces(tokenizer, values[0, :-1].tolist()), ENDS[1]]


def picture_of(
    example: str | np.ndarray,
    words: Sequence[str],
    weights: Mapping[str, np.ndarray],
    title: str,
    data: ExamplesConfig,
) -> Picture:
    """Weights, by what they are, over the words of a text; of a signal the first of them, over time."""
    if isinstance(example, str):
        return WordWeights(words, dict(weights), title)
    names = data.channels or [f"channel {number + 1}" for number in range(example.shape[1])]
    kind, chosen = next(iter(weights.items()))
    return SignalWeights(example, chosen, title, kind.capitalize(), names)


def read_example(example: str, data: ExamplesConfig) -> str | np.ndarray:
    """A text as it is, or the frames (T, C) of the first signal in a file.

    Raises:
        UserError: a text without words, or a file that cannot be read.
    """
    if data.kind == "signal":
        frames: np.ndarray = read_signals(Path(example), data).values[0]
        return frames
    if not cleaned(example, data).split():
        raise UserError("the text has no words; give some in quotes")
    return example


def to_one(weights: np.ndarray) -> np.ndarray:
    """Scale weights so that the largest is 1."""
    return weights / max(float(weights.max()), 1e-30)
