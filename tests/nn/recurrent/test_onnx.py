"""Exported layers run in onnxruntime with the layer's own outputs, whatever the batch, the time and the lengths."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from harken.errors import UserError
from harken.nn import GRU, LSTM, RNN, SelfAttention, export_onnx

sys.path.insert(0, str(Path(__file__).parent))
from recurrent_cases import parts_of, random_state

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make test installs it")

PLAIN: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "lstm": (LSTM, {}),
    "lstm peephole": (LSTM, {"peephole": "diagonal"}),
    "lstm coupled": (LSTM, {"coupled": True}),
    "lstm coupled peephole": (LSTM, {"coupled": True, "peephole": "diagonal"}),
    "gru after": (GRU, {}),
    "gru before": (GRU, {"reset": "before"}),
    "tanh": (RNN, {}),
    "relu": (RNN, {"nonlinearity": "relu"}),
    "sigmoid": (RNN, {"nonlinearity": "sigmoid"}),
}


def made(name: str, *shape: int, **options: Any) -> Any:
    """A layer whose every weight counts."""
    kind, more = PLAIN[name]
    layer = kind(*shape, **{"batch_first": True, **options, **more})
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer.eval()


def session(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def agree(found: list[Any], right: tuple[Any, Any]) -> None:
    """Output and all parts of the last state, to 1e-5 of the largest number."""
    wanted = [right[0], *parts_of(right[1])]
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == tuple(other.shape)
        assert np.abs(one - other.numpy()).max() <= 1e-5 * (1 + other.abs().max().item())


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    times = draw(st.lists(st.integers(1, 6), min_size=2, max_size=2))
    rows = [draw(st.lists(st.integers(0, time), min_size=1, max_size=4).filter(any)) for time in times]
    return {
        "name": draw(st.sampled_from(sorted(PLAIN))),
        "shape": (draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))),
        "options": {
            "bias": draw(st.sampled_from([True, "one", False])),
            "bidirectional": draw(st.booleans()),
            "batch_first": draw(st.booleans()),
            "connections": draw(st.sampled_from([None, "residual", "highway", "dense"])),
            "recurrent_dropout": draw(st.sampled_from([0.0, 0.3])),  # gone where the layer evaluates
        },
        "batches": list(zip(times, rows, strict=True)),
        "lengths": draw(st.booleans()),
        "state": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


@settings(deadline=None, max_examples=60)
@given(case=cases())
@torch.no_grad()
def test_a_graph_is_the_layer_for_any_batch_and_time(
    case: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Padding holds NaN, rows may be empty, and one file serves batches of two shapes."""
    torch.manual_seed(case["seed"])
    layer = made(case["name"], *case["shape"], **case["options"])
    path = tmp_path_factory.getbasetemp() / "drawn.onnx"
    graph = session(export_onnx(layer, path, lengths=case["lengths"], state=case["state"]))
    for time, rows in case["batches"]:
        values, lengths = torch.randn(len(rows), time, case["shape"][0]), torch.tensor(rows)
        if case["lengths"]:
            values[torch.arange(time) >= lengths[:, None]] = float("nan")
        values = values if layer.batch_first else values.transpose(0, 1).contiguous()
        state = random_state(layer, len(rows)) if case["state"] else None
        inputs = {"values": values.numpy()}
        inputs |= {"lengths": lengths.numpy()} if case["lengths"] else {}
        if state is not None:
            inputs |= {name: part.numpy() for name, part in zip(("h_0", "c_0"), parts_of(state), strict=False)}
        agree(graph.run(None, inputs), layer(values, state, lengths if case["lengths"] else None))


def test_what_a_file_takes_and_gives(tmp_path: Path) -> None:
    layer = LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    graph = session(export_onnx(layer, tmp_path / "layer.onnx", state=True))
    assert {one.name: one.shape for one in graph.get_inputs()} == {
        "values": ["batch", "time", 3],
        "lengths": ["batch"],
        "h_0": [4, "batch", 4],
        "c_0": [4, "batch", 4],
    }
    assert [one.name for one in graph.get_outputs()] == ["output", "h_n", "c_n"]
    graph = session(export_onnx(GRU(3, 4, dtype=torch.float64), tmp_path / "layer.onnx", lengths=False))
    assert [(one.name, one.type) for one in graph.get_inputs()] == [("values", "tensor(float)")]
    assert [one.name for one in graph.get_outputs()] == ["output", "h_n"]


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (LSTM(2, 3, peephole="full", batch_first=True), "LSTM has no peephole='full'"),
        (LSTM(2, 3, proj_size=1, layer_norm=True, batch_first=True), "LSTM has no layer_norm=True, proj_size=1"),
        (GRU(2, 3, zoneout=0.1, batch_first=True), "GRU has no zoneout=0.1"),
        (SelfAttention(4, 2), "an RNN, LSTM or GRU of harken.nn, not SelfAttention"),
    ],
)
def test_what_onnx_lacks_is_refused(layer: nn.Module, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        export_onnx(layer, tmp_path / "layer.onnx")
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match=r'pip install "harken\[onnx\]"'):
        export_onnx(GRU(2, 3, batch_first=True), tmp_path / "layer.onnx")


def traced_shapes(lengths: Tensor | None) -> dict[str, Any]:
    """A free batch; the time is the loop's own."""
    batch = torch.export.Dim("batch", min=1, max=64)
    return {"input": {0: batch}} | ({} if lengths is None else {"lengths": {0: batch}})


TRACED = ["lstm", "lstm peephole", "lstm coupled", "gru after", "gru before"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACED)
@torch.no_grad()
def test_torch_export_keeps_the_batch_free(name: str) -> None:
    """With lengths, which are not looked at while tracing."""
    torch.manual_seed(4)
    layer, lengths = made(name, 3, 4, bidirectional=True), torch.tensor([4, 1, 2])
    shapes = traced_shapes(lengths)
    program = torch.export.export(layer, (torch.randn(3, 4, 3),), {"lengths": lengths}, dynamic_shapes=shapes)
    values, lengths = torch.randn(5, 4, 3), torch.tensor([0, 4, 3, 1, 2])
    output, state = program.module()(values, lengths=lengths)
    agree([part.numpy() for part in (output, *parts_of(state))], layer(values, lengths=lengths))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACED)
@torch.no_grad()
def test_the_traced_loop_runs_in_onnxruntime(name: str, tmp_path: Path) -> None:
    traced_in_onnxruntime(made(name, 3, 4), tmp_path)


@pytest.mark.parametrize(
    "layer",
    [
        LSTM(3, 4, peephole="full", proj_size=2, layer_norm=True, zoneout=0.2, batch_first=True),
        pytest.param(GRU(3, 4, reset="before", layer_norm=True, batch_first=True), marks=pytest.mark.slow),
    ],
    ids=["lstm", "gru"],
)
@pytest.mark.slow
@torch.no_grad()
def test_what_onnx_lacks_can_be_traced(layer: nn.Module, tmp_path: Path) -> None:
    """The way that a refusal names."""
    traced_in_onnxruntime(layer.eval(), tmp_path)


def traced_in_onnxruntime(layer: nn.Module, folder: Path) -> None:
    torch.manual_seed(5)
    lengths = torch.tensor([3, 1, 2, 3])
    program = torch.onnx.export(
        layer,
        (torch.randn(4, 3, 3),),
        kwargs={"lengths": lengths},
        dynamic_shapes=traced_shapes(lengths),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    program.save(str(folder / "traced.onnx"))
    values, lengths = torch.randn(2, 3, 3), torch.tensor([0, 2])
    found = session(folder / "traced.onnx").run(None, {"input": values.numpy(), "lengths": lengths.numpy()})
    agree(found, layer(values, lengths=lengths))
