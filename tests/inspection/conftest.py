"""One small picture of every kind, with words that could break a page or a terminal."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from harken.inspection import (
    AlignmentMap,
    ConfusionMatrix,
    FlowPicture,
    HeatMaps,
    HopMap,
    Picture,
    ShadeTable,
    WordWeights,
    gates,
    gradient_flow,
)
from harken.inspection.pictures.drawings import CaptionMap, CaptionPage, InkPicture
from harken.inspection.pictures.fan import FanPicture
from harken.inspection.pictures.sequences import SignalWeights, SpectrogramPicture, Surprisal
from harken.nn import GRU, LSTM, RNN

NASTY = "<b>&\x1b"
CAT = [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8], [0.05, 0.85, 0.1]]


def alignment() -> Picture:
    return AlignmentMap(["the", "black", "cat"], ["le", "chat", NASTY], CAT)


def long_alignment() -> Picture:
    words = [f"word{index}" for index in range(24)], [f"mot{index}" for index in range(24)]
    return AlignmentMap(*words, np.eye(24)[::-1] * 0.75, "the diagonal rises")


def gate() -> Picture:
    torch.manual_seed(0)
    words = ["the", "black", "cat", NASTY, "</s>"]
    layer = LSTM(3, 40, batch_first=True, bidirectional=True, orthogonal=True)
    return gates(layer, 2 * torch.randn(1, 5, 3), words=words).picture()


def flow() -> Picture:
    torch.manual_seed(0)
    values = torch.randn(8, 12, 3)
    kinds = (RNN, GRU, LSTM)
    layers = {kind.__name__: kind(3, 6, batch_first=True, orthogonal=True) for kind in kinds}
    return FlowPicture({name: gradient_flow(layer, values) for name, layer in layers.items()})


def fan() -> Picture:
    steps = np.arange(60)
    values = 100 + steps + 20 * np.sin(2 * np.pi * steps / 12)
    labels = [f"{2020 + step // 12}-{step % 12 + 1:02}-01" for step in steps]
    levels = [0.1, 0.5, 0.9]
    forecast = values[48:, None] * [0.9, 1.0, 1.1]
    shade = np.linspace(0, 1, 48) ** 6
    return FanPicture(f"{NASTY} sales", values[:48], levels, forecast, labels, truth=values[48:] + 3, shade=shade)


def spectrogram() -> Picture:
    """A tone that rises for a second; "b", then "<b>", then "b" again."""
    energies = np.full((20, 100), -10.0)
    energies[np.arange(100) // 5, np.arange(100)] = 0.0
    posteriors = np.zeros((4, 10))
    posteriors[0] = 1.0
    for column, row in ((2, 2), (5, 1), (8, 2)):
        posteriors[:, column] = np.eye(4)[row]
    said = [("b", 0.2, 0.3, 1.0), (NASTY, 0.5, 0.6, 1.0), ("b", 0.8, 0.9, 1.0)]
    return SpectrogramPicture(energies, posteriors, ["–", NASTY, "b", " "], 0.01, 0.1, said, "tone.wav: b b")


def surprisal() -> Picture:
    return Surprisal([NASTY, "a b", "⏎", ""], [0.1, 3.0, 0.2, 1.0], title="so & so")


def ink() -> Picture:
    cross = [np.array([[0.0, 2.0], [4.0, 2.0]]), np.array([[2.0, 0.0], [2.0, 4.0]])]
    return InkPicture([cross, [stroke * 2 for stroke in cross], [np.array([[1.0, 1.0]])]], ["t", NASTY, "dot"])


def signal() -> Picture:
    frames = np.stack([np.arange(9.0), np.ones(9)], 1)
    return SignalWeights(frames, np.linspace(0, 1, 9), "up & 1", "Attention", [NASTY, "y"])


def caption() -> Picture:
    image = (np.indices((32, 32)).sum(0)[..., None] * 4 + np.array([0, 40, 5])).clip(0, 255).astype(np.uint8)
    weights = np.zeros((3, 2, 2))
    weights[0], weights[1, 0, 1], weights[2, 1, 0] = 0.25, 1.0, 0.6
    one = CaptionMap(image, ["a", NASTY, "dot"], weights, notes=["said"], boxes=[(0.0, 0.0, 0.5, 0.5)])
    return CaptionPage([one, one], "Worst captions", "two of them")


def hops() -> Picture:
    facts = [f"Mary {NASTY} went.", "Bill ran.", "Ann slept."]
    return HopMap(facts, [[0.9, 0.06, 0.04], [0.2, 0.8, 0.0]], "Where is Mary?", "hall", needed=[1])


def confusion() -> Picture:
    return ConfusionMatrix([[9, 1], [2, 8]], ["no", NASTY])


def word_weights() -> Picture:
    return WordWeights(["not", NASTY], {"attention": [0.25, 1.0], "gradient": [1.0, 0.5]}, "negative 0.97")


def heat_maps() -> Picture:
    one = ShadeTable(["a", NASTY, "c"], ["X", "Y"], [[1.0, 0.25, 0.0], [0.0, 0.75, 1.0]], "Tags <of> words")
    return HeatMaps([one, ShadeTable(["X", "Y"], ["X", "Y"], [[0.5, 0.5], [0.125, 0.875]], "Next")])


KINDS: dict[str, Callable[[], Picture]] = {
    make.__name__: make
    for make in (
        alignment, long_alignment, gate, flow, fan, spectrogram, surprisal, ink, signal, caption, hops, confusion,
        word_weights, heat_maps,
    )
}  # fmt: skip
_made: dict[str, Picture] = {}


@pytest.fixture(params=sorted(KINDS))
def picture(request: pytest.FixtureRequest) -> Picture:
    """Each kind in turn."""
    return _made.setdefault(request.param, KINDS[request.param]())


@pytest.fixture
def picture_of() -> Callable[[str], Picture]:
    """A picture by the name of its kind."""
    return lambda name: _made.setdefault(name, KINDS[name]())
