"""The recordings of a recipe: training, validation and test, read, made or mixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.audio.spoken_digits import MixConfig, MixedDigits, read_digits
from harken.data.audio.utterances import Recordings, Utterances, read_recordings
from harken.data.parts import divide
from harken.data.prepared.scan import RowKind
from harken.data.splits import Size, content_key, digest, normalise
from harken.data.synthetic.tone_speech import ToneSpeech
from harken.errors import UserError
from harken.tasks.transcribe.recipe import TranscribeDataConfig, TranscribeRecipe


@dataclass(frozen=True)
class Splits:
    """The splits of a corpus, and the number of recordings left out."""

    name: str
    parts: dict[str, Utterances]  # train, valid, and test where there is one
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> training recordings left out

    def digests(self) -> dict[str, str]:
        """A digest of every split (`harken.data.splits`): recordings with their texts; the texts of what is made."""
        return {
            name: digest(zip(part.sounds, part.written, strict=True) if isinstance(part, Recordings) else part.texts())
            for name, part in self.parts.items()
        }


def read_splits(recipe: TranscribeRecipe) -> Splits:
    """Everything that the `[data]` table names.

    Raises:
        UserError: what cannot be read, or is not there.
    """
    data = recipe.data
    if data.corpus:
        return Splits(data.name or "tones", _tones(recipe))
    if data.dir:
        return Splits(data.name or "spoken digits", _digits(recipe))
    return _tables(recipe)


def _tones(recipe: TranscribeRecipe) -> dict[str, Utterances]:
    data, rate = recipe.data, recipe.features.rate
    sizes = {"train": data.size, "valid": data.valid_size, "test": int(data.test_size)}
    return {
        name: ToneSpeech(size, 3 * data.seed + number, rate, data.noise_db)
        for number, (name, size) in enumerate(sizes.items())
    }


def _digits(recipe: TranscribeRecipe) -> dict[str, Utterances]:
    data = recipe.data
    digits = read_digits(str(data.dir))
    held_out = {*data.valid_takes, *data.test_takes}
    takes = {
        "train": [take for take in sorted(set(digits.take.tolist())) if take not in held_out],
        "valid": data.valid_takes,
        "test": data.test_takes,
    }
    sizes = {"train": data.size, "valid": data.valid_size, "test": int(data.test_size)}
    mix = MixConfig(
        data.shortest, data.longest, data.silence, data.ends, data.noise_db, data.level_db, words=data.digits == "words"
    )
    mixes = {"train": replace(mix, clip=data.clip), "valid": mix, "test": mix}
    return {
        name: MixedDigits(digits, takes[name], mixes[name], recipe.features.rate, size, 3 * data.seed + number)
        for number, (name, size) in enumerate(sizes.items())
    }


def _tables(recipe: TranscribeRecipe) -> Splits:
    """Tables of recordings."""
    files = {"train": recipe.data.train, "valid": recipe.data.valid, "test": recipe.data.test}
    return split_recordings(recipe, {part: read_split_table(recipe, path) for part, path in files.items() if path})


def split_recordings(recipe: TranscribeRecipe, parts_given: Mapping[str, Recordings]) -> Splits:
    """The parts that are given and a validation part; those of one speaker stay on one side where
    `data.speaker_column` names the column.

    Raises:
        UserError: too few recordings.
    """
    data = recipe.data
    given = {part: recordings.rows() for part, recordings in parts_given.items()}
    train = given.pop("train")
    if not data.valid and len(train) < 10:
        raise UserError(
            f"{data.train} has {len(train)} recordings, too few to split some off; give data.valid, or ten or more"
        )
    sizes: dict[str, Size] = {} if data.valid else {"valid": (0.1, data.valid_size)}
    if not data.test and data.test_size < 1:
        sizes["test"] = data.test_size
    parts = divide(RECORDINGS, train, sizes, data.seed, [*chain(*given.values())])
    every = {"train": parts.train, **parts.held, **given}
    name = data.name or Path(str(data.train)).stem
    return Splits(name, {part: Recordings.of(rows) for part, rows in every.items()}, parts.skipped)


def _with_speakers(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, str]]:
    for row in rows:
        yield row, normalise(f"speaker {row[3]}") if row[3] else content_key(row[0])


RECORDINGS = RowKind("recordings", lambda *row: row, lambda row: content_key(row[0]), _with_speakers)


def read_split_table(recipe: TranscribeRecipe, table: str | Path | Mapping[str, list[Any]]) -> Recordings:
    """One table, with the columns and the case that the recipe names."""
    data: TranscribeDataConfig = recipe.data
    recordings = read_recordings(table, data.audio_column, data.text_column, recipe.features.rate, data.speaker_column)
    if data.lowercase:
        recordings.written = [text.lower() for text in recordings.written]
    return recordings
