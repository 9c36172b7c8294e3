"""Additive attention on a CUDA device: the kernels against the reference in float64; dtypes, memory, compilation."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from harken.kernels.additive_attention import operator as kernels
from harken.nn import length_mask
from harken.nn.attention.functional import additive_attend, additive_attend_with_weights, attend
from harken.nn.attention.head_scores import CosineHeads
from harken.nn.attention.scores import CosineScore, MultiplicativeScore

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
Case = tuple[tuple[int, ...], int, int, int, int]
CASES: list[Case] = [  # leading sizes, T, S, D, V
    ((3,), 9, 7, 5, 3),
    ((2, 3), 33, 70, 17, 129),
    ((1,), 8, 1, 1, 1),
    ((5,), 127, 65, 64, 64),
    ((2, 4), 64, 128, 32, 32),
    ((2,), 200, 333, 100, 50),
]


@pytest.fixture(autouse=True)
def kernels_for_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "SMALLEST", 0)


@pytest.fixture(autouse=True)
def full_float32() -> Any:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def inputs(case: Case, dtype: torch.dtype, scale: float = 1.0) -> list[Tensor]:
    leading, targets, sources, depth, width = case
    torch.manual_seed(targets + sources)
    heads = leading[1:]
    shapes = [(*leading, targets, depth), (*leading, sources, depth), (*heads, depth), (*leading, sources, width)]
    parts = [
        torch.randn(shape, device="cuda") * factor for shape, factor in zip(shapes, (scale, scale, 1, 1), strict=True)
    ]
    return [part.to(dtype) for part in parts]


def mask_for(case: Case, kind: str) -> Tensor | None:
    """None, one by lengths with an empty row, or a random one for every query, some of which see nothing."""
    leading, targets, sources, _, _ = case
    if kind == "none":
        return None
    if kind == "lengths":
        lengths = torch.arange(leading[0], device="cuda") * sources // max(1, leading[0] - 1 or 1)
        mask = length_mask(lengths, sources)[:, None]
        return mask if len(leading) == 1 else mask[:, None]
    mask = torch.rand(*leading, targets, sources, device="cuda") < 0.3
    mask[..., 0, :] = False
    return mask


def answers(function: Any, parts: list[Tensor], mask: Tensor | None, causal: bool, grad_output: Tensor) -> list[Tensor]:
    parts = [part.detach().requires_grad_() for part in parts]
    context = function(*parts, mask, causal)
    context = context[0] if isinstance(context, tuple) else context
    return [context, *torch.autograd.grad(context, parts, grad_output.to(context.dtype))]


def error(found: Tensor, right: Tensor) -> float:
    assert found.isfinite().all()
    return ((found.double() - right).norm() / (right.norm() + 1e-12)).item()


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(
    ("kind", "causal"), [("none", False), ("lengths", False), ("random", False), ("lengths", True)]
)
def test_float32_equals_the_reference(case: Case, kind: str, causal: bool) -> None:
    scale = 15.0 if kind == "random" else 1.0  # beyond 17 other code runs
    parts, mask = inputs(case, torch.float32, scale), mask_for(case, kind)
    assert kernels.ADDITIVE_ATTENTION.supports(parts[0], parts[1], parts[3])
    grad_output = torch.randn(*case[0], case[1], case[4], device="cuda")
    exact = answers(additive_attend_with_weights, [part.double() for part in parts], mask, causal, grad_output)
    for found, right in zip(answers(additive_attend, parts, mask, causal, grad_output), exact, strict=True):
        assert error(found, right) < (2e-5 if scale == 1 else 1e-3) or right.norm() < 1e-6


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[5]], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_errors_are_no_larger_than_eager(case: Case, dtype: torch.dtype) -> None:
    parts, mask = inputs(case, dtype), mask_for(case, "lengths")
    grad_output = torch.randn(*case[0], case[1], case[4], device="cuda").to(dtype)
    exact = answers(additive_attend_with_weights, [part.double() for part in parts], mask, False, grad_output)
    eager = answers(additive_attend_with_weights, parts, mask, False, grad_output)
    rounding = torch.finfo(dtype).eps  # of the result itself
    for found, plain, right in zip(
        answers(additive_attend, parts, mask, False, grad_output), eager, exact, strict=True
    ):
        if right.norm() > 1e-6:
            assert error(found, right) <= max(error(plain, right), rounding)


def test_hidden_rows_are_zero_and_results_are_deterministic() -> None:
    case = CASES[5]
    parts, mask = inputs(case, torch.bfloat16), mask_for(case, "random")
    context = additive_attend(*parts, mask)
    right = additive_attend_with_weights(*(part.double() for part in parts), mask)[0]
    assert error(context, right) < 1e-2
    assert (context[..., 0, :] == 0).all()
    grad_output = torch.randn_like(context)
    first = answers(additive_attend, parts, mask, False, grad_output)
    for _ in range(3):
        again = answers(additive_attend, parts, mask, False, grad_output)
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_pieces_equal_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from harken.kernels.additive_attention import launch

    case = CASES[5]
    parts, mask = inputs(case, torch.float32), mask_for(case, "lengths")
    grad_output = torch.randn(*case[0], case[1], case[4], device="cuda")
    whole = answers(additive_attend, parts, mask, True, grad_output)
    for workspace in (64 * 384 * 4, 256 * 384 * 4):
        monkeypatch.setattr(launch, "WORKSPACE", workspace)
        for found, right in zip(answers(additive_attend, parts, mask, True, grad_output), whole, strict=True):
            assert error(found, right.double()) < 1e-5


def test_switch_autocast_and_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = inputs(CASES[3], torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        context = additive_attend(*parts)
    assert context.dtype == torch.bfloat16
    right = additive_attend_with_weights(*(part.double() for part in parts))[0]
    assert error(context, right) < 1e-2
    turned = [part if part.dim() == 1 else part.transpose(0, 1).contiguous().transpose(0, 1) for part in parts]
    assert error(additive_attend(*turned), right) < 2e-5
    monkeypatch.setattr(kernels, "SMALLEST", 10**9)
    assert not kernels.ADDITIVE_ATTENTION.supports(parts[0], parts[1], parts[3])
    monkeypatch.setattr(kernels, "SMALLEST", 0)
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert not kernels.ADDITIVE_ATTENTION.supports(parts[0], parts[1], parts[3])
    assert torch.equal(additive_attend(*parts), additive_attend_with_weights(*parts)[0])


def test_operators_are_registered_as_torch_wants_them() -> None:
    queries, keys, vector, values = inputs(((2,), 9, 7, 5, 3), torch.float32)
    parts = [part.requires_grad_() for part in (queries, keys, vector[None].detach(), values)]
    mask = torch.rand(2, 1, 9, 7, device="cuda") < 0.8
    torch.library.opcheck(kernels.attention_operator, (*parts, mask, False, True, 0.0, None))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_casts_to_its_dtype(dtype: torch.dtype) -> None:
    parts = [part.requires_grad_() for part in inputs(CASES[3], torch.float32)]
    with torch.autocast("cuda", dtype):
        context = additive_attend(*parts)
    assert context.dtype == dtype
    assert [gradient.dtype for gradient in torch.autograd.grad(context.sum(), parts)] == [torch.float32] * 4


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiles_without_a_break(backend: str) -> None:
    parts, mask = inputs(CASES[1], torch.float32), mask_for(CASES[1], "lengths")
    grad_output = torch.randn(*CASES[1][0], CASES[1][1], CASES[1][4], device="cuda")

    def doubled(*given: Any) -> Tensor:
        return additive_attend(*given) * 2

    right = answers(doubled, parts, mask, False, grad_output)
    compiled = torch.compile(doubled, backend=backend, fullgraph=True, dynamic=True)
    for found, one in zip(answers(compiled, parts, mask, False, grad_output), right, strict=True):
        assert error(found, one.double()) < 1e-5


def test_memory_stays_small() -> None:
    parts = [part.requires_grad_() for part in inputs(((8,), 1024, 1024, 512, 512), torch.bfloat16)]
    grad_output = torch.randn(8, 1024, 512, device="cuda", dtype=torch.bfloat16)
    context = additive_attend(*parts)
    torch.autograd.grad(context, parts, grad_output)
    del context
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    context = additive_attend(*parts)
    gradients = torch.autograd.grad(context, parts, grad_output)
    results = sum(part.numel() * part.element_size() for part in (context, *gradients))
    assert torch.cuda.max_memory_allocated() - before - results < 200e6


@pytest.mark.parametrize("name", ["cosine", "multiplicative"])
def test_other_scores_through_flash_attention(name: str) -> None:
    """Prepared queries and keys through torch's fused attention give the reference of the score."""
    torch.manual_seed(6)
    score = (CosineScore if name == "cosine" else MultiplicativeScore)(32, 32).cuda()
    states, memory = torch.randn(2, 20, 32, device="cuda"), torch.randn(2, 33, 32, device="cuda")
    mask = length_mask(torch.tensor([33, 12], device="cuda"), 33)
    keys = score.keys(memory)
    scores = torch.stack([score(state, keys) for state in states.unbind(1)], 1)
    right = torch.where(mask[:, None], scores, -torch.inf).softmax(-1) @ memory
    if name == "cosine":
        heads = CosineHeads(1, 32).cuda()
        ready, known = heads.queries(states[:, None]), heads.keys(memory[:, None])
    else:
        ready, known = states[:, None] * math.sqrt(32), keys[:, None]
    found = attend(ready, known, memory[:, None], mask[:, None, None])[:, 0]
    assert torch.allclose(found, right, atol=1e-5)


def test_dropout_zeroes_weights_and_follows_the_generator() -> None:
    torch.manual_seed(8)
    parts = [
        torch.randn(2, 100, 16, device="cuda"),
        torch.randn(2, 90, 16, device="cuda"),
        torch.randn(16, device="cuda"),
    ]
    values = torch.eye(90, device="cuda").repeat(2, 1, 1).requires_grad_()
    _, weights = additive_attend_with_weights(*parts, values)
    torch.manual_seed(9)
    shown = additive_attend(*parts, values, dropout=0.25)
    again = additive_attend(*parts, values, dropout=0.25)
    torch.manual_seed(9)
    assert torch.equal(shown, additive_attend(*parts, values, dropout=0.25))
    stayed = shown != 0
    assert stayed.float().mean().item() == pytest.approx(0.75, abs=0.02)
    assert not torch.equal(shown, again)
    assert torch.allclose(shown, weights * stayed / 0.75, atol=1e-6)
    (gradient,) = torch.autograd.grad(shown.sum(), values)
    assert torch.allclose(gradient[..., 0], shown.sum(1), atol=1e-4)
