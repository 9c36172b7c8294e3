"""On a CUDA device captured searches give the results of the reference, and their number is bounded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.errors import UserError
from harken.kernels.decoding.cuda import choosing
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.search import graphs
from harken.search.config import SearchOptions
from harken.search.dispatch import DecodingCall, choose, decode, run_reference
from harken.search.hypotheses import SPECIAL_TOKENS, continuations

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
VOCABULARY = 300
RECURRENT = RecurrentConfig(embedding=32, width=24, layers=2)
CONFIGS: dict[str, Any] = {
    "pre": TransformerConfig(layers=2, width=64, heads=2, feedforward=96, dropout=0.0),
    "post": TransformerConfig(layers=2, width=48, heads=3, feedforward=80, norm="post", activation="gelu", dropout=0.0),
    "learned": TransformerConfig(
        layers=2, width=64, heads=4, feedforward=96, positions="learned", max_length=40, tied="none", dropout=0.0
    ),
    "rotary": TransformerConfig(layers=2, width=64, heads=2, feedforward=96, positions="rotary", dropout=0.0),
    "recurrent": RECURRENT,
    "additive": RecurrentConfig(embedding=32, width=24, attention="additive", attend="before", cell="gru"),
    "gru": RecurrentConfig(embedding=32, width=40, cell="gru", layers=2, attention="dot", context_to="all", tied="all"),
}


@pytest.fixture(autouse=True)
def _float32_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TF32, in which cuDNN and harken's recurrent kernels round differently."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def make_model(kind: str, seed: int = 1, sharpness: float = 2.0) -> Any:
    torch.manual_seed(seed)
    model = build_model(CONFIGS[kind], VOCABULARY, VOCABULARY)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(sharpness).add_(0.05 * torch.randn_like(weight))
        model.output_weight[EOS] *= 4.0
    return model.eval().cuda()


def make_call(model: nn.Module, rows: int, seed: int, beam: int, nbest: int = 1, **options: Any) -> DecodingCall:
    random = torch.Generator().manual_seed(seed)
    words = 9 + seed
    lengths = torch.randint(1, words + 1, (rows,), generator=random)
    lengths[0] = words
    source = torch.randint(4, VOCABULARY, (rows, words), generator=random)
    source[torch.arange(words) >= lengths[:, None]] = PAD
    most = torch.randint(1, 26, (rows,), generator=random)
    return DecodingCall(model, source.cuda(), lengths.cuda(), most.cuda(), SearchOptions(beam=beam, **options), nbest)


def assert_same(found: Any, wanted: Any) -> None:
    assert [[one.tokens for one in row] for row in found] == [[one.tokens for one in row] for row in wanted]
    for row, expected in zip(found, wanted, strict=True):
        for one, other in zip(row, expected, strict=True):
            assert one.finished == other.finished
            assert one.score == pytest.approx(other.score, abs=1e-3, rel=1e-4)
            assert one.normalised == pytest.approx(other.normalised, abs=1e-3, rel=1e-4)
            assert one.token_scores == pytest.approx(other.token_scores, abs=2e-3, rel=1e-4)


@pytest.mark.parametrize("kind", list(CONFIGS))
@pytest.mark.parametrize("beam", [1, 4])
def test_float32_as_the_reference(kind: str, beam: int) -> None:
    model = make_model(kind)
    for rows, seed in ((1, 0), (2, 1), (37, 2), (33, 3), (2, 4)):  # the last of a shape that was captured before
        for stopping in ("count", "exact"):
            call = make_call(model, rows, seed, beam, nbest=min(beam, 3), stopping=stopping)
            assert choose(call).name == "graphs"
            assert_same(decode(call), run_reference(call))
    assert graphs._SEARCHES.of(model).captured.captured()


def change_by_data(model: nn.Module) -> None:
    for weight in model.parameters():
        weight.data.copy_(weight.data.flip(0))


def change_in_place(model: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.flip(0))


def change_by_fused_adamw(model: nn.Module) -> None:
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    torch.optim.AdamW(model.parameters(), lr=0.5, fused=True).step()


def change_by_loading(model: nn.Module) -> None:
    model.load_state_dict({name: value.flip(0) for name, value in model.state_dict().items()})


def change_by_replacing(model: nn.Module) -> None:
    for module in model.modules():
        for name, weight in list(module._parameters.items()):
            if weight is not None:
                setattr(module, name, nn.Parameter(weight.detach().flip(0)))


CHANGES = [change_by_data, change_in_place, change_by_fused_adamw, change_by_loading, change_by_replacing]


@pytest.mark.parametrize("kind", ["pre", "learned", "recurrent"])
@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_change_are_read(kind: str, change: Any) -> None:
    model = make_model(kind)
    call, low = make_call(model, 4, 0, 4), make_call(model, 4, 0, 1, precision="auto")
    before, before_low = decode(call), decode(low)
    change(model)
    after = decode(call)
    assert_same(after, run_reference(call))
    assert [row[0].tokens for row in before] != [row[0].tokens for row in after]
    assert [row[0].tokens for row in before_low] != [row[0].tokens for row in decode(low)]


@pytest.mark.parametrize("kind", ["pre", "post", "recurrent"])
@pytest.mark.parametrize("rows", [2, 40])
def test_bfloat16_scores_are_near_those_of_float32(kind: str, rows: int) -> None:
    model = make_model(kind, sharpness=1.0)
    for beam in (1, 4):
        call = make_call(model, rows, 0, beam, precision="auto")
        near = decode(call)
        assert near != run_reference(call)  # it did run in bfloat16
        for row, (found,) in enumerate(near):
            words = [*found.tokens, *([EOS] if found.finished else [])]
            target = torch.tensor([[BOS, *words[:-1]]], device="cuda")
            source = call.source[row : row + 1, : int(call.lengths[row])]  # type: ignore[index]
            with torch.no_grad():
                exact = model.logits(model(source, None, target))[0].log_softmax(-1)
            forced = exact[range(len(words)), words].tolist()
            assert found.token_scores == pytest.approx(forced, abs=0.25)
    assert model.output_weight.dtype == torch.float32


@pytest.mark.parametrize("kind", ["recurrent", "gru"])
def test_a_few_rows_of_a_recurrent_decoder_have_their_own_kernels(kind: str) -> None:
    model = make_model(kind)
    for rows, beam in ((1, 1), (2, 4), (8, 1), (3, 4)):
        call = make_call(model, rows, 0, beam)
        assert_same(decode(call), run_reference(call))
        search = graphs._SEARCHES.of(model).captured.captured()[-1]
        assert search.is_recurrent == (rows * beam <= 8)


def test_captured_searches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "SEARCHES", 2)
    model = make_model("pre")
    for rows in (1, 2, 3, 4):
        assert_same(decode(make_call(model, rows, 0, 2)), run_reference(make_call(model, rows, 0, 2)))
    assert len(graphs._SEARCHES.of(model).captured) == 2


def test_a_diverged_model_is_refused() -> None:
    model = make_model("pre")
    model.output_weight.data.fill_(torch.nan)
    for rows in (1, 20):
        for beam in (1, 4):
            with pytest.raises(UserError, match="not finite numbers"):
                decode(make_call(model, rows, 0, beam))


@pytest.mark.parametrize("count", [1, 10])
def test_chosen_tokens_and_log_probabilities(count: int) -> None:
    logits = torch.randn(65, 32001, device="cuda") * 3
    values, ids = choosing.choose(logits, count, SPECIAL_TOKENS)
    excluded = logits.log_softmax(-1)
    excluded[:, [PAD, BOS]] = -torch.inf
    wanted, wanted_ids = continuations(excluded, count)
    assert torch.equal(ids, wanted_ids)
    assert torch.allclose(values, wanted, atol=1e-5)
