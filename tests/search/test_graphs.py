"""The search that is captured as CUDA graphs gives the results of the reference; here it runs uncaptured on a CPU."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from plain_selection import run_uncaptured
from torch import nn

from harken.data.tokenizers.tokens import EOS, PAD
from harken.errors import UserError
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.search.config import SearchOptions
from harken.search.dispatch import DecodingCall, run_reference
from harken.search.graphs import ModelSearches, bucket, describe, why_not_graphs, why_not_static
from harken.search.rules.base import ScoreRule
from harken.search.rules.penalties import Banned

VOCABULARY = 40
SMALL = {"layers": 2, "width": 32, "heads": 2, "feedforward": 48}


def make_model(seed: int, kind: str = "transformer", **options: Any) -> nn.Module:
    torch.manual_seed(seed)
    if kind == "transformer":
        config: Any = TransformerConfig(**(SMALL | options), dropout=0.0)
    else:
        config = RecurrentConfig(embedding=12, width=10, **options)
    model = build_model(config, VOCABULARY, VOCABULARY)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0).add_(0.05 * torch.randn_like(weight))  # sharper distributions, biases that are not 0
        model.output_weight[EOS] *= 4.0  # so that some hypotheses end
    return model.eval()


def make_call(model: nn.Module, seed: int, beam: int, nbest: int = 1, **options: Any) -> DecodingCall:
    random = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([5, 9, 1, 7, 9])
    source = torch.randint(4, VOCABULARY, (5, 9), generator=random)
    source[torch.arange(9) >= lengths[:, None]] = PAD
    limits = torch.tensor([9, 14, 3, 1, 22])
    return DecodingCall(model, source, lengths, limits, SearchOptions(beam=beam, **options), nbest)


def assert_same(found: Any, wanted: Any) -> None:
    assert [[one.tokens for one in row] for row in found] == [[one.tokens for one in row] for row in wanted]
    for row, expected in zip(found, wanted, strict=True):
        for one, other in zip(row, expected, strict=True):
            assert one.finished == other.finished
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.normalised == pytest.approx(other.normalised, abs=1e-4)
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "post", "activation": "gelu"},
        {"embedding_norm": True, "activation": "gelu_tanh", "scale_embeddings": False},
        {"positions": "learned", "max_length": 22, "tied": "none"},
        {"positions": "rotary"},
        {"positions": "relative"},
        {"activation": "swiglu", "positions": "alibi"},
    ],
    ids=str,
)
@pytest.mark.parametrize("beam", [1, 4])
def test_transformers_as_the_reference(options: dict[str, Any], beam: int) -> None:
    model = make_model(1, **options)
    fused = options.get("positions") not in ("rotary", "relative", "alibi") and options.get("activation") != "swiglu"
    assert (describe(model) is not None) == fused
    finished = 0
    for seed in range(3):
        call = make_call(model, seed, beam)
        wanted = run_reference(call)
        assert_same(run_uncaptured(call), wanted)
        finished += sum(row[0].finished for row in wanted)
    assert 0 < finished < 15


@pytest.mark.parametrize("stopping", ["exact", "count"])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 1.7])
def test_stopping_length_penalty_and_nbest(stopping: str, penalty: float) -> None:
    for seed in range(4):
        call = make_call(make_model(seed), seed, 4, nbest=3, stopping=stopping, length_penalty=penalty)
        assert_same(run_uncaptured(call), run_reference(call))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention": "additive", "attend": "before", "layers": 2},
        {"attention": "none", "context": "constant", "cell": "gru"},
        {"attention": "additive", "coverage": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("beam", [1, 3])
def test_recurrent_decoders_as_the_reference(options: dict[str, Any], beam: int) -> None:
    model = make_model(2, "recurrent", **options)
    for seed in range(2):
        call = make_call(model, seed, beam, nbest=beam)
        assert why_not_static(call) is None
        assert_same(run_uncaptured(call), run_reference(call))


def test_sources_without_padding_and_one_limit() -> None:
    model = make_model(3)
    source = torch.randint(4, VOCABULARY, (3, 6), generator=torch.Generator().manual_seed(5))
    for beam in (1, 4):
        call = DecodingCall(model, source, None, 11, SearchOptions(beam=beam), beam)
        assert_same(run_uncaptured(call), run_reference(call))


def test_what_is_left_to_the_reference() -> None:
    model = make_model(1)
    assert why_not_static(make_call(model, 0, 4)) is None
    assert why_not_graphs(make_call(model, 0, 4)) == "the model is not on a GPU"
    for options in ({"precision": "int8"}, {"beam": 20}):
        assert why_not_static(make_call(model, 0, **({"beam": 4} | options)))
    call = make_call(model, 0, 4)
    assert why_not_static(replace(call, keep_beam=True))
    assert why_not_static(replace(call, rules=(ScoreRule(),))) == "ScoreRule is a rule that is not captured"
    assert why_not_static(replace(call, rules=(Banned([[4]]), Banned([[5]]))))
    assert why_not_static(make_call(model, 0, 2, nbest=3))
    assert why_not_static(make_call(make_model(1, experts=4), 0, 4))
    assert why_not_static(make_call(make_model(1, positions="learned", max_length=20), 0, 4))
    assert why_not_static(make_call(model.train(), 0, 4))
    model.eval().decoder.register_forward_hook(lambda *_: None)  # type: ignore[union-attr]
    assert why_not_static(make_call(model, 0, 4))


def test_the_copy_in_bfloat16_follows_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    model, searches = make_model(1), ModelSearches()
    assert searches.network(model, "float32") is model
    with torch.inference_mode():
        low = searches.network(model, "auto")
        addresses = [part.data_ptr() for part in low.parameters()]
        assert all(part.dtype == torch.bfloat16 for part in low.parameters())
    model.output_weight.data.mul_(3.0)  # type: ignore[union-attr, operator]
    with torch.inference_mode():
        assert searches.network(model, "auto") is low
        assert torch.equal(low.output_weight, model.output_weight.bfloat16())  # type: ignore[arg-type, operator]
    assert [part.data_ptr() for part in low.parameters()] == addresses


def test_a_search_is_captured_again_for_another_copy_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an ensemble makes one, where weights lay elsewhere in the meantime."""
    model, searches = make_model(1), ModelSearches()
    copies = [deepcopy(model), deepcopy(model)]
    monkeypatch.setattr(searches, "_capture", lambda *_: SimpleNamespace(bytes=0))
    first, second = (searches.find(make_call(model, 0, 4), [each], None) for each in copies)
    assert first is not second
    assert searches.find(make_call(model, 0, 4), [copies[0]], None) is first


def test_a_diverged_model_is_refused() -> None:
    model = make_model(1)
    model.output_weight.data.fill_(torch.nan)  # type: ignore[union-attr, operator]
    for beam in (1, 4):
        with pytest.raises(UserError, match="not finite numbers"):
            run_uncaptured(make_call(model, 0, beam))


def test_buckets_waste_at_most_half() -> None:
    for size in range(1, 600):
        assert size <= bucket(size) <= max(1, 1.5 * size)
    assert len({bucket(size) for size in range(1, 1025)}) == 20
