"""Pictures of sequences: a signal with weights, the surprisal of a text's tokens, what a transcriber heard.

>>> picture = SignalWeights(np.array([[0.0], [1.0], [2.0]]), [0.0, 0.4, 1.0], "up 0.99", "Attention", ["x"])
>>> print(picture.to_terminal(width=40, color=False))
Attention: up 0.99; the largest is 1
x        ▁▅█
weights  ·▒█
The deeper the shade behind the curves,
the more the frame counts.
>>> print(Surprisal(["the", "cat", "flies"], [0.5, 1.0, 4.0]).to_terminal(width=40, color=False))
the    ███▍                         0.50
cat    ██████▊                      1.00
flies  ███████████████████████████  4.00
A high bar is a token that the model did
not expect. Mean 1.83 nats, perplexity
6.25
>>> energies, posteriors = np.random.rand(8, 30), np.array([[0.1, 0.9], [0.9, 0.1]])
>>> picture = SpectrogramPicture(energies, posteriors, ["–", "a"], 0.01, 0.15, [("a", 0.0, 0.15, 0.9)], "a.wav: a")
>>> picture.names, round(picture.seconds, 2)
(['a', '–'], 0.3)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Raster, Strips, Tokens
from harken.inspection.pictures.inputs import checked_weights, piece_names
from harken.inspection.pictures.picture import Picture

MOST_CHANNELS = 12  # that are drawn
LEAST_NATS = 2.0  # that a full bar means at least: a text without surprises looks like one
QUIETEST = 5.0  # per cent of the cells that are drawn as nothing, so that noise does not grey the whole


class SignalWeights(Picture):
    """The frames that a model went by in a signal: curves (T, C), the weight of every frame as shade behind them."""

    caption = "The deeper the shade behind the curves, the more the frame counts."

    def __init__(
        self, frames: npt.ArrayLike, weights: npt.ArrayLike, label: str, title: str, names: Sequence[str] | None = None
    ) -> None:
        """
        Raises:
            UserError: weights that do not fit the frames, or are no weights.
        """
        self.frames = np.asarray(frames, dtype=np.float64)
        if self.frames.ndim != 2 or not self.frames.size:
            raise UserError(f"the signal has shape {self.frames.shape}; give (time, channels) with at least one frame")
        self.weights = checked_weights(weights, (len(self.frames),), "frames")
        self.title = f"{title}: {label}; the largest is 1"
        channels = self.frames.shape[1]
        self.names = list(names or [f"channel {number + 1}" for number in range(channels)])[:MOST_CHANNELS]
        self.frames = self.frames[:, :MOST_CHANNELS]

    def figures(self) -> list[Figure]:
        return [Figure(self.title, [Strips("", "frame", self.names, self.frames, self.weights)])]


class Surprisal(Picture):
    """How surprising every token of a text was to a language model: -log p of the token given all before it, in nats.

    Tokens stand in the order of the text with a bar above each. The perplexity is the exponential of the mean of the
    bars. Shannon (1951), "Prediction and Entropy of Printed English"; Hale (2001), on surprisal and reading.
    """

    caption = "A high bar is a token that the model did not expect."

    def __init__(self, tokens: Sequence[str], nats: Sequence[float], title: str = "Surprisal") -> None:
        """
        Raises:
            UserError: not one number for every token, or numbers that are not finite.
        """
        if len(tokens) != len(nats):
            raise UserError(f"there are {len(tokens)} tokens and {len(nats)} numbers; give one for each")
        if not tokens or not all(math.isfinite(value) for value in nats):
            raise UserError("surprisal needs at least one token and a finite number for each")
        self.tokens, self.nats, self.title = [str(token) for token in tokens], [float(value) for value in nats], title
        self.names = [shown(name) for name in piece_names(self.tokens)]

    @property
    def heading(self) -> str:
        """The title and the token that was expected least."""
        most = max(range(len(self.nats)), key=self.nats.__getitem__)
        return f"{self.title}: “{self.names[most]}” was expected least ({self.nats[most]:.1f} nats)"

    @property
    def summary(self) -> str:
        """The mean in words."""
        mean = sum(self.nats) / len(self.nats)
        return f"Mean {mean:.2f} nats, perplexity {math.exp(min(mean, 700)):.2f}"

    def panel(self) -> Tokens:
        """Bars over tokens."""
        high = max(LEAST_NATS, *self.nats)
        return Tokens("", self.names, [max(nats, 0.0) for nats in self.nats], "nats", high)

    def figures(self) -> list[Figure]:
        panel = self.panel()
        return [Figure(self.heading, [panel], f"{self.summary}; a full bar is {panel.high:.1f} nats")]

    def terminal_figures(self) -> list[Figure]:
        return [Figure("", [self.panel()], self.summary)]


def shown(token: str) -> str:
    """A token that can be seen: a space as ␣."""
    return token.replace(" ", "␣") or "∅"


class SpectrogramPicture(Picture):
    """The hearing of a transcriber: the spectrogram, and below it the CTC posterior of each symbol over time.

    Frequencies go upwards, time to the right. A symbol of the text has a row, in the order in which they first occur,
    and the blank of CTC the last one; all rows are shaded from 0 to 1.
    """

    caption = "Above, the energy in every frequency band; below, the probability of every symbol at the same time."

    def __init__(
        self,
        energies: np.ndarray,
        posteriors: np.ndarray,
        names: Sequence[str],
        frame_seconds: float,
        step_seconds: float,
        said: Sequence[tuple[str, float, float, float]],
        title: str,
    ) -> None:
        """
        Args:
            energies: (bands, frames) logarithms, the lowest band first.
            posteriors: (V + 1, steps), the blank first.
            names: of the symbols, the blank's first.
            said: (symbol, start, end, confidence) of the text, in seconds.

        Raises:
            UserError: arrays that do not fit.
        """
        if energies.ndim != 2 or posteriors.ndim != 2 or 0 in energies.shape or len(names) != len(posteriors):
            raise UserError(
                f"energies {energies.shape} and posteriors {posteriors.shape} do not fit {len(names)} names; pass "
                "bands x frames and symbols x steps"
            )
        self.title, self.said = title, list(said)
        low, high = np.percentile(energies, [QUIETEST, 99.5])
        self.shades = np.clip((energies - low) / max(float(high - low), 1e-9), 0, 1)  # (bands, frames)
        self.seconds = max(energies.shape[1] * frame_seconds, posteriors.shape[1] * step_seconds)
        numbers = {name: number for number, name in enumerate(names)}
        occurring = dict.fromkeys(name for name, *_ in self.said)
        shown = [*(numbers[name] for name in occurring if name in numbers), 0]
        self.names = [visible(names[number]) for number in shown]
        self.posteriors = posteriors[shown]  # (rows, steps)
        self.steps = frame_seconds, step_seconds

    def figures(self) -> list[Figure]:
        limits = 0.0, self.seconds
        labels = [((start + end) / 2, visible(name)) for name, start, end, _ in self.said]
        sound = Raster("", "", "frequency band", _to(self.shades, self.seconds / self.steps[0]), limits, labels=labels)
        rows = _to(self.posteriors, self.seconds / self.steps[1])
        return [Figure(self.title, [sound, Raster("", "seconds", "symbol", rows, limits, self.names)], across=1)]

    def page_tail(self) -> str:
        """When each symbol was said."""
        from harken.inspection.figure.page import value_table

        rows = [[visible(name), f"{a:.2f} s", f"{b:.2f} s", f"{sure:.3f}"] for name, a, b, sure in self.said]
        return f"<h2>Symbols</h2>{value_table(['symbol', 'from', 'to', 'confidence'], rows)}" if rows else ""


def visible(name: str) -> str:
    """A space as a sign that can be seen."""
    return "␣" if name == " " else name


def _to(values: np.ndarray, columns: float) -> np.ndarray:
    """As many columns as the whole time has: nothing follows the last."""
    missing = max(0, round(columns) - values.shape[1])
    return np.pad(values, ((0, 0), (0, missing)))
