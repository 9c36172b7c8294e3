"""What a recipe for transcription may say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.data.audio.config import AugmentConfig, FeatureConfig
from harken.errors import UserError
from harken.models.config import EncoderConfig
from harken.models.convolutional.subsampling_config import FrontConfig
from harken.recipe import Recipe
from harken.search.config_ctc import CtcSearchConfig
from harken.training.config import TrainConfig

Range = tuple[float, float]


class TranscribeDataConfig(BaseModel):
    """Where the recordings and their texts come from: made by harken, tables of files, or the spoken digits."""

    model_config = ConfigDict(extra="forbid")

    corpus: Literal["tones"] | None = Field(None, description="a built-in corpus: made speech, one sound a letter")
    train: str | None = Field(None, description="CSV, TSV or JSONL file that names recordings and says what is in them")
    valid: str | None = Field(None, description="likewise, to validate on; split off from training if absent")
    test: str | None = Field(None, description="likewise, to test on")
    audio: str = Field("audio", description="the column with the paths, relative to the table")
    text: str = Field("text", description="the column with the texts")
    dir: str | None = Field(None, description="folder of the spoken digits, with train.npz.xz, mixed to strings")

    name: str | None = Field(None, description="what to call the corpus in reports")
    symbols: Literal["character", "word"] = Field("character", description="what is written one after another")
    lowercase: bool = Field(False, description="whether to lower-case the texts of tables")
    size: int = Field(2000, ge=1, description="strings of an epoch, where they are made or mixed: new ones in each")
    valid_size: int = Field(
        200, ge=1, description="strings to validate on; of a table without data.valid, the rows split off"
    )
    test_size: int = Field(300, ge=1, description="strings to test on, where they are made or mixed")
    seed: int = Field(1, ge=0, description="what is made, mixed and split off follows from it")

    digits: Literal["symbols", "words"] = Field("symbols", description='spoken digits: "31", or "three one"')
    valid_takes: list[int] = Field([22, 23, 24], description="spoken digits: recordings kept for validation ...")
    test_takes: list[int] = Field([25, 26, 27, 28, 29], description="... and for testing")
    shortest: int = Field(3, ge=1, description="spoken digits: the fewest in a string ...")
    longest: int = Field(7, ge=1, description="... and the most")
    silence: Range = Field((0.05, 0.4), description="spoken digits: seconds between two, from and to")
    ends: Range = Field((0.1, 0.5), description="spoken digits: seconds before the first and after the last")
    level_db: float = Field(
        3.0, ge=0, description="spoken digits: all of a string are as loud, give or take so many decibels"
    )
    clip: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="spoken digits: cut up to this share off either end of a digit, in training alone",
    )
    noise_db: Range = Field(
        (10.0, 30.0), description="made and mixed: decibels from the speech down to the noise over it"
    )

    @model_validator(mode="after")
    def _one_place(self) -> TranscribeDataConfig:
        given = [f"data.{key}" for key in ("corpus", "train", "dir") if getattr(self, key)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both given; keep one of them")
        for key in ("silence", "ends", "noise_db"):
            low, high = getattr(self, key)
            if low > high or (key != "noise_db" and low < 0):
                raise ValueError(f"data.{key} [{low:g}, {high:g}] is no range; write the smaller number first")
        if self.shortest > self.longest:
            raise ValueError(f"data.shortest {self.shortest} is above data.longest {self.longest}; swap them")
        shared = set(self.valid_takes) & set(self.test_takes)
        if shared:
            raise ValueError(f"take {min(shared)} is in data.valid_takes and in data.test_takes; keep it in one")
        return self


class TranscribeRecipe(Recipe):
    """All the sections of a recipe for transcription."""

    task: Literal["transcribe"] = Field("transcribe", description="the job the model learns")
    data: TranscribeDataConfig = Field(description="where the recordings come from")
    features: FeatureConfig = Field(FeatureConfig.model_validate({}), description="how a recording becomes frames")
    augment: AugmentConfig = Field(
        AugmentConfig.model_validate({}), description="what is done to recordings in training"
    )
    front: FrontConfig = Field(FrontConfig.model_validate({}), description="convolutions before the encoder")
    model: EncoderConfig = Field(description="the encoder; begin with architecture")
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")
    search: CtcSearchConfig = Field(CtcSearchConfig.model_validate({}), description="how a text is found")

    def require_data(self, origin: str) -> None:
        """The recipe for spoken digits leaves the folder to the user."""
        if not (self.data.corpus or self.data.train or self.data.dir):
            raise UserError(
                f"{origin} does not say where its data is: add --set data.dir=DIR (a folder with train.npz.xz of the "
                "spoken digits), or set data.train to a table with columns audio and text"
            )

    @property
    def step_seconds(self) -> float:
        """From one step of the encoder to the next."""
        return self.features.step_seconds * self.front.stride**self.front.layers


RECIPE = TranscribeRecipe
