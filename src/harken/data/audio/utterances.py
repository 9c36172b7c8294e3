"""Sound with its text: what a transcriber is trained and tested on, wherever it comes from.

A set that is mixed as it is read (`spoken_digits.py`, `tone_speech.py`) has other utterances in every epoch, each a
function of (seed, epoch, index) alone; a set of recordings is the same in all.

>>> pair = Recordings([np.zeros(80, np.float32), np.ones(40, np.float32)], ["a", "b c"], ["1.wav", "2.wav"])
>>> len(pair), pair.text(7, 1), pair.length(7, 1), pair.name(1)
(2, 'b c', 40, '2.wav')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.audio.recordings import resample, sound_of
from harken.data.io.table import read_table
from harken.errors import UserError


class Utterances(ABC):
    """One split, at one sampling rate."""

    @abstractmethod
    def __len__(self) -> int:
        """Utterances of an epoch."""

    @abstractmethod
    def text(self, epoch: int, index: int) -> str:
        """The text that is said."""

    @abstractmethod
    def samples(self, epoch: int, index: int) -> np.ndarray:
        """(n,) float32."""

    @abstractmethod
    def length(self, epoch: int, index: int) -> int:
        """n, without making the samples."""

    @abstractmethod
    def name(self, index: int) -> str:
        """The name of an utterance in messages."""

    def texts(self, epoch: int = 0) -> list[str]:
        """All texts of an epoch."""
        return [self.text(epoch, index) for index in range(len(self))]


class Recordings(Utterances):
    """Utterances that were read from files."""

    def __init__(
        self,
        sounds: Sequence[np.ndarray],
        texts: Sequence[str],
        names: Sequence[str],
        speakers: Sequence[str] | None = None,
    ) -> None:
        """
        Args:
            speakers: who speaks in each, where that is known; "" where not.
        """
        self.sounds, self.written, self.names = list(sounds), list(texts), list(names)
        self.speakers = [""] * len(self.sounds) if speakers is None else list(speakers)

    def __len__(self) -> int:
        return len(self.sounds)

    def text(self, epoch: int, index: int) -> str:
        return self.written[index]

    def samples(self, epoch: int, index: int) -> np.ndarray:
        return self.sounds[index]

    def length(self, epoch: int, index: int) -> int:
        return len(self.sounds[index])

    def name(self, index: int) -> str:
        return self.names[index]

    def rows(self) -> list[tuple[np.ndarray, str, str, str]]:
        """Sound, text, name and speaker of every recording."""
        return list(zip(self.sounds, self.written, self.names, self.speakers, strict=True))

    @classmethod
    def of(cls, rows: Sequence[tuple[np.ndarray, str, str, str]]) -> Recordings:
        """The rows that `rows` gave, or some of them."""
        return cls(*(list(column) for column in zip(*rows, strict=True)))


def read_recordings(
    table: str | Path | Mapping[str, list[Any]], audio: str, text: str, rate: int, speaker: str | None = None
) -> Recordings:
    """The recordings that a table has in its column `audio`, with the texts in its column `text`.

    Every recording is brought to `rate`; `speaker` names a column of its own.

    Args:
        table: a CSV, TSV or JSONL file, to which paths are relative; or columns in memory, whose cells may also be
            sounds (`harken.data.audio.recordings.sound_of`): arrays have `rate` already.

    Raises:
        UserError: the table or a recording cannot be read; the row is named.
    """
    is_file = isinstance(table, str | Path)
    source, name = (Path(table), str(table)) if is_file else (table, "the table")  # type: ignore[arg-type]
    columns = read_table(source, [audio, text, *([speaker] if speaker else [])], header=None)
    if not columns[audio]:
        raise UserError(f"{name} has no rows; give at least one recording")
    if None in columns[text]:  # an empty text is silence, but null in JSON is a text that is missing
        row = columns[text].index(None) + 1
        raise UserError(f"{name}, row {row} has no text in its column {text!r}; write what is said, or drop it")
    texts = [" ".join(str(value).split()) for value in columns[text]]
    sounds, names = [], []
    for number, cell in enumerate(columns[audio], start=1):
        where = f"{name}, row {number}"
        if cell is None or not str(cell).strip():
            raise UserError(f"{where} has no path in its column {audio!r}; name a recording")
        samples, own_rate = sound_of(str(cell) if is_file else cell, where, source.parent if is_file else Path())  # type: ignore[union-attr]
        sounds.append(samples if own_rate is None else resample(samples, own_rate, rate))
        names.append(str(cell) if isinstance(cell, str | Path) else f"row {number}")
    speakers = [str(name).strip() for name in columns[speaker]] if speaker else None
    return Recordings(sounds, texts, names, speakers)
