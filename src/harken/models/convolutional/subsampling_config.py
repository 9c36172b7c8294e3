"""The `[front]` table of a recipe: convolutions between the frames of a recording and the encoder."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator


class FrontConfig(BaseModel):
    """Strided convolutions over time before the encoder."""

    model_config = ConfigDict(extra="forbid")

    layers: int = Field(0, ge=0, description="convolutions before the encoder; 0: none")
    kernel: int = Field(5, ge=1, description="kernel width in steps; odd")
    stride: int = Field(2, ge=1, description="stride: each layer shortens the sequence by this factor")

    @model_validator(mode="after")
    def _kernel_has_a_centre(self) -> FrontConfig:
        if self.kernel % 2 == 0:
            raise ValueError(
                f"front.kernel {self.kernel} is even; it is centred on a step, so choose {self.kernel + 1}"
            )
        return self

    def shortened(self, steps: int) -> int:
        """What is left of so many steps."""
        for _ in range(self.layers):
            steps = -(-steps // self.stride)
        return steps
