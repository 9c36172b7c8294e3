"""A layer by the Triton backend without a GPU: the launches do nothing, so only what surrounds them is tested."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harken.kernels.recurrent.triton import backend, gradient, launch, operator
from harken.kernels.recurrent.triton.plan import Plan
from harken.kernels.settings import device_only
from harken.nn.recurrent import stack
from harken.nn.recurrent.unroll import run_padded

sys.path.insert(0, str(Path(__file__).parents[2] / "nn" / "recurrent"))
from recurrent_cases import VARIANTS, build, parts_of, random_state

KINDS = [name for name, (_, options) in VARIANTS.items() if options.get("peephole") != "full"]
KINDS = [name for name in KINDS if "proj_size" not in VARIANTS[name][1]]


@pytest.fixture(autouse=True)
def no_launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The options of all launches, which leave their buffers as they are."""
    launched: list[dict[str, Any]] = []

    def note(kernel: Any, programs: int, plan: Plan, arguments: Any, options: dict[str, Any]) -> None:
        launched.append(options)

    plan = Plan(units=8, rows=4, parts=2, columns=2, chunks=2, group=1)
    monkeypatch.setattr(stack, "choose", lambda backends, call: backend.TRITON)
    monkeypatch.setattr(backend, "max_rows", lambda *arguments: 1000)
    for module in (operator, gradient):
        monkeypatch.setattr(module, "launch", note)
        monkeypatch.setattr(module, "plan_for", lambda *arguments, **options: plan)
    yield launched


@pytest.fixture(autouse=True)
def tf32_settings() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("noise", [{}, {"zoneout": 0.2, "recurrent_dropout": 0.3}])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("variant", KINDS)
def test_every_tensor_gets_a_gradient_of_its_shape(
    variant: str, layer_norm: bool, noise: dict[str, float], together: bool, no_launches: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(backend, "max_rows", lambda *arguments: 1000 if together else 0)
    layer = build(variant, 3, 5, 2, torch.float32, bidirectional=True, layer_norm=layer_norm, **noise)
    x = torch.randn(4, 6, 3, requires_grad=True)
    state = random_state(layer, 4)
    for part in parts_of(state):
        part.requires_grad_()
    output, last = layer(x, state, torch.tensor([6, 0, 2, 4]))
    assert output.shape == (4, 6, 10)
    assert [part.shape for part in parts_of(last)] == [part.shape for part in parts_of(state)]
    forward = len(no_launches)
    assert forward == (2 if together else 4)
    into = [x, *parts_of(state), *layer.parameters()]
    found = torch.autograd.grad(output.sum() + sum(part.sum() for part in parts_of(last)), into)
    assert [part.shape for part in found] == [part.shape for part in into]
    assert len(no_launches) == 2 * forward


@pytest.mark.parametrize(
    ("rows", "most", "sizes"), [(40, 24, [24, 16]), (100, 40, [40, 40, 20]), (24, 8, [8, 8, 8]), (90, 512, [90])]
)
def test_more_rows_than_fit_run_in_turn_inside_a_graph(
    rows: int, most: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def by_reference(call: Any, together: bool) -> Any:
        seen.append(call.x.shape[1])
        return run_padded(layer.cells_of_all(), call)

    monkeypatch.setattr(backend, "max_rows", lambda *arguments: most)
    monkeypatch.setattr("harken.kernels.recurrent.triton.layer.run_triton", by_reference)
    layer = build("lstm", 3, 5, 2, torch.float32, bidirectional=True)
    x, lengths = torch.randn(rows, 6, 3), torch.randint(1, 7, (rows,))
    state = random_state(layer, rows)
    with device_only():
        output, last = layer(x, state, lengths)
    wanted, after = layer.reference(x, state, lengths)
    torch.testing.assert_close(output, wanted)
    for one, other in zip(parts_of(last), parts_of(after), strict=True):
        torch.testing.assert_close(one, other)
    assert seen == 2 * sizes


@pytest.mark.parametrize("cudnn", [False, True])
@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("variant", KINDS)
def test_float32_products_follow_the_setting_of_what_the_kernel_replaces(
    variant: str, cudnn: bool, products: bool, no_launches: list[dict[str, Any]]
) -> None:
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = cudnn, products
    exact = "ieee" if variant == "relu" else "tf32x3"
    for layer_norm in (False, True):
        layer = build(variant, 3, 5, 1, torch.float32, layer_norm=layer_norm)
        layer(torch.randn(2, 3, 3))
        is_plain = layer.cells[0].kind.torch_name is not None
        allowed = cudnn if is_plain else products
        assert launch.precision(no_launches[-1]) == ("tf32" if allowed else exact)
