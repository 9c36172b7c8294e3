"""Weights over words and over time, and confusion: the numbers are in every form of the picture."""

import numpy as np
import pytest

from harken.errors import UserError
from harken.inspection.confusion import ConfusionMatrix
from harken.inspection.picture import Picture
from harken.inspection.signal_weights import SignalWeights
from harken.inspection.word_weights import WordWeights

PICTURES: list[Picture] = [
    WordWeights(["not", "<good>"], {"attention": [0.25, 1.0], "gradient": [1.0, 0.5]}, "negative 0.97"),
    SignalWeights(np.stack([np.arange(9.0), np.ones(9)], 1), np.linspace(0, 1, 9), "up & 1", "Attention", ["x<", "y"]),
    ConfusionMatrix([[9, 1], [2, 8]], ["no", "yes&"]),
]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: type(picture).__name__)
def test_every_form_can_be_drawn(picture: Picture) -> None:
    assert picture.to_svg().startswith("<svg") and "<good>" not in picture.to_svg() and "x<<" not in picture.to_svg()
    assert picture.to_html().startswith("<!doctype html>") and "http" not in picture.to_html().replace(
        "http://www.w3.org/2000/svg", ""
    )
    assert picture.to_png()[:4] == b"\x89PNG"
    assert all(len(line) <= 60 for line in picture.to_terminal(60, False).splitlines())


def test_shares_are_of_the_true_label() -> None:
    picture = ConfusionMatrix([[9, 1, 0], [2, 8, 0], [0, 0, 0]], ["no", "yes", "never"])
    assert picture.shares.tolist() == [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 0.0]]
    with pytest.raises(UserError, match="give a square"):
        ConfusionMatrix([[1, 2]], ["a", "b"])


def test_a_signal_is_drawn_with_its_weights() -> None:
    picture = SignalWeights(np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]]), [0.0, 0.5, 1.0], "up", "Attention")
    assert picture.scaled().tolist() == [[0.0, 0.5], [0.5, 0.5], [1.0, 0.5]]
    drawn = picture.to_svg()
    assert drawn.count("<polyline") == 2 and drawn.count('class="warm"') == 2
    assert "frame 2: 0.500" in drawn and 'fill-opacity="0.450"' in drawn
    lines = picture.to_terminal(80, False).splitlines()
    assert lines[1] == "channel 1  ▁▅█" and lines[3] == "weights    ·▒█"
    with pytest.raises(UserError, match="weights are 2 but"):
        SignalWeights(np.ones((3, 1)), [0.5, 0.5], "up", "Attention")
    with pytest.raises(UserError, match="at least one frame"):
        SignalWeights(np.ones((0, 1)), [], "up", "Attention")
