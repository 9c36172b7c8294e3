"""A check that a model which predicts from left to right has no bidirectional layer.

The backward direction of such a layer would see the words to predict: the training loss would fall to 0, and in
generation, where those words do not exist yet, the model would fail.

>>> refuse_bidirectional(nn.LSTM(3, 5, bidirectional=True), "a language model")
Traceback (most recent call last):
ValueError: a bidirectional layer in a language model would see the words it has to predict: make it bidirectional=False
"""

from __future__ import annotations

from torch import nn


def refuse_bidirectional(layer: nn.Module | bool, where: str) -> None:
    """Refuse a bidirectional layer, or a model that contains one; `where` names the left-to-right model.

    Raises:
        ValueError: with the reason.
    """
    both = layer if isinstance(layer, bool) else any(getattr(part, "bidirectional", False) for part in layer.modules())
    if both:
        raise ValueError(
            f"a bidirectional layer in {where} would see the words it has to predict: make it bidirectional=False"
        )
