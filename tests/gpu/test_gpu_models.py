"""On a CUDA device the models say what they say on a CPU: losses, gradients, steps; in bfloat16 and compiled too."""

from typing import Any

import pytest
import torch
from torch import Tensor

from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.models.encoder_decoder import EncoderDecoder, TranslationModel
from harken.nn import Dropout, attend, attend_with_weights, length_mask

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

OPTIONS: list[dict[str, Any]] = [
    {"norm": "pre", "layers": 2},
    {"norm": "post", "layers": 2},
    {"cell": "lstm", "attention": "additive", "layers": 2},
    {"cell": "gru", "attention": "multiplicative", "layers": 1, "input_feeding": False},
    {"cell": "lstm", "attention": "none", "layers": 1},
]
NAMES = ["-".join(map(str, options.values())) for options in OPTIONS]
every_architecture = pytest.mark.parametrize("options", OPTIONS, ids=NAMES)


@pytest.fixture(autouse=True)
def full_float32() -> Any:
    """No TF32, so that float32 means float32."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def build(options: dict[str, Any]) -> TranslationModel:
    torch.manual_seed(1)
    if "cell" in options:
        return build_model(RecurrentConfig(embedding=16, width=32, dropout=0.0, **options), 40, 40)
    return build_model(TransformerConfig(width=32, heads=4, feedforward=64, dropout=0.0, **options), 40, 40)


def batch(longest: int) -> tuple[Tensor, ...]:
    """Source, lengths, target and what it should become; unequal lengths, padded with 0."""
    torch.manual_seed(2)
    lengths = torch.randint(2, longest, (6,))
    lengths[3] = longest
    visible = length_mask(lengths, longest)
    source, wanted = (torch.randint(4, 40, (6, longest)) * visible for _ in range(2))
    target = torch.cat((torch.full((6, 1), 2), wanted[:, :-1]), 1)
    return source, lengths, target, wanted


def losses(model: EncoderDecoder, device: str, longest: int = 9) -> tuple[Tensor, dict[str, Tensor]]:
    model.to(device).zero_grad()
    loss = model.loss(*(part.to(device) for part in batch(longest)), smoothing=0.1)
    loss.backward()
    return loss.detach().cpu(), {name: parameter.grad.cpu().clone() for name, parameter in model.named_parameters()}


def near(found: dict[str, Tensor], right: dict[str, Tensor], tolerance: float) -> None:
    scale = max(gradient.norm() for gradient in right.values())
    for name, gradient in right.items():
        assert (found[name] - gradient).norm() <= tolerance * (gradient.norm() + 0.01 * scale), name


@every_architecture
@pytest.mark.parametrize("longest", [9, 80])  # short sequences take plain products on a GPU, long ones fused kernels
def test_loss_and_gradients_equal_the_cpus(options: dict[str, Any], longest: int) -> None:
    model = build(options)
    right, gradients = losses(model, "cpu", longest)
    found, on_device = losses(model, "cuda", longest)
    assert found.item() == pytest.approx(right.item(), rel=1e-5)
    near(on_device, gradients, 1e-3)


@every_architecture
def test_bfloat16_is_finite_and_near(options: dict[str, Any]) -> None:
    model = build(options)
    right, gradients = losses(model, "cuda")
    with torch.autocast("cuda", torch.bfloat16):
        found, rounded = losses(model, "cuda")
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(right.item(), rel=0.01)
    assert all(gradient.isfinite().all() for gradient in rounded.values())
    near(rounded, gradients, 0.1)


@pytest.mark.parametrize("options", OPTIONS[:2], ids=["pre", "post"])
def test_compiled_loss_is_the_loss(options: dict[str, Any]) -> None:
    model = build(options)
    right, gradients = losses(model, "cuda")
    compiled = torch.compile(model.loss, dynamic=True)
    model.zero_grad()
    loss = compiled(*(part.cuda() for part in batch(9)), smoothing=0.1)
    loss.backward()
    assert loss.item() == pytest.approx(right.item(), rel=1e-5)
    near({name: parameter.grad.cpu() for name, parameter in model.named_parameters()}, gradients, 1e-3)


@every_architecture
@torch.no_grad()
def test_step_equals_forward(options: dict[str, Any]) -> None:
    model = build(options).cuda().eval()
    source, lengths, target, _ = (part.cuda() for part in batch(9))
    whole = model.logits(model(source, lengths, target))
    weights = model.attention(source, lengths, target)
    state = model.start(source, lengths)
    state.need_weights = True
    for place in range(target.shape[1]):
        logits, attention = model.step(target[:, place], state), state.attention
        assert torch.allclose(logits, whole[:, place], atol=1e-4)
        assert attention is None or torch.allclose(attention, model.alignment(weights)[:, place], atol=1e-5)


@pytest.mark.parametrize("length", [5, 64, 65, 100])
@pytest.mark.parametrize(("masked", "causal"), [(True, False), (False, True), (True, True)])
def test_attend_equals_its_definition(length: int, masked: bool, causal: bool) -> None:
    torch.manual_seed(3)
    values = [torch.randn(3, 2, length, 16, device="cuda", requires_grad=True) for _ in range(3)]
    lengths = torch.tensor([2, length, length // 2], device="cuda")
    mask = length_mask(lengths, length)[:, None, None] if masked else None
    fast, slow = attend(*values, mask, causal), attend_with_weights(*values, mask, causal)[0]
    assert torch.allclose(fast, slow, atol=1e-5)
    pull = torch.randn_like(fast)
    for found, right in zip(
        torch.autograd.grad(fast, values, pull), torch.autograd.grad(slow, values, pull), strict=True
    ):
        assert torch.allclose(found, right, atol=1e-4)


def test_dropout_keeps_the_mean() -> None:
    dropped = Dropout(0.25)(torch.ones(200_000, device="cuda"))
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.01)
