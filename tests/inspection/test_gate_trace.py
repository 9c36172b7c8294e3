"""Gates of a sentence are the layer's own numbers, summarised as said."""

import numpy as np
import pytest
import torch
from torch import nn

from harken.errors import UserError
from harken.inspection import GateTrace, LayerGates, gates
from harken.nn import GRU, LSTM, RNN


def hand_made(**values: list[list[float]]) -> LayerGates:
    arrays = {word: np.array(rows) for word, rows in values.items()}
    return LayerGates("layer 1", "GRU", [f"w{step}" for step in range(len(arrays["hidden"]))], arrays)


def test_values_are_those_of_the_trace() -> None:
    layer, values, lengths = (
        LSTM(3, 4, bidirectional=True, batch_first=True),
        torch.randn(2, 5, 3),
        torch.tensor([5, 3]),
    )
    _, _, trace = layer(values, lengths=lengths, trace=True)
    found = gates(layer, {"input": values, "lengths": lengths}, row=1)
    assert [one.name for one in found] == ["layer 1 →", "layer 1 ←"]
    for way in (0, 1):
        assert set(found[way].values) == set(trace.names)
        for word in trace.names:
            assert np.allclose(found[way].values[word], trace[0, way][word][1, :3].detach().numpy(), atol=1e-7)
    assert found[0].words == ["1", "2", "3"]


def test_summaries() -> None:
    layer = hand_made(update=[[0.05, 0.95, 0.5, 0.5], [0.05, 0.5, 0.5, 0.95]], hidden=[[0.0] * 4, [1.0, 0.0, 0.0, 0.0]])
    shut, open_ = layer.saturated("update")
    assert (shut.tolist(), open_.tolist()) == ([1, 0, 0, 0], [0, 0.5, 0, 0.5])
    assert layer.summary("update")["mean"].tolist() == [0.5, 0.5]
    assert layer.summary("hidden")["high"].tolist() == [0.0, 0.25]
    assert layer.order().tolist() == [1, 3, 2, 0]
    row = layer.to_dict()["gates"]["update"]
    assert (row["shut"], row["open"]) == (0.25, 0.25)
    assert "units" not in row and layer.to_dict(units=True)["gates"]["update"]["units"][0][1] == 0.95
    assert "shut" not in layer.to_dict()["gates"]["hidden"]


def test_words_are_told_by_the_name_of_the_module() -> None:
    model = nn.ModuleDict({"encoder": GRU(2, 3, batch_first=True)})

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = model["encoder"]

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.encoder(values)[0]

    found = gates(Whole(), torch.randn(1, 2, 2), words={"decoder": ["x"], "encoder": ["the", "cat"]})
    assert found["encoder"].words == ["the", "cat"]


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(UserError, match="3 words do not fit the 2 steps"):
        gates(RNN(2, 3, batch_first=True), torch.randn(1, 2, 2), words=["a", "b", "c"])
    with pytest.raises(UserError, match="no row 4; the batch has 1"):
        gates(RNN(2, 3, batch_first=True), torch.randn(1, 2, 2), row=4)
    with pytest.raises(UserError, match="no recurrent layer"):
        gates(nn.Linear(2, 3), torch.randn(1, 2, 2))
    with pytest.raises(UserError, match="reads no sentences"):
        gates(RNN(2, 3, batch_first=True), "the cat sleeps")
    with pytest.raises(KeyError, match="there are layer 1"):
        GateTrace([hand_made(hidden=[[0.0]])], "")["decoder"]
