"""Results of `transcribe`: a text, when each of its symbols was said, and how sure the model is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.tasks.results import Result
from harken.tasks.transcribe.interface import TranscribeOptions

if TYPE_CHECKING:
    from harken.inspection.pictures.sequences import SpectrogramPicture


MAX_COLUMNS = 400  # of a spectrogram that are sent


@dataclass(frozen=True)
class SpokenSymbol:
    """One symbol of a text, on the best path that CTC has for it."""

    name: str
    start: float  # seconds
    end: float
    confidence: float  # its highest probability in that time


@dataclass(frozen=True)
class Posteriors:
    """The probabilities of every symbol at every step."""

    values: np.ndarray  # (T, V + 1), rows sum to 1; column 0 is the blank
    names: list[str]  # (V + 1,) of the columns
    step_seconds: float

    @property
    def times(self) -> np.ndarray:
        """(T,) seconds at which each step begins."""
        return np.arange(len(self.values)) * self.step_seconds


@dataclass(frozen=True)
class Transcription(Result):
    """The transcription of one recording."""

    name: str
    text: str
    score: float  # log-probability of the text as the search ranks it
    seconds: float  # of sound
    symbols: list[SpokenSymbol]
    posteriors: Posteriors = field(repr=False)
    energies: np.ndarray = field(repr=False)  # (frames, mels), the logarithms that the model was shown
    frame_seconds: float

    @property
    def confidence(self) -> float:
        """The mean over the symbols; 1 where nothing is said."""
        return float(np.mean([symbol.confidence for symbol in self.symbols])) if self.symbols else 1.0

    def __str__(self) -> str:
        return self.text

    def figure(self) -> SpectrogramPicture:
        return self.picture()

    def to_json(self, options: TranscribeOptions) -> dict[str, Any]:
        values = self.to_dict()
        if options.posteriors:
            values["posteriors"] = {
                "names": self.posteriors.names,
                "step_seconds": self.posteriors.step_seconds,
                "values": np.round(self.posteriors.values, 4).tolist(),
            }
            every = max(1, -(-len(self.energies) // MAX_COLUMNS))
            values["spectrogram"] = {
                "frame_seconds": self.frame_seconds * every,
                "values": np.round(self.energies[::every], 3).tolist(),
            }
        return values

    def to_dict(self) -> dict[str, Any]:
        """Convert the transcription to values that JSON can hold."""
        symbols = [
            {
                "symbol": symbol.name,
                "start": round(symbol.start, 3),
                "end": round(symbol.end, 3),
                "confidence": round(symbol.confidence, 4),
            }
            for symbol in self.symbols
        ]
        return {
            "file": self.name,
            "text": self.text,
            "score": round(self.score, 4),
            "confidence": round(self.confidence, 4),
            "seconds": round(self.seconds, 3),
            "symbols": symbols,
        }

    def picture(self) -> SpectrogramPicture:
        """The spectrogram, with the probabilities of the symbols below it."""
        from harken.inspection.pictures.sequences import SpectrogramPicture

        spans = [(symbol.name, symbol.start, symbol.end, symbol.confidence) for symbol in self.symbols]
        title = f"{self.name}: {self.text}" if self.text else f"{self.name}: nothing was heard"
        posteriors = self.posteriors
        return SpectrogramPicture(
            self.energies.T, posteriors.values.T, posteriors.names, self.frame_seconds, posteriors.step_seconds,
            spans, title,
        )  # fmt: skip
