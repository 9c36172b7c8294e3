"""Sequences of ids or frames, read by any encoder."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from harken.models.build import build_encoder
from harken.models.config import EncoderConfig
from harken.models.reader import FrameInput, Reader, TokenInput

TABLES: list[dict[str, Any]] = [
    {"architecture": "recurrent", "embedding": 6, "width": 8, "layers": 2, "cell": "gru"},
    {"architecture": "transformer", "width": 8, "heads": 2, "feedforward": 16, "layers": 2},
    {"architecture": "convolutional", "embedding": 6, "width": 8, "layers": 2},
    {"architecture": "filters", "embedding": 6, "width": 8, "kernels": [1, 4]},
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["architecture"])
@pytest.mark.parametrize("frames", [False, True])
def test_padding_changes_nothing(table: dict[str, Any], frames: bool) -> None:
    torch.manual_seed(1)
    encoder = build_encoder(TypeAdapter(EncoderConfig).validate_python(table))
    inputs = FrameInput(3, encoder.embedding) if frames else TokenInput(11, encoder.embedding)
    reader = Reader(inputs, encoder).eval()
    values = torch.randn(2, 7, 3) if frames else torch.randint(4, 11, (2, 7))
    values[1, 4:] = 0
    together = reader(values, torch.tensor([7, 4])).values
    alone = reader(values[1:, :4], None).values
    assert torch.allclose(together[1, :4], alone[0], atol=1e-6)
    assert together.shape == (2, 7, reader.width)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["architecture"])
def test_a_config_knows_the_width_of_its_embeddings(table: dict[str, Any]) -> None:
    config = TypeAdapter(EncoderConfig).validate_python(table)
    assert config.embedding_width == build_encoder(config).embedding


def test_frames_are_normalised_by_the_training_data() -> None:
    inputs = FrameInput(2, 4)
    frames = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    inputs.fit(frames)
    assert inputs.mean.tolist() == [2.0, 5.0]
    assert inputs.deviation.tolist() == [1.0, 1.0]  # the second never moves
    wanted = inputs.project(torch.tensor([[[-1.0, 0.0], [1.0, 0.0]]])) / 2
    assert torch.allclose(inputs(frames[None]), wanted)
    assert {name for name, value in inputs.named_parameters() if not value.requires_grad} == {"mean", "deviation"}
