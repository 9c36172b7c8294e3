"""The `[features]` and `[augment]` tables of a recipe that reads sound.

>>> FeatureConfig().channels, FeatureConfig().step_seconds
(120, 0.03)
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class FeatureConfig(BaseModel):
    """How a recording becomes frames."""

    model_config = ConfigDict(extra="forbid")

    rate: int = Field(8000, ge=1000, description="samples a second; recordings with another rate are resampled")
    window: float = Field(25.0, gt=0, description="milliseconds that a frame sees")
    hop: float = Field(10.0, gt=0, description="milliseconds from one frame to the next")
    mels: int = Field(40, ge=1, description="bands of the filterbank")
    low: float = Field(60.0, ge=0, description="lowest frequency in Hz")
    high: float | None = Field(None, gt=0, description="highest frequency in Hz; not given: half of the rate")
    range_db: float | None = Field(
        70.0, gt=0, description="energies are relative to the recording's loudest, and cut so far below; none: absolute"
    )
    deltas: int = Field(0, ge=0, le=2, description="1 adds differences over time, 2 also theirs")
    normalise: Literal["utterance", "training", "none"] = Field(
        "training",
        description="bring every band to mean 0 and deviation 1, of the training set or of its own recording",
    )
    stack: int = Field(3, ge=1, description="frames stacked into one ...")
    skip: int = Field(3, ge=1, description="... of which one in so many is kept")

    @model_validator(mode="after")
    def _bands_fit(self) -> FeatureConfig:
        top = self.high or self.rate / 2
        if not self.low < top <= self.rate / 2:
            raise ValueError(
                f"features.low {self.low:g} and features.high {top:g} must rise and stay within half of "
                f"features.rate {self.rate}"
            )
        return self

    @property
    def window_samples(self) -> int:
        """Samples that a frame sees."""
        return max(2, round(self.rate * self.window / 1000))

    @property
    def hop_samples(self) -> int:
        """Samples from one frame to the next."""
        return max(1, round(self.rate * self.hop / 1000))

    @property
    def fft(self) -> int:
        """N, the power of two that holds a window."""
        return int(1 << (self.window_samples - 1).bit_length())

    @property
    def channels(self) -> int:
        """C, the numbers in a frame as the network reads it."""
        return self.mels * (1 + self.deltas) * self.stack

    @property
    def step_seconds(self) -> float:
        """From one stacked frame to the next."""
        return self.skip * self.hop_samples / self.rate


class AugmentConfig(BaseModel):
    """What is done to recordings in training, drawn anew in every epoch."""

    model_config = ConfigDict(extra="forbid")

    ease: float = Field(
        0.0, ge=0, description="epochs over which the share of recordings that are changed at all rises from 0 to 1"
    )
    gain_db: float = Field(0.0, ge=0, description="louder or softer by up to so many decibels")
    noise_db: tuple[float, float] | None = Field(
        None, description="add white or pink noise, so many decibels below the sound, drawn between the two"
    )
    speed: float = Field(
        0.0, ge=0, lt=0.9, description="play faster or slower by up to this share: pitch and formants move as well"
    )
    stretch: float = Field(0.0, ge=0, lt=0.9, description="faster or slower by up to this share, at the same pitch")
    equaliser_db: float = Field(
        0.0,
        ge=0,
        description="lift or lower the bands by a smooth curve of this deviation: another microphone",
    )
    frequency_masks: int = Field(0, ge=0, description="bands of frequencies blanked out (SpecAugment)")
    frequency_width: int = Field(6, ge=1, description="the most filters in one of them")
    time_masks: int = Field(0, ge=0, description="stretches of time blanked out")
    time_width: int = Field(10, ge=1, description="the most frames in one of them, before frames are stacked")

    def share(self, epoch: int) -> float:
        """How many of the recordings are changed in an epoch: plain ones come first, or CTC finds nothing but blanks.

        >>> [AugmentConfig(ease=4).share(epoch) for epoch in (0, 1, 4, 9)], AugmentConfig().share(0)
        ([0.0, 0.25, 1.0, 1.0], 1.0)
        """
        return min(1.0, epoch / self.ease) if self.ease else 1.0

    @model_validator(mode="after")
    def _noise_rises(self) -> AugmentConfig:
        if self.noise_db is not None and self.noise_db[0] > self.noise_db[1]:
            raise ValueError(f"augment.noise_db {list(self.noise_db)} falls; write the smaller number first")
        return self
