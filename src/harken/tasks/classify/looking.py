"""What a classifier goes by in one example, as a picture: weights over its words, or over time.

attention   the pooling's weights: which states were looked at. A state has read its neighbours, so a word may be
            looked at for what stands beside it.
gradient    |d logit / d e_t|: which words or frames the label would change with. Every pooling has it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harken.data.signals import read_signals
from harken.errors import UserError
from harken.inspection.picture import Picture
from harken.inspection.signal_weights import SignalWeights
from harken.inspection.word_weights import WordWeights
from harken.tasks.classify.classifier import Classifier


def look_at(model: Classifier, example: str) -> Picture:
    """The picture of a text, or of the first signal in a file.

    Raises:
        UserError: a text without words, or a file that cannot be read.
    """
    found = read_example(model, example)
    if isinstance(found, str):
        return WordWeights(model.words(found), weights_of(model, found), _said(model, found))
    frames = found
    names = model.recipe.data.channels or [f"channel {number + 1}" for number in range(frames.shape[1])]
    kind, weights = next(iter(weights_of(model, frames).items()))
    return SignalWeights(frames, weights, _said(model, frames), kind.capitalize(), names)


def read_example(model: Classifier, example: str) -> str | np.ndarray:
    """A text as it is, or the frames (T, C) of the first signal in a file.

    Raises:
        UserError: a text without words, or a file that cannot be read.
    """
    if model.tokenizer is None:
        frames: np.ndarray = read_signals(Path(example), model.recipe.data).values[0]
        return frames
    if not model.words(example):
        raise UserError("the text has no words; give some in quotes")
    return example


def weights_of(model: Classifier, example: str | np.ndarray) -> dict[str, np.ndarray]:
    """Each way to ask, as shares of its largest, so that a long example can be seen too."""
    gradient = model.saliency(example)
    pooling = model.recipe.classifier.pooling
    if pooling != "attention":
        return {f"gradient ({pooling} pooling)": _to_one(gradient)}
    return {"attention": _to_one(model.attention(example)), "gradient": _to_one(gradient)}


def _said(model: Classifier, example: str | np.ndarray) -> str:
    chances = model.predict_proba([example])[0]
    return f"{model.classes[int(chances.argmax())]} {chances.max():.2f}"


def _to_one(weights: np.ndarray) -> np.ndarray:
    return weights / max(float(weights.max()), 1e-30)
