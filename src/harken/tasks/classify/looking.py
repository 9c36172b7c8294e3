"""What a classifier goes by in one example, as a picture: weights over its words, or over time.

Where the pooling is attention these are its weights; elsewhere it is the norm of the gradient at each step.
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
    if model.tokenizer is not None:
        words = model.words(example)
        if not words:
            raise UserError("the text has no words; give some in quotes")
        return WordWeights(words, *_weights_and_title(model, example))
    frames = read_signals(Path(example), model.recipe.data).values[0]
    names = model.recipe.data.channels or [f"channel {number + 1}" for number in range(frames.shape[1])]
    return SignalWeights(frames, *_weights_and_title(model, frames), names)


def _weights_and_title(model: Classifier, example: str | np.ndarray) -> tuple[np.ndarray, str, str]:
    chances = model.predict_proba([example])[0]
    label = f"{model.classes[int(chances.argmax())]} {chances.max():.2f}"
    if model.recipe.classifier.pooling == "attention":
        return _to_one(model.attention(example)), label, "Attention over what was read"
    return _to_one(model.saliency(example)), label, f"Gradient to the label ({model.recipe.classifier.pooling} pooling)"


def _to_one(weights: np.ndarray) -> np.ndarray:
    """As shares of the largest, so that a long example can be seen too."""
    return weights / max(float(weights.max()), 1e-30)
