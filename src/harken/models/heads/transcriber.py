"""Speech recognition with CTC: frames of sound to probabilities of symbols at every step.

frames (B, T, C) -> normalised, projected (B, T, E) -> convolutions (B, T', E) -> any encoder (B, T', W) -> V + 1 logits

Reference: Graves, Mohamed and Hinton (2013), "Speech Recognition with Deep Recurrent Neural Networks".

>>> from harken.models.recurrent.config import RecurrentEncoderConfig
>>> from harken.models.recurrent.encoder import RecurrentEncoder
>>> network = TranscriberNetwork(40, 10, RecurrentEncoder(RecurrentEncoderConfig(embedding=8, width=6)))
>>> log_probs, lengths = network(torch.randn(2, 7, 40), torch.tensor([7, 4]))
>>> log_probs.shape, lengths.tolist()
(torch.Size([2, 7, 11]), [7, 4])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.models.base import Encoder
from harken.models.convolutional.encoder import ConvolutionFront
from harken.models.reader import FrameInput
from harken.nn.ctc import BLANK


class TranscriberNetwork(nn.Module):
    """The whole network; `size` is V, without the blank."""

    def __init__(self, channels: int, size: int, encoder: Encoder, front: ConvolutionFront | None = None) -> None:
        super().__init__()
        self.inputs = FrameInput(channels, encoder.embedding)
        self.front, self.encoder = front, encoder
        self.output = nn.Linear(encoder.width, size + 1)

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, C) and frames of each row -> log-probabilities (B, T', V + 1), blank first, and steps of each row."""
        values = self.inputs(frames)
        if self.front is not None:
            # Inputs are divided by sqrt(E), as encoders multiply by it; the convolutions between need them undivided.
            values, lengths = self.front(values / self.inputs.scale, lengths)
            values = values * self.inputs.scale
        memory = self.encoder(values, lengths)
        return torch.log_softmax(self.output(memory.values).float(), -1), lengths

    def loss(self, frames: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
        """The summed CTC loss (reference: `harken.nn.ctc`); a text longer than its steps counts 0."""
        log_probs, steps = self(frames, lengths)
        return summed_ctc(log_probs, steps, targets, target_lengths)

    def dry_run(self, length: int) -> Tensor:
        """Log-probabilities (1, T', V + 1) of `length` frames (`harken.models.sizing`)."""
        log_probs, _ = self(self.inputs.dummy(length), torch.tensor([length], device=self.output.weight.device))
        return log_probs


def summed_ctc(log_probs: Tensor, steps: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
    """The CTC loss of (B, T, V + 1), summed over the batch."""
    return nn.functional.ctc_loss(
        log_probs.transpose(0, 1), targets, steps, target_lengths, BLANK, reduction="sum", zero_infinity=True
    )
