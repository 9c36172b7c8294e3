"""A model in numbers: shared parameters once, every recurrent cell with its singular values."""

import pytest
import torch
from torch import nn

from harken.inspection import summarise
from harken.nn import LSTM


def test_shared_parameters_are_counted_once() -> None:
    model = nn.ModuleDict(
        {"embed": nn.Embedding(7, 3), "layer": LSTM(3, 4, bidirectional=True, batch_first=True), "out": nn.Linear(3, 7)}
    )
    model["out"].weight = model["embed"].weight  # type: ignore[union-attr]
    found = summarise(model)
    assert found.parts == {"embed": 21, "layer": 2 * 4 * (3 * 4 + 4 * 4 + 2 * 4), "out": 7}
    assert found.total == sum(parameter.numel() for parameter in model.parameters())
    assert [cell.name for cell in found.cells] == ["layer.cells.0", "layer.cells.1"]
    whole = torch.linalg.matrix_norm(model["layer"].cells[1].weight_hh.double(), 2)  # type: ignore[union-attr,index]
    assert found.cells[1].largest == pytest.approx(whole.item())
    assert found.to_dict()["recurrent"][0]["hidden_size"] == 4
