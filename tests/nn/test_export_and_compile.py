"""Layers leave PyTorch: as ONNX they run in onnxruntime with equal outputs, and torch.compile computes the same."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from harken.nn import GRU, LSTM, RNN

LAYERS: dict[str, Any] = {
    "lstm": lambda: LSTM(3, 5, 2),
    "lstm diagonal": lambda: LSTM(3, 5, peephole="diagonal"),
    "lstm full": lambda: LSTM(3, 5, peephole="full"),
    "lstm coupled": lambda: LSTM(3, 5, coupled=True),
    "gru after": lambda: GRU(3, 5, bidirectional=True),
    "gru before": lambda: GRU(3, 5, reset="before"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if " " in name else name for name in LAYERS]
)
def test_onnxruntime_gives_the_same(name: str, tmp_path: Path) -> None:
    """Exported at one length and any batch."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is a package for tests")
    pytest.importorskip("onnxscript", reason="onnxscript is a package for tests")
    torch.manual_seed(1)
    layer, values = LAYERS[name]().eval(), torch.randn(4, 3, 3)
    path = tmp_path / "layer.onnx"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        batch = {"values": {0: torch.export.Dim("batch", min=1, max=64)}}
        program = torch.onnx.export(layer, (values[:2],), dynamo=True, dynamic_shapes=batch, verbose=False)
    assert program is not None
    program.save(str(path))
    session = onnxruntime.InferenceSession(str(path))
    found = session.run(None, {session.get_inputs()[0].name: values.numpy()})
    with torch.no_grad():
        output, state = layer(values)
    wanted = [output, *(state if isinstance(state, tuple) else (state,))]
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(torch.from_numpy(ours), theirs, atol=1e-6)


def same_compiled(layer: Any, backend: str) -> None:
    torch.manual_seed(2)
    values = torch.randn(4, 3, 3, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    into = [values, *layer.parameters()]
    found, right = compiled(values)[0], layer(values)[0]
    assert torch.allclose(found, right, atol=1e-6)
    weights = torch.randn_like(right)
    for ours, theirs in zip(
        torch.autograd.grad((found * weights).sum(), into),
        torch.autograd.grad((right * weights).sum(), into),
        strict=True,
    ):
        assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("name", [*LAYERS, "rnn"])
def test_traced_by_the_compiler_it_is_the_same(name: str) -> None:
    """One graph, forward and backward; this backend needs no C++ compiler."""
    torch._dynamo.reset()
    same_compiled({**LAYERS, "rnn": lambda: RNN(3, 5, layer_norm=True)}[name](), "aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile on a CPU needs g++")
def test_compiled_it_is_the_same(name: str) -> None:
    torch._dynamo.reset()
    same_compiled(LAYERS[name](), "inductor")
