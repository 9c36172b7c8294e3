"""Recipes for transcription: their keys and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from harken.data.audio.config import AugmentConfig, FeatureConfig
from harken.data.io.keys import DataTable
from harken.errors import UserError
from harken.models.config import EncoderConfig
from harken.models.convolutional.config import FrontConfig
from harken.models.recurrent.config import RecurrentEncoderConfig
from harken.paths import PathStr
from harken.recipe import TEXT_NAMES, Recipe, TableColumn
from harken.search.config import CtcSearchConfig

Range = tuple[float, float]


class TranscribeDataConfig(DataTable):
    """The source of the recordings and their texts: generated speech, tables of files, or the spoken digits."""

    older: ClassVar[Mapping[str, str]] = {"audio": "audio_column", "text": "text_column", "speaker": "speaker_column"}

    origins = ("corpus", "train", "dir")

    corpus: Literal["tones"] | None = Field(
        None, description="a generated corpus: synthetic speech, one sound per letter"
    )
    train: PathStr | None = Field(None, description="CSV, TSV or JSONL table of recordings and their texts")
    valid: PathStr | None = Field(None, description="the same for validation; default: held out from training")
    test: PathStr | None = Field(None, description="the same for testing")
    audio_column: str = Field("audio", description="column of the audio paths, relative to the table")
    text_column: str = Field("text", description="column of the texts")
    speaker_column: str | None = Field(
        None, description="column of the speaker: no speaker is in both training and held-out data"
    )
    dir: PathStr | None = Field(
        None, description="folder of the spoken digits, with train.npz.xz, concatenated to strings"
    )

    name: str | None = Field(None, description="name of the corpus in reports")
    symbols: Literal["character", "word"] = Field("character", description="output symbols")
    lowercase: bool = Field(False, description="whether to lower-case the texts of tables")
    size: int = Field(
        2000, ge=1, description="strings per epoch of generated or concatenated data; new ones in each epoch"
    )
    valid_size: int = Field(
        200, ge=1, description="validation strings; of a table without data.valid, the rows held out"
    )
    test_size: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)] = Field(
        300,
        description=(
            "test strings of generated or concatenated data; of a table without data.test a share below 1 of its rows,"
            " which are held out: none by default"
        ),
    )
    seed: int = Field(1, ge=0, description="seed of the generated data and of the held-out split")

    digits: Literal["symbols", "words"] = Field("symbols", description='spoken digits: "31", or "three one"')
    valid_takes: list[int] = Field([22, 23, 24], description="spoken digits: takes for validation")
    test_takes: list[int] = Field([25, 26, 27, 28, 29], description="spoken digits: takes for testing")
    shortest: int = Field(3, ge=1, description="spoken digits: shortest string")
    longest: int = Field(7, ge=1, description="spoken digits: longest string")
    silence: Range = Field((0.05, 0.4), description="spoken digits: range of the pause between digits, in seconds")
    ends: Range = Field(
        (0.1, 0.5), description="spoken digits: seconds of silence before the first and after the last digit"
    )
    level_db: float = Field(
        3.0, ge=0, description="spoken digits: equalise the level of the digits of a string, up to this many decibels"
    )
    clip: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="spoken digits: trim up to this share off either end of a digit, in training only",
    )
    noise_db: Range = Field(
        (10.0, 30.0), description="generated and concatenated data: range of the signal-to-noise ratio in decibels"
    )

    @model_validator(mode="after")
    def _ranges_are_in_order(self) -> TranscribeDataConfig:
        for key in ("silence", "ends", "noise_db"):
            low, high = getattr(self, key)
            if low > high or (key != "noise_db" and low < 0):
                raise ValueError(f"data.{key} [{low:g}, {high:g}] is no range; write the smaller number first")
        if self.test_size < 1 and not self.train:
            raise ValueError(f"data.test_size {self.test_size:g} is a share of a table; give a number of strings")
        if self.shortest > self.longest:
            raise ValueError(f"data.shortest {self.shortest} is above data.longest {self.longest}; swap them")
        shared = set(self.valid_takes) & set(self.test_takes)
        if shared:
            raise ValueError(f"take {min(shared)} is in data.valid_takes and in data.test_takes; keep it in one")
        return self


class TranscribeRecipe(Recipe):
    """Recipe for transcription."""

    input_column = TableColumn("audio_column", ("audio",), "recording", ("audio", "path", "file"))
    target_column = TableColumn("text_column", ("text", "label"), "text", TEXT_NAMES)

    task: Literal["transcribe"] = Field("transcribe", description="the job")
    data: TranscribeDataConfig = Field(description="where the recordings come from")
    features: FeatureConfig = Field(FeatureConfig.model_validate({}), description="acoustic features")
    augment: AugmentConfig = Field(
        AugmentConfig.model_validate({}), description="augmentation of the training recordings"
    )
    front: FrontConfig = Field(FrontConfig.model_validate({}), description="convolutions before the encoder")
    model: EncoderConfig = Field(
        RecurrentEncoderConfig.model_validate({}), description="the encoder; architecture chooses it"
    )
    search: CtcSearchConfig = Field(CtcSearchConfig.model_validate({}), description="CTC decoding")

    @classmethod
    def recognise(cls, path: Path) -> tuple[str, dict[str, Any]] | None:
        return ("the spoken digits", {"dir": str(path)}) if (path / "train.npz.xz").is_file() else None

    def require_data(self, origin: str) -> None:
        """The recipe for spoken digits leaves the folder to the user."""
        if not (self.data.corpus or self.data.train or self.data.dir):
            raise UserError(
                f"{origin} does not say where its data is: add --set data.dir=DIR (a folder with train.npz.xz of the "
                "spoken digits), or set data.train to a table with columns audio and text"
            )

    @property
    def step_seconds(self) -> float:
        """The seconds from one step of the encoder to the next."""
        return self.features.step_seconds * self.front.stride**self.front.layers


RECIPE = TranscribeRecipe
