"""On a GPU, recurrent layers that run in one launch give what the float64 reference gives, as nearly as cuDNN does."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harken.kernels.recurrent.triton import backend
from harken.kernels.recurrent.triton import launch as gpu_recurrent_launch
from harken.kernels.recurrent.triton.plan import Plan, chip_of, plan_of
from harken.kernels.triton_import import has_triton
from harken.nn import GRU, LSTM, RNN

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.skipif(not has_triton(), reason="Triton is not installed"),
]

CELLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (LSTM, {}),
    "peephole": (LSTM, {"peephole": "diagonal"}),
    "coupled": (LSTM, {"coupled": True, "peephole": "diagonal"}),
    "gru": (GRU, {}),
    "gru before": (GRU, {"reset": "before"}),
    "tanh": (RNN, {}),
    "relu": (RNN, {"nonlinearity": "relu"}),
    "sigmoid": (RNN, {"nonlinearity": "sigmoid"}),
}
NORMED: dict[str, tuple[Any, dict[str, Any]]] = {
    f"{name} norm": (CELLS[name][0], {**CELLS[name][1], "layer_norm": True})
    for name in ("lstm", "peephole", "coupled", "gru", "gru before", "tanh", "relu")
}
TOLERANCE = {torch.bfloat16: 1.5e-2, torch.float16: 2e-3, torch.float32: 2e-5}
ODD = ((5, 9, 100, 2), torch.float32)  # rows, time, units, directions
SHAPES = [  # one row, one step, more rows than a program takes, widths that fill no tile
    ((5, 9, 100, 2), torch.bfloat16),
    ((1, 1, 33, 1), torch.bfloat16),
    ((40, 12, 512, 2), torch.bfloat16),
    ((70, 5, 300, 1), torch.float16),
    ((3, 7, 17, 2), torch.float32),
]
CASES = [(name, *ODD) for name in CELLS] + [(name, *shape) for name in ("lstm", "gru") for shape in SHAPES]
NORMED_CASES = [(name, *ODD) for name in NORMED] + [("lstm norm", *shape) for shape in SHAPES]
NORMED_CASES += [
    ("gru before norm", *SHAPES[2]),
    ("coupled norm", *SHAPES[2]),
    ("lstm norm", (128, 4, 1024, 1), torch.float16),
]


@pytest.fixture(autouse=True)
def full_float32() -> Any:
    """No TF32, so that float32 means float32."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.fixture(autouse=True)
def short_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small cases take the launch too."""
    monkeypatch.setattr(backend, "MIN_STEPS", {True: 1, False: 1})


def flat(result: Any) -> list[Tensor]:
    output, state = result
    return [output, *([state] if isinstance(state, Tensor) else state)]


def furthest(found: list[Tensor], right: list[Tensor]) -> float:
    """The largest relative error, by norm."""
    assert all(bool(part.isfinite().all()) for part in found)
    return max(((a.double() - b).norm() / (b.norm() + 1e-9)).item() for a, b in zip(found, right, strict=True))


class Case:
    """A layer and its input in float64, rounded to what `dtype` can hold, and what the reference makes of it."""

    def __init__(self, kind: Any, options: dict[str, Any], shape: tuple[int, int, int, int], dtype: torch.dtype,
                 empty: bool = True, state: bool = True) -> None:  # fmt: skip
        rows, time, units, directions = shape
        drawn = random.Random(str(shape))
        torch.manual_seed(1)
        self.dtype, self.kind = dtype, kind
        self.options = {"batch_first": True, "bidirectional": directions == 2, **options}
        self.layer = kind(24, units, **self.options).cuda().to(dtype).double()
        self.lengths = torch.tensor([drawn.randint(0 if empty else 1, time) for _ in range(rows)])
        self.lengths[drawn.randrange(rows)] = time
        parts = 2 if kind is LSTM else 1
        count = self.layer.num_layers * directions
        draw = [torch.randn(rows, time, 24)] + [torch.randn(count, rows, units) for _ in range(parts if state else 0)]
        self.inputs = [part.cuda().to(dtype).double().requires_grad_() for part in draw]
        right = flat(self.layer.reference(self.inputs[0], self.state(self.inputs), self.lengths))
        self.weights = [torch.randn_like(part).to(dtype).double() for part in right]
        self.right = [*right, *torch.autograd.grad(right, [*self.layer.parameters(), *self.inputs], self.weights)]

    def state(self, inputs: list[Tensor]) -> Any:
        return None if len(inputs) == 1 else tuple(inputs[1:]) if self.kind is LSTM else inputs[1]

    def run(self) -> list[Tensor]:
        """Outputs and gradients in `dtype`."""
        layer = self.kind(24, self.layer.hidden_size, **self.options).cuda().to(self.dtype)
        layer.load_state_dict(self.layer.state_dict())
        inputs = [part.detach().to(self.dtype).requires_grad_() for part in self.inputs]
        made = flat(layer(inputs[0], self.state(inputs), self.lengths))
        weights = [weight.to(part.dtype) for weight, part in zip(self.weights, made, strict=True)]
        return [*made, *torch.autograd.grad(made, [*layer.parameters(), *inputs], weights)]


def path_of(case: Case) -> str:
    low = case.kind(24, case.layer.hidden_size, **case.options).cuda().to(case.dtype)
    return low.backend(case.inputs[0].to(case.dtype), case.lengths)


@pytest.mark.parametrize(("name", "shape", "dtype"), CASES, ids=str)
def test_equals_the_reference(name: str, shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    case = Case(*CELLS[name], shape, dtype)
    assert path_of(case) == "triton"
    assert furthest(case.run(), case.right) < TOLERANCE[dtype]


@pytest.mark.parametrize(("name", "shape", "dtype"), NORMED_CASES, ids=str)
def test_layer_norm_equals_the_reference(
    name: str, shape: tuple[int, int, int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(*NORMED[name], shape, dtype)
    assert path_of(case) == "triton"
    ours = furthest(case.run(), case.right)
    assert ours < 2 * TOLERANCE[dtype]  # what is divided by a spread has its errors divided too
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert path_of(case) == "loop"
    assert dtype == torch.float32 or ours <= 1.2 * furthest(case.run(), case.right)


NOISE = [{"zoneout": 0.2}, {"recurrent_dropout": 0.3}, {"num_layers": 2}, {"layer_norm": True, "zoneout": 0.2}]


@pytest.mark.parametrize("options", NOISE, ids=str)
@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_options_equal_the_reference(kind: Any, options: dict[str, Any]) -> None:
    case = Case(kind, {**options}, (16, 20, 96, 2), torch.float32)
    torch.manual_seed(7)
    inputs = [part.detach().float() for part in case.inputs]
    layer = case.layer.float()
    right = flat(layer.reference(inputs[0], case.state(inputs), case.lengths))
    torch.manual_seed(7)  # the same masks
    found = flat(layer(inputs[0], case.state(inputs), case.lengths))
    assert furthest(found, [part.double() for part in right]) < 1e-5


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", ["lstm", "gru", "relu"])
def test_no_further_off_than_cudnn(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(*CELLS[name], (16, 48, 256, 2), dtype, empty=False)
    ours = furthest(case.run(), case.right)
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert path_of(case) == "torch"
    assert ours <= 1.2 * furthest(case.run(), case.right)


@pytest.mark.parametrize("shape", [(16, 200, 768, 1), (64, 60, 512, 2), (128, 40, 1024, 1), (5, 300, 37, 2)], ids=str)
@pytest.mark.parametrize("name", ["lstm", "gru before", "lstm norm"])
def test_the_same_bits_every_time(name: str, shape: tuple[int, int, int, int]) -> None:
    kind, options = {**CELLS, **NORMED}[name]
    rows, time, units, directions = shape
    torch.manual_seed(1)
    layer = kind(units, units, batch_first=True, bidirectional=directions == 2, **options).cuda().to(torch.bfloat16)
    values = torch.randn(rows, time, units, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    lengths = torch.randint(time // 2, time + 1, (rows,))

    def run() -> list[Tensor]:
        output = layer(values, lengths=lengths)[0]
        return [output, *torch.autograd.grad(output.float().square().sum(), [values, *layer.parameters()])]

    first = run()
    assert all(torch.isfinite(part).all() for part in first)
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(run(), first, strict=True))


def test_autocast_computes_in_its_dtype() -> None:
    layer, values = LSTM(32, 64, bidirectional=True, batch_first=True).cuda(), torch.randn(4, 9, 32, device="cuda")
    right = layer(values)[0]
    with torch.autocast("cuda", torch.bfloat16):
        output, (hidden, _) = layer(values)
    assert output.dtype == hidden.dtype == torch.bfloat16
    assert furthest([output], [right.double()]) < 2e-2
    output.float().sum().backward()
    assert layer.cells[0].weight_hh.grad is not None


def test_autocast_of_a_layer_with_norms() -> None:
    layer, values = (
        LSTM(32, 64, bidirectional=True, layer_norm=True, batch_first=True).cuda(),
        torch.randn(4, 9, 32, device="cuda"),
    )
    right = layer(values)[0]
    with torch.autocast("cuda", torch.bfloat16):
        output = layer(values)[0]
    assert output.dtype == torch.bfloat16
    assert furthest([output], [right.double()]) < 3e-2
    gradients = torch.autograd.grad(output.float().sum(), list(layer.parameters()))
    assert all(gradient.dtype == torch.float32 and gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_compiles_as_one_graph(layer_norm: bool) -> None:
    torch.manual_seed(1)
    layer = LSTM(32, 64, num_layers=2, bidirectional=True, layer_norm=layer_norm, batch_first=True).cuda()
    lengths = torch.tensor([9, 3, 5, 1]).cuda()
    values = torch.randn(4, 9, 32, device="cuda", requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True)
    right = layer(values, lengths=lengths)[0]
    found = compiled(values, lengths=lengths)[0]
    assert torch.allclose(found, right, atol=1e-5)
    mine, others = (torch.autograd.grad(made.square().sum(), [values, *layer.parameters()]) for made in (found, right))
    # Each of the two is held to TOLERANCE from float64 by the tests above, hence twice that between them.
    assert furthest(list(mine), [part.double() for part in others]) < 2 * TOLERANCE[torch.float32]
    # Element by element only without norms. The norm of U h multiplies gradients by about 5 at every step, so that they
    # reach 40, and rounding grows along: on a CPU, where nothing is TF32, the loop and the CPU kernel differ by 1e-4 to
    # 5e-4 in single numbers (12 seeds) and by at most 1e-5 by norm, as each differs from float64; without norms 5e-7.
    assert layer_norm or all(torch.allclose(a, b, atol=1e-4) for a, b in zip(mine, others, strict=True))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_operator_is_registered_whole(layer_norm: bool) -> None:
    import harken.kernels.recurrent.triton.operator  # noqa: F401

    arguments = (torch.randn(5, 2, 1, 4, 16, device="cuda", requires_grad=True),
                 torch.randn(1, 64, 16, device="cuda", requires_grad=True), None, None, None,
                 torch.ones(1, 96, device="cuda", requires_grad=True) if layer_norm else None, None, None, None,
                 torch.tensor([5, 3], device="cuda", dtype=torch.int32), "lstm", 0.0, False, True)  # fmt: skip
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.harken.recurrent.default, arguments, test_utils=tests)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_nan_stays_in_its_row(layer_norm: bool) -> None:
    layer = LSTM(32, 600, layer_norm=layer_norm, batch_first=True).cuda().to(torch.bfloat16)
    values = torch.randn(8, 6, 32, device="cuda", dtype=torch.bfloat16)
    values[3, 2, 0] = float("nan")
    values.requires_grad_()
    output = layer(values, lengths=torch.full((8,), 6))[0]
    (gradient,) = torch.autograd.grad(output.sum(), [values])
    others = [row for row in range(8) if row != 3]
    assert output[3, 2:].isnan().all()
    assert torch.isfinite(output[3, :2]).all() and torch.isfinite(output[others]).all()
    assert torch.isfinite(gradient[others]).all()


@pytest.mark.parametrize("layer_norm", [False, True])
def test_padding_changes_nothing(layer_norm: bool) -> None:
    layer, lengths = (
        GRU(8, 40, bidirectional=True, layer_norm=layer_norm, batch_first=True).cuda(),
        torch.tensor([4, 2]),
    )
    values = torch.randn(2, 4, 8, device="cuda")
    right = layer(values, lengths=lengths)
    values[1, 2:] = float("inf")
    values.requires_grad_()
    found = layer(values, lengths=lengths)
    assert torch.equal(found[0], right[0]) and torch.equal(found[1], right[1])
    assert found[0][1, 2:].abs().max() == 0
    gradients = torch.autograd.grad(found[0].sum(), [values, *layer.parameters()])
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_program_that_never_comes_is_told(layer_norm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Tensor] = []
    monkeypatch.setattr(gpu_recurrent_launch, "LIMIT", 2000)
    monkeypatch.setattr(Plan, "programs", lambda *arguments: 1)
    monkeypatch.setattr(torch, "_assert_async", lambda flag, message: told.append(flag.clone()))
    with torch.no_grad():
        layer = LSTM(8, 64, layer_norm=layer_norm, batch_first=True).cuda().to(torch.bfloat16)
        layer(torch.randn(2, 5, 8, device="cuda", dtype=torch.bfloat16))
    assert told[0].item() == 0
    gpu_recurrent_launch._ok_flags.clear()


def test_the_choice_can_be_asked_and_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(4, 9, 8, device="cuda", dtype=torch.bfloat16)
    lengths = torch.tensor([9, 3, 0, 1])
    layer = LSTM(8, 16, batch_first=True).cuda().to(torch.bfloat16)
    assert layer.backend(values, lengths) == "triton"
    assert layer.backend(values, lengths, trace=True) == "loop"
    normed, full = LSTM(8, 16, layer_norm=True, batch_first=True), LSTM(8, 16, peephole="full", batch_first=True)
    assert normed.cuda().to(torch.bfloat16).backend(values, lengths) == "triton"
    assert full.cuda().to(torch.bfloat16).backend(values, lengths) == "loop"
    chip = chip_of(0)
    assert chip is not None and plan_of("lstm", torch.bfloat16, 64, 4096, 2, chip) is None
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert layer.backend(values, lengths) == "loop"


def reference_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measured rule again: short sequences of plain cells go to cuDNN."""
    monkeypatch.setattr(backend, "MIN_STEPS", {True: 64, False: 8})


@pytest.mark.parametrize("kind", [LSTM, GRU, RNN])
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_cudnn_computes_in_the_dtype_of_autocast(kind: Any, low: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own wrapper takes float16 whatever autocast's dtype is; values beyond float16's range show it."""
    reference_steps(monkeypatch)
    layer = kind(32, 64, 2, bidirectional=True).cuda()
    x = torch.randn(9, 4, 32, device="cuda", requires_grad=True)
    assert layer.backend(x) == "torch"
    right = [*flat(layer(x))]
    with torch.autocast("cuda", low):
        found = flat(layer(x))
        large = layer(x * 1e6)[0] if low == torch.bfloat16 else None  # infinite in float16
    assert all(part.dtype == low for part in found)
    assert furthest(found, [part.double() for part in right]) < (3e-2 if low == torch.bfloat16 else 5e-3)
    assert large is None or bool(large.isfinite().all())
    gradients = torch.autograd.grad(found[0].float().square().sum(), [x, *layer.parameters()])
    wanted = torch.autograd.grad(right[0].square().sum(), [x, *layer.parameters()])
    assert all(gradient.dtype == torch.float32 for gradient in gradients)
    assert furthest(list(gradients), [part.double() for part in wanted]) < 6e-2


@pytest.mark.parametrize("with_lengths", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True)])
@pytest.mark.parametrize("kind", [LSTM, GRU, RNN])
def test_short_sequences_are_torchs_own_call(
    kind: Any, layers: int, bidirectional: bool, dtype: torch.dtype, with_lengths: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference_steps(monkeypatch)
    torch.manual_seed(1)
    layer = kind(48, 64, layers, bidirectional=bidirectional, device="cuda", dtype=dtype)
    peer = layer.to_torch()
    x = torch.randn(30, 16, 48, device="cuda", dtype=dtype, requires_grad=True)
    lengths = torch.arange(30, 14, -1) if with_lengths else None
    assert layer.backend(x, lengths) == "torch"
    found = flat(layer(x, lengths=lengths))
    if lengths is None:
        right = flat(peer(x))
    else:
        output, last = peer(nn.utils.rnn.pack_padded_sequence(x, lengths))
        right = flat((nn.utils.rnn.pad_packed_sequence(output)[0], last))
    assert furthest(found, [part.double() for part in right]) < TOLERANCE[dtype] / 10
    mine = torch.autograd.grad(found[0].float().square().sum(), [x, *layer.parameters()])
    theirs = torch.autograd.grad(right[0].float().square().sum(), [x, *peer.parameters()])
    assert furthest(list(mine), [part.double() for part in theirs]) < TOLERANCE[dtype]


@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True)])
def test_short_sequences_are_as_fast_as_torchs(
    layers: int, bidirectional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training steps of bfloat16, T=30, B=128, H=512; the best of several rounds, taken in turns."""
    reference_steps(monkeypatch)
    layer = LSTM(512, 512, layers, bidirectional=bidirectional, device="cuda", dtype=torch.bfloat16)
    peer = layer.to_torch()
    x = torch.randn(30, 128, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def milliseconds(module: nn.Module) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(20):
            output = module(x)[0]
            torch.autograd.grad(output, [x, *module.parameters()], torch.ones_like(output))
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    times = [(milliseconds(layer), milliseconds(peer)) for _ in range(6)][1:]
    ours, theirs = (min(column) for column in zip(*times, strict=True))
    assert ours <= 1.05 * theirs


@pytest.mark.parametrize("name", ["lstm", "lstm norm"])
def test_float32_products_honour_allow_tf32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN's setting for cells that cuDNN has, that of products for the others; without it errors are float32's."""
    kind, options = {**CELLS, **NORMED}[name]
    case = Case(kind, options, (4, 97, 48, 1), torch.float32)
    own, other = (torch.backends.cudnn, torch.backends.cuda.matmul) if name == "lstm" else (
        torch.backends.cuda.matmul, torch.backends.cudnn)  # fmt: skip
    exact = furthest(case.run(), case.right)
    other.allow_tf32 = True  # of no concern to the recurrence, but W x is a product for both
    assert own.allow_tf32 is False
    if name != "lstm":
        assert furthest(case.run(), case.right) == exact
    own.allow_tf32 = True
    assert furthest(case.run(), case.right) > 3 * exact
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert exact < 4 * furthest(case.run(), case.right)
