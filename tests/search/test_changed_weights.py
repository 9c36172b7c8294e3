"""After every kind of change of the weights, every decoding backend gives what the reference gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from plain_selection import uncaptured
from torch import Tensor, nn

from harken.data.tokenizers.tokens import EOS, PAD
from harken.kernels.weights import Snapshot, forget, freeze, is_frozen
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.search.compiled import prepare
from harken.search.config import SearchOptions
from harken.search.dispatch import COMPILED, DecodingCall, run_reference
from harken.search.rules.penalties import Shortlist

VOCABULARY = 60
CONFIGS: dict[str, Any] = {
    "transformer": TransformerConfig(layers=2, width=32, heads=2, feedforward=48, dropout=0.0),
    "learned": TransformerConfig(
        layers=1, width=32, heads=2, feedforward=48, positions="learned", max_length=20, dropout=0.0
    ),
    "ssru": TransformerConfig(layers=1, width=32, heads=2, feedforward=48, decoder_mixer="ssru", dropout=0.0),
    "recurrent": RecurrentConfig(embedding=12, width=10),
    "cosine": RecurrentConfig(embedding=12, width=10, cell="gru", attention="cosine"),
}


def make_model(kind: str) -> nn.Module:
    torch.manual_seed(3)
    model = build_model(CONFIGS[kind], VOCABULARY, VOCABULARY)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0).add_(0.05 * torch.randn_like(weight))
        model.output_weight[EOS] *= 4.0  # type: ignore[operator]
    return model.eval()


def make_call(model: nn.Module, shortlist: bool = False, **options: Any) -> DecodingCall:
    random = torch.Generator().manual_seed(1)
    lengths = torch.tensor([5, 9, 2, 7])
    source = torch.randint(4, VOCABULARY, (4, 9), generator=random)
    source[torch.arange(9) >= lengths[:, None]] = PAD
    rules: tuple[Any, ...] = ()
    if shortlist:
        allowed = torch.rand(4, VOCABULARY, generator=random) < 0.7
        allowed[:, :4] = True
        rules = (Shortlist(allowed),)
    return DecodingCall(model, source, lengths, 14, SearchOptions(beam=3, **options), rules=rules)


def other(weight: Tensor) -> Tensor:
    return weight.flip(0) if weight.dim() else weight + 1


def by_fused_optimizer(model: nn.Module) -> None:
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel()))
    torch.optim.AdamW(model.parameters(), lr=0.1, fused=True).step()


def by_data(model: nn.Module) -> None:
    for weight in model.parameters():
        weight.data.copy_(other(weight.data))


def by_numpy(model: nn.Module) -> None:
    for weight in model.parameters():
        array = weight.detach().numpy()
        array[...] = np.flip(array).copy() if array.ndim else array + 1


def by_one_number(model: nn.Module) -> None:
    model.output_weight.data[7, 3] += 50.0  # type: ignore[operator]


def in_place(model: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(other(weight))


def by_loading(model: nn.Module) -> None:
    model.load_state_dict({name: other(value) for name, value in model.state_dict().items()})


def by_assigning(model: nn.Module) -> None:
    state = {name: nn.Parameter(other(value)) for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def by_replacing(model: nn.Module) -> None:
    old: dict[Any, nn.Parameter] = {}
    for module in model.modules():
        for name, weight in list(module._parameters.items()):
            if weight is not None:
                new = old.setdefault(weight, nn.Parameter(other(weight.detach())))
                setattr(module, name, new)


CHANGES: list[Callable[[nn.Module], None]] = [
    by_fused_optimizer,
    by_data,
    by_numpy,
    by_one_number,
    in_place,
    by_loading,
    by_assigning,
    by_replacing,
]


def outputs(rows: Any) -> list[Any]:
    return [[(one.tokens, round(one.score, 3)) for one in row] for row in rows]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", list(CONFIGS))
def test_compiled_decoders_read_changed_weights(kind: str, change: Callable[[nn.Module], None]) -> None:
    model = make_model(kind)
    prepare(model)
    for options in ({}, {"shortlist": True}):
        call = make_call(model, **options)
        assert COMPILED.supports(call)
        COMPILED.decode(call)
    change(model)
    for options in ({}, {"shortlist": True}):
        call = make_call(model, **options)
        reference = run_reference(call)
        compiled = COMPILED.decode(call)
        assert [[one.tokens for one in row] for row in compiled] == [[one.tokens for one in row] for row in reference]
        for row, expected in zip(compiled, reference, strict=True):
            assert row[0].score == pytest.approx(expected[0].score, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("shortlist", [False, True])
def test_int8_reads_changed_weights(kind: str, change: Callable[[nn.Module], None], shortlist: bool) -> None:
    model = make_model(kind)
    call = make_call(model, shortlist, precision="int8")
    before = outputs(COMPILED.decode(call))
    change(model)
    after = outputs(COMPILED.decode(call))
    assert after != before
    forget(model)
    assert outputs(COMPILED.decode(call)) == after


@pytest.mark.parametrize("change", [by_fused_optimizer, by_data, by_numpy, in_place, by_loading])
@pytest.mark.parametrize("kind", ["transformer", "learned", "recurrent"])
def test_the_search_that_is_captured_reads_changed_weights(kind: str, change: Callable[[nn.Module], None]) -> None:
    model = make_model(kind)
    call = make_call(model)
    with torch.inference_mode():
        search = uncaptured(call)
        search.run([model], call)
    change(model)
    with torch.inference_mode():
        again = search.run([model], call)
    assert [row[0].tokens for row in again] == [row[0].tokens for row in run_reference(call)]


def test_hooks_are_left_to_the_reference() -> None:
    model = make_model("transformer")
    assert COMPILED.supports(make_call(model))
    handle = model.decoder.stack.blocks[0].register_forward_hook(lambda *_: None)  # type: ignore[union-attr, index]
    assert not COMPILED.supports(make_call(model))
    handle.remove()
    assert COMPILED.supports(make_call(model))


def test_weights_are_compared_once_in_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("transformer")
    prepare(model)
    COMPILED.decode(make_call(model))
    reads = list[int]()
    read = Snapshot.is_current
    monkeypatch.setattr(Snapshot, "is_current", lambda snapshot: reads.append(1) or read(snapshot))  # type: ignore[func-returns-value]

    def run(session: Any) -> list[list[int]]:
        return outputs(COMPILED.decode(replace(make_call(model), session=session)))

    first, second = {1}, {2}
    before = [run(first), run(first), run(first)]
    assert len(reads) == 1 and before[0] == before[2]
    by_data(model)
    changed = run(second)  # of another caller, while the first goes on
    assert len(reads) == 2 and changed == outputs(run_reference(make_call(model))) != before[0]
    assert run(first) == run(None) == run(None) == changed and len(reads) == 5


def test_frozen_weights_are_not_read_until_they_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("transformer")
    prepare(model)
    call, reads = make_call(model), []
    read = Snapshot.is_current
    monkeypatch.setattr(Snapshot, "is_current", lambda snapshot: reads.append(1) or read(snapshot))
    COMPILED.decode(call)
    freeze(model)
    assert is_frozen(model)
    before = outputs(COMPILED.decode(call)), len(reads)
    assert (outputs(COMPILED.decode(call)), len(reads)) == before
    forget(model)
    assert not is_frozen(model)
    by_data(model)
    assert outputs(COMPILED.decode(call)) == outputs(run_reference(call)) != before[0]


def test_a_snapshot_notices_every_bit() -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3).to(torch.bfloat16))
    for name, weight in model.named_parameters():
        snapshot = Snapshot(model)
        assert snapshot.is_current()
        bits = weight.data.view(-1).view(torch.int32 if weight.dtype == torch.float32 else torch.int16)
        bits[-1] ^= 1
        assert not snapshot.is_current(), name
        assert snapshot.is_in_place()
        bits[-1] ^= 1
        assert snapshot.is_current()
    assert not Snapshot(model, contents=False).is_current()
