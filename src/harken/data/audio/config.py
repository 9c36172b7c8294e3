"""The `[features]` and `[augment]` tables of a recipe that reads sound.

>>> FeatureConfig().channels, FeatureConfig().step_seconds
(120, 0.03)
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class FeatureConfig(BaseModel):
    """Acoustic features."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate: int = Field(8000, ge=1000, description="sample rate in Hz; recordings with another rate are resampled")
    window: float = Field(25.0, gt=0, description="length of a frame in milliseconds")
    hop: float = Field(10.0, gt=0, description="hop between frames in milliseconds")
    mels: int = Field(40, ge=1, description="mel bands")
    low: float = Field(60.0, ge=0, description="lowest frequency in Hz")
    high: float | None = Field(None, gt=0, description="highest frequency in Hz; default: half of the sample rate")
    range_db: float | None = Field(
        70.0,
        gt=0,
        description=(
            "dynamic range in decibels below the loudest frame, where energies are clipped; none: absolute energies"
        ),
    )
    deltas: int = Field(0, ge=0, le=2, description="1 adds first differences over time, 2 also second differences")
    normalise: Literal["utterance", "training", "none"] = Field(
        "training",
        description="standardise every band to mean 0 and deviation 1, over the training set or per recording",
    )
    stack: int = Field(3, ge=1, description="consecutive frames stacked into one input")
    skip: int = Field(3, ge=1, description="keep one stacked frame in this many")

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
        """The time from one stacked frame to the next."""
        return self.skip * self.hop_samples / self.rate


class AugmentConfig(BaseModel):
    """Augmentation of the training recordings, redrawn in every epoch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ease: float = Field(0.0, ge=0, description="epochs over which the share of augmented recordings rises from 0 to 1")
    gain_db: float = Field(0.0, ge=0, description="change the level by up to this many decibels")
    noise_db: tuple[float, float] | None = Field(
        None, description="add white or pink noise at a signal-to-noise ratio in decibels, drawn between the two values"
    )
    speed: float = Field(
        0.0, ge=0, lt=0.9, description="change the speed by up to this share; pitch and formants change with it"
    )
    stretch: float = Field(0.0, ge=0, lt=0.9, description="stretch time by up to this share at the same pitch")
    equaliser_db: float = Field(
        0.0,
        ge=0,
        description="random smooth equaliser curve with this standard deviation in decibels: another microphone",
    )
    frequency_masks: int = Field(0, ge=0, description="frequency masks (SpecAugment; Park et al., 2019)")
    frequency_width: int = Field(6, ge=1, description="largest width of a frequency mask, in bands")
    time_masks: int = Field(0, ge=0, description="time masks")
    time_width: int = Field(10, ge=1, description="largest width of a time mask, in frames before stacking")

    def share(self, epoch: int) -> float:
        """The share of recordings that are changed in an epoch: plain ones come first, or CTC finds blanks alone.

        >>> [AugmentConfig(ease=4).share(epoch) for epoch in (0, 1, 4, 9)], AugmentConfig().share(0)
        ([0.0, 0.25, 1.0, 1.0], 1.0)
        """
        return min(1.0, epoch / self.ease) if self.ease else 1.0

    @model_validator(mode="after")
    def _noise_rises(self) -> AugmentConfig:
        if self.noise_db is not None and self.noise_db[0] > self.noise_db[1]:
            raise ValueError(f"augment.noise_db {list(self.noise_db)} falls; write the smaller number first")
        return self
