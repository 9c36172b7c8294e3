"""What an answer depends on in one example, as a picture: weights over its words, or over time.

attention   the pooling's weights: which states were attended to. A state has read its neighbours, so a word may be
            attended to for what stands beside it.
gradient    |d logit / d e_t|: which words or frames the label would change with. Every pooling has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from harken.data.series.signals import read_signals
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.labelled import cleaned
from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError
from harken.inspection.measures.gates import ENDS, axis_pieces
from harken.inspection.pictures.picture import Picture
from harken.inspection.pictures.sequences import SignalWeights
from harken.inspection.pictures.tables import WordWeights


def steps_of(example: str | np.ndarray, values: Tensor, tokenizer: Tokenizer | None) -> list[str]:
    """What the steps of a batch of one example are called: the pieces of a text and its end, or numbers."""
    if tokenizer is None:
        return [str(number + 1) for number in range(len(example))]
    return [*axis_pieces(tokenizer, values[0, :-1].tolist()), ENDS[1]]


def picture_of(
    example: str | np.ndarray, weights: Mapping[str, np.ndarray], title: str, data: ExamplesConfig
) -> Picture:
    """Weights, by what they are, over the words of a text; of a signal the first of them, over time."""
    if isinstance(example, str):
        return WordWeights(cleaned(example, data).split(), dict(weights), title)
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
    """As shares of the largest."""
    return weights / max(float(weights.max()), 1e-30)
