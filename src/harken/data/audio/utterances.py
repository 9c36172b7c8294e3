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

from harken.data.audio.recordings import read_audio, resample, sound_of
from harken.data.io.in_memory import refuse_gaps
from harken.data.io.table import read_table
from harken.errors import UserError
from harken.files import expand_user


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


def read_recordings(table: str | Path, audio: str, text: str, rate: int, speaker: str | None = None) -> Recordings:
    """The recordings that a CSV, TSV or JSONL file names in its column `audio`, with the texts in its column `text`.

    Paths are relative to the table. Every recording is brought to `rate`. `speaker` names a column of its own.

    Raises:
        UserError: the table or a recording cannot be read; the row is named.
    """
    table = Path(table)
    columns = read_table(table, [audio, text, *([speaker] if speaker else [])], header=None)
    if not columns[audio]:
        raise UserError(f"{table} has no rows; give at least one recording")
    if None in columns[text]:  # an empty text is silence, but null in JSON is a text that is missing
        row = columns[text].index(None) + 1
        raise UserError(f"{table}, row {row} has no text in its column {text!r}; write what is said, or drop it")
    texts = [" ".join(str(value).split()) for value in columns[text]]
    sounds = []
    for number, name in enumerate(columns[audio], start=1):
        if not str(name).strip():
            raise UserError(f"{table}, row {number} has no path in its column {audio!r}; name a recording")
        try:
            samples, own_rate = read_audio(table.parent / expand_user(str(name)))
        except UserError as problem:
            raise UserError(f"{table}, row {number}: {problem}") from None
        sounds.append(resample(samples, own_rate, rate))
    speakers = [str(name).strip() for name in columns[speaker]] if speaker else None
    return Recordings(sounds, texts, [str(name) for name in columns[audio]], speakers)


def table_recordings(
    table: Mapping[str, list[Any]], audio: str, text: str, rate: int, speaker: str | None = None
) -> Recordings:
    """The recordings of a table in memory, as `harken.data.audio.recordings.sound_of` reads its cells; arrays without
    a rate have `rate` already.

    Raises:
        UserError: an empty cell, or one that is no recording.
    """
    columns = read_table(table, [audio, text, *([speaker] if speaker else [])])
    refuse_gaps(columns, columns)
    sounds, names = [], []
    for row, cell in enumerate(columns[audio], start=1):
        samples, own_rate = sound_of(cell, f"the table, row {row}")
        sounds.append(samples if own_rate is None else resample(samples, own_rate, rate))
        names.append(str(cell) if isinstance(cell, str | Path) else f"row {row}")
    texts = [" ".join(str(value).split()) for value in columns[text]]
    return Recordings(sounds, texts, names, [str(name).strip() for name in columns[speaker]] if speaker else None)
