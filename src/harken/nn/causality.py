"""A layer that reads both ways has no place in a model that predicts from left to right.

Its second direction comes from the end of the sequence, so at every step it would have seen the words it is to
predict: in training the loss would fall to nothing, and in use, where those words do not exist yet, nothing is known.

>>> refuse_bidirectional(nn.LSTM(3, 5, bidirectional=True), "a language model")
Traceback (most recent call last):
ValueError: a bidirectional layer in a language model would see the words it has to predict: make it bidirectional=False
"""

from __future__ import annotations

from torch import nn


def refuse_bidirectional(layer: nn.Module | bool, where: str) -> None:
    """Refuse a layer, or a model with a layer in it, that reads both ways; `where` names the left-to-right model.

    Raises:
        ValueError: with the reason.
    """
    both = layer if isinstance(layer, bool) else any(getattr(part, "bidirectional", False) for part in layer.modules())
    if both:
        raise ValueError(
            f"a bidirectional layer in {where} would see the words it has to predict: make it bidirectional=False"
        )
