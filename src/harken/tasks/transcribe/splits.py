"""The recordings of a recipe: training, validation and test, read, made or mixed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from harken.data.audio.spoken_digits import MixConfig, MixedDigits, read_digits
from harken.data.audio.utterances import Recordings, Utterances, read_recordings
from harken.data.splits import content_key, digest, normalise, split_groups, without_held_out
from harken.data.synthetic.tone_speech import ToneSpeech
from harken.errors import UserError
from harken.tasks.splits import find_split
from harken.tasks.transcribe.recipe import TranscribeDataConfig, TranscribeRecipe


@dataclass(frozen=True)
class Splits:
    """What a corpus has."""

    name: str
    parts: dict[str, Utterances]  # train, valid, and test where there is one
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> training recordings left out

    def digests(self) -> dict[str, str]:
        """A digest of every split (`harken.data.splits`): recordings with their texts; the texts of what is made."""
        return {
            name: digest(zip(part.sounds, part.written, strict=True) if isinstance(part, Recordings) else part.texts())
            for name, part in self.parts.items()
        }

    def find(self, split: str | None) -> Utterances:
        """One of them, "test" where None; raises UserError where it is not there."""
        return find_split(self.name, self.parts, split, remedy="a table")


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
    sizes = {"train": data.size, "valid": data.valid_size, "test": data.test_size}
    return {
        name: ToneSpeech(size, 3 * data.seed + number, rate, data.noise_db)
        for number, (name, size) in enumerate(sizes.items())
    }


def _digits(recipe: TranscribeRecipe) -> dict[str, Utterances]:
    data = recipe.data
    digits = read_digits(str(data.dir))
    kept = {*data.valid_takes, *data.test_takes}
    takes = {
        "train": [take for take in sorted(set(digits.take.tolist())) if take not in kept],
        "valid": data.valid_takes,
        "test": data.test_takes,
    }
    sizes = {"train": data.size, "valid": data.valid_size, "test": data.test_size}
    mix = MixConfig(
        data.shortest, data.longest, data.silence, data.ends, data.noise_db, data.level_db, words=data.digits == "words"
    )
    mixes = {"train": replace(mix, clip=data.clip), "valid": mix, "test": mix}
    return {
        name: MixedDigits(digits, takes[name], mixes[name], recipe.features.rate, size, 3 * data.seed + number)
        for number, (name, size) in enumerate(sizes.items())
    }


def _tables(recipe: TranscribeRecipe) -> Splits:
    """Tables of recordings; those of one speaker stay on one side where `data.speaker_column` names the column."""
    data = recipe.data
    train = read_split_table(recipe, str(data.train))
    held: dict[str, Recordings] = {}
    if data.valid:
        held["valid"] = read_split_table(recipe, data.valid)
    else:
        if len(train) < 10:
            raise UserError(
                f"{data.train} has {len(train)} recordings, too few to split some off; give data.valid, or ten or more"
            )
        keys = [
            normalise(f"speaker {speaker}") if speaker else content_key(sound)
            for sound, speaker in zip(train.sounds, train.speakers, strict=True)
        ]
        rows = split_groups(keys, {"valid": (0.1, data.valid_size)}, data.seed)
        held["valid"], train = train.choose(rows["valid"]), train.choose(rows["train"])
    if data.test:
        held["test"] = read_split_table(recipe, data.test)
    numbered = [list(enumerate(part.sounds)) for part in (train, *held.values())]
    kept, skipped = without_held_out(numbered[0], numbered[1:], lambda row: content_key(row[1]))
    train = train.choose([number for number, _ in kept])
    return Splits(data.name or Path(str(data.train)).stem, {"train": train, **held}, skipped)


def read_split_table(recipe: TranscribeRecipe, path: str | Path) -> Recordings:
    """One table, with the columns and the case that the recipe names."""
    data: TranscribeDataConfig = recipe.data
    found = read_recordings(path, data.audio_column, data.text_column, recipe.features.rate, data.speaker_column)
    if data.lowercase:
        found.written = [text.lower() for text in found.written]
    return found
