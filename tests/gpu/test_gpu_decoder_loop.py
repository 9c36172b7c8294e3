"""A recurrent decoder's loop replayed as a CUDA graph gives the numbers of the loop that Python runs."""

from typing import Any

import pytest
import torch
from torch import Tensor

from harken.kernels import cuda_graphs
from harken.models.build import build_model
from harken.models.config import RecurrentConfig
from harken.models.encoder_decoder import TranslationModel
from harken.nn import length_mask

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
OPTIONS: list[dict[str, Any]] = [
    {"cell": "lstm", "attention": "additive", "layers": 2},
    {"cell": "lstm", "attention": "additive", "attend": "before"},
    {"cell": "lstm", "attention": "multiplicative", "input_feeding": False},
    {"cell": "lstm", "attention": "cosine"},
    {"cell": "lstm", "attention": "additive", "coverage": True},
    {"cell": "lstm", "attention": "none"},
    {"cell": "gru", "attention": "scaled", "attend": "before", "layers": 2},
    {"cell": "gru", "attention": "additive"},
]
NAMES = ["-".join(map(str, options.values())) for options in OPTIONS]


@pytest.fixture(autouse=True)
def full_float32() -> Any:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def build(options: dict[str, Any], dropout: float = 0.0) -> TranslationModel:
    torch.manual_seed(1)
    return build_model(RecurrentConfig(embedding=24, width=32, dropout=dropout, **options), 40, 40).cuda()


def batch(seed: int, rows: int = 5, longest: int = 9) -> tuple[Tensor, ...]:
    torch.manual_seed(seed)
    lengths = torch.randint(2, longest, (rows,))
    lengths[1] = longest
    visible = length_mask(lengths, longest)
    source, wanted = (torch.randint(4, 40, (rows, longest)) * visible for _ in range(2))
    target = torch.cat((torch.full((rows, 1), 2), wanted[:, :-1]), 1)
    return tuple(part.cuda() for part in (source, lengths, target, wanted))


def losses(model: TranslationModel, *given: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    loss = model.loss(*given)
    loss.backward()
    return loss.detach(), {name: part.grad.clone() for name, part in model.named_parameters() if part.grad is not None}


def near(found: dict[str, Tensor], right: dict[str, Tensor], tolerance: float) -> None:
    assert found.keys() == right.keys()
    scale = max(gradient.norm() for gradient in right.values())
    for name, gradient in right.items():
        assert (found[name] - gradient).norm() <= tolerance * (gradient.norm() + 0.01 * scale), name


def captured(model: torch.nn.Module) -> int:
    return sum(len(cuda_graphs._FUNCTIONS.of(part)) for part in model.modules())


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_replays_are_the_loop(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(options)
    for seed in range(5):  # the first runs step by step, the second captures, the others replay
        given = batch(seed, rows=5 + seed % 2, longest=9 + seed)  # one bucket for all
        with monkeypatch.context() as off:
            off.setenv("HARKEN_KERNELS", "off")
            right, gradients = losses(model, *given)
        found, made = losses(model, *given)
        assert found.item() == pytest.approx(right.item(), rel=1e-5)
        near(made, gradients, 2e-4)
        with torch.no_grad():
            for part in model.parameters():  # as an optimizer would
                part.add_(torch.randn_like(part), alpha=0.01)
    assert captured(model) == 1


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_bfloat16_replays_are_near(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(options)
    given = batch(1)
    right, gradients = losses(model, *given)
    model = build(options)
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            found, made = losses(model, *given)
    assert captured(model) == 1
    assert found.item() == pytest.approx(right.item(), rel=0.01)
    near(made, gradients, 0.1)


@pytest.mark.parametrize("variational", [True, False])
def test_dropout_draws_what_the_plain_loop_draws(variational: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build({"cell": "lstm", "attention": "additive", "layers": 2, "variational": variational}, dropout=0.3)
    seen = []
    for seed in range(5):
        given = batch(7, rows=8, longest=16)  # whole buckets, so that the masks have one shape
        with monkeypatch.context() as off:
            off.setenv("HARKEN_KERNELS", "off")
            torch.manual_seed(seed)
            right, gradients = losses(model, *given)
        torch.manual_seed(seed)
        found, made = losses(model, *given)
        assert found.item() == pytest.approx(right.item(), rel=1e-5)
        near(made, gradients, 2e-4)
        seen.append(found.item())
    assert captured(model) == 1 and len(set(seen)) == 5


def test_gradients_add_up_and_two_passes_at_once_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(OPTIONS[0])
    for seed in (1, 2):
        losses(model, *batch(seed))
    assert captured(model) == 1
    first, second = batch(3), batch(4)
    apart = [losses(model, *given)[1] for given in (first, second)]
    together = {name: apart[0][name] + apart[1][name] for name in apart[0]}
    model.zero_grad()
    for given in (first, second):
        model.loss(*given).backward()
    near({name: part.grad for name, part in model.named_parameters()}, together, 1e-4)
    model.zero_grad()
    one, two = model.loss(*first), model.loss(*second)  # the second before the first one's backward
    one.backward()
    two.backward()
    near({name: part.grad for name, part in model.named_parameters()}, together, 1e-4)
    kept = model.loss(*first)
    kept.backward(retain_graph=True)
    losses(model, *second)
    with pytest.raises(RuntimeError, match="replaced by a later one"):
        kept.backward()


def test_outputs_stay_as_they_are_and_steps_follow() -> None:
    model = build(OPTIONS[1]).eval()
    with torch.no_grad():
        source, lengths, target, _ = batch(1)
        whole = model(source, lengths, target)
        for _ in range(3):
            again = model(source, lengths, target)
            assert torch.allclose(again, whole, atol=1e-5)
        before = again.clone()
        other = batch(2)
        model(*other[:3])
        assert torch.equal(again, before)
        assert captured(model) == 1


def test_memory_is_bounded_and_moved_parameters_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "SHAPES", 2)
    model = build(OPTIONS[0])
    for longest in (8, 16, 24, 32):
        for seed in (1, 2):
            losses(model, *batch(seed, longest=longest))
    assert captured(model) == 2
    given = batch(3, longest=32)
    right = losses(model, *given)[0]
    with torch.no_grad():
        for part in model.parameters():
            part.data = part.data.clone() * 0.5
    moved = [losses(model, *given)[0].item() for _ in range(3)]
    assert moved[0] == pytest.approx(moved[2], rel=1e-5) and abs(moved[0] - right.item()) > 1e-3


def test_what_cannot_be_captured_runs_step_by_step() -> None:
    layer = torch.nn.Linear(3, 3).cuda()

    def waits(values: Tensor) -> Tensor:
        scale = values.abs().max().item()  # no graph can wait for the device
        return torch.nn.functional.dropout(layer(values) / scale, 0.5)

    with pytest.warns(UserWarning, match="could not be captured"):
        for _ in range(3):
            cuda_graphs.replay(layer, waits, (torch.randn(2, 3, device="cuda"),))
    assert captured(layer) == 0
    assert torch.rand(3, device="cuda").isfinite().all()


@pytest.mark.parametrize("kind", ["buffer", "frozen parameter"])
def test_a_moved_buffer_or_frozen_parameter_is_captured_again(kind: str) -> None:
    layer = torch.nn.Linear(3, 3).cuda()
    layer.register_buffer("scale", torch.ones(3, device="cuda"))
    layer.bias.requires_grad_(False)
    values = torch.randn(2, 3, device="cuda")

    def function(values: Tensor) -> Tensor:
        return layer(values) * layer.scale

    for _ in range(3):
        assert torch.allclose(cuda_graphs.replay(layer, function, (values,)), function(values))
    if kind == "buffer":
        layer.scale = torch.full((3,), 2.0, device="cuda")
    else:
        layer.bias.data = layer.bias.data + 1.0
    for _ in range(3):
        assert torch.allclose(cuda_graphs.replay(layer, function, (values,)), function(values))
