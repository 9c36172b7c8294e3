"""The compiled recurrent decoder against the reference search: tokens equal, scores to 1e-4."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch

from harken.errors import UserError
from harken.kernels.decoding.description import Recurrent
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.search.compiled import KERNELS
from harken.search.config import SearchOptions
from harken.search.dispatch import COMPILED, DecodingCall, choose, run_reference
from harken.search.rules.penalties import Shortlist

SIZE = 60
VARIANTS: dict[str, dict[str, Any]] = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "gru with the reset before": {"cell": "gru", "reset": "before", "layers": 2},
    "rnn": {"cell": "rnn"},
    "dot": {"attention": "dot"},
    "scaled": {"attention": "scaled", "cell": "gru"},
    "multiplicative": {"attention": "multiplicative"},
    "cosine": {"attention": "cosine", "attend": "before"},
    "attend before": {"attend": "before", "layers": 2, "look_from": "bottom"},
    "no input feeding": {"input_feeding": False, "layers": 2},
    "context to all": {"context_to": "all", "layers": 3, "connections": "residual", "look_from": "bottom"},
    "coverage": {"coverage": True},
    "coverage, attend before": {"coverage": True, "attend": "before", "cell": "gru", "layers": 2},
    "no attention": {"attention": "none", "layers": 2},
    "constant context": {"attention": "none", "context": "constant", "cell": "gru"},
    "zoneout": {"zoneout": 0.2, "layers": 2},
    "tied": {"tied": "all"},
    "wide": {"width": 200, "embedding": 70, "cell": "gru"},
}


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    KERNELS[Recurrent].load()


def model_of(**options: Any) -> Any:
    """Random weights, with a large row for EOS, so that some hypotheses end."""
    torch.manual_seed(3)
    config = RecurrentConfig(**({"embedding": 18, "width": 30, "tied": "none"} | options))
    model = build_model(config, SIZE, SIZE).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(1.5)
            if "bias" in name:
                weight.normal_(std=0.3)
        model.output_weight *= 2
        model.output_weight[3] *= 2
    return model


def sources(rows: int = 9, longest: int = 11, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (rows,), generator=generator)
    lengths[0] = longest
    ids = torch.randint(4, SIZE, (rows, longest), generator=generator)
    return ids.masked_fill(torch.arange(longest) >= lengths[:, None], 0), lengths


def assert_equal(found: Any, expected: Any, atol: float = 1e-4) -> None:
    assert [len(best) for best in found] == [len(best) for best in expected]
    for mine, other in zip(chain(*found), chain(*expected), strict=True):
        assert (mine.tokens, mine.finished) == (other.tokens, other.finished)
        assert mine.score == pytest.approx(other.score, abs=atol)
        assert mine.normalised == pytest.approx(other.normalised, abs=atol)
        assert mine.token_scores == pytest.approx(other.token_scores, abs=atol)


@pytest.mark.parametrize("variant", VARIANTS)
def test_equals_the_reference(variant: str) -> None:
    model, (ids, lengths) = model_of(**VARIANTS[variant]), sources()
    written = set()
    for beam, nbest in ((1, 1), (4, 4)):
        call = DecodingCall(model, ids, lengths, lengths * 2 + 3, SearchOptions(beam=beam), nbest)
        assert choose(call).name == "compiled"
        found = COMPILED.decode(call)
        assert_equal(found, run_reference(call))
        written |= {token for best in found for one in best for token in one.tokens}
    assert len(written) > 3  # outputs differ


@pytest.mark.parametrize(
    "options",
    [
        {"stopping": "count", "length_penalty": 0.0},
        {"beam": 8, "length_penalty": 2.0},
        {"min_length": 4},
        {"min_length": 4, "beam": 1},
        {"length_rule": "gnmt", "length_penalty": 0.6},
        {"patience": 0.5, "min_length": 2},
    ],
    ids=str,
)
def test_rules_equal_the_reference(options: dict[str, Any]) -> None:
    model = model_of()
    for seed in range(3):
        ids, lengths = sources(seed=seed)
        chosen = SearchOptions(**({"beam": 4} | options))
        call = DecodingCall(model, ids, lengths, lengths + 6, chosen, nbest=min(3, chosen.beam))
        assert choose(call).name == "compiled"
        assert_equal(COMPILED.decode(call), run_reference(call))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_batch_equals_its_sources_one_by_one_and_in_another_order(precision: str) -> None:
    model, (ids, lengths) = model_of(coverage=True), sources(64)
    options = SearchOptions(beam=3, precision=precision)
    whole = COMPILED.decode(DecodingCall(model, ids, lengths, 14, options, 2))
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    mixed = COMPILED.decode(DecodingCall(model, ids[order], lengths[order], 14, options, 2))
    assert_equal(mixed, [whole[row] for row in order.tolist()], atol=1e-5)
    for row, length in list(enumerate(lengths.tolist()))[:12]:
        alone = DecodingCall(model, ids[row : row + 1, :length], None, 14, options, 2)
        assert_equal(COMPILED.decode(alone), [whole[row]], atol=1e-5)


def test_threads_do_not_change_the_result() -> None:
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 14, SearchOptions(beam=3), 2)
    threads, one = torch.get_num_threads(), COMPILED.decode(call)
    torch.set_num_threads(2)
    try:
        assert_equal(COMPILED.decode(call), one, atol=1e-5)
    finally:
        torch.set_num_threads(threads)


def test_the_memory_of_another_encoder() -> None:
    decoder = {"architecture": "recurrent", "embedding": 24, "width": 20, "layers": 2}
    config = TransformerConfig(layers=1, width=24, heads=2, feedforward=30, decoder=decoder)
    model, (ids, lengths) = build_model(config, SIZE, SIZE).eval(), sources()
    assert isinstance(model.describe_for_decoding(), Recurrent)
    call = DecodingCall(model, ids, lengths, 12, SearchOptions(beam=3), 3)
    assert_equal(COMPILED.decode(call), run_reference(call))


def test_weights_that_change_are_packed_again() -> None:
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 12, SearchOptions(beam=1))
    before = COMPILED.decode(call)
    with torch.no_grad():
        model.decoder.layers[0].weight_hh.mul_(-2)
    after = COMPILED.decode(call)
    assert after != before
    assert_equal(after, run_reference(call))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_int8_is_close_to_float32(cell: str) -> None:
    model, (ids, lengths) = model_of(cell=cell, width=64, embedding=48), sources(40, 12)
    exact, rough = (
        COMPILED.decode(DecodingCall(model, ids, lengths, 15, SearchOptions(beam=1, precision=precision)))
        for precision in ("float32", "int8")
    )
    first = [(a[0].token_scores[0], b[0].token_scores[0]) for a, b in zip(exact, rough, strict=True)]
    assert 0 < max(abs(a - b) for a, b in first) < 0.2
    assert sum(a[0].tokens[:1] == b[0].tokens[:1] for a, b in zip(exact, rough, strict=True)) >= 36


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_diverged_model_is_an_error(precision: str) -> None:
    model, (ids, lengths) = model_of(), sources(3)
    with torch.no_grad():
        model.decoder.layers[0].bias_hh[0] = float("nan")
    for beam in (1, 3):
        with pytest.raises(UserError, match="not finite"):
            COMPILED.decode(DecodingCall(model, ids, lengths, 5, SearchOptions(beam=beam, precision=precision)))


@pytest.mark.parametrize(
    "options",
    [
        {"peephole": "diagonal"},
        {"coupled": True},
        {"layer_norm": True},
        {"cell": "rnn", "nonlinearity": "relu"},
        {"connections": "highway", "layers": 2},
        {"hard_attention": True},
    ],
    ids=str,
)
def test_what_is_not_supported_is_left_to_the_reference(options: dict[str, Any]) -> None:
    model, (ids, lengths) = model_of(**options), sources()
    assert not COMPILED.supports(DecodingCall(model, ids, lengths, 9, SearchOptions()))
    with pytest.raises(UserError, match="int8"):
        choose(DecodingCall(model, ids, lengths, 9, SearchOptions(precision="int8")))


def test_a_shortlist_equals_the_reference() -> None:
    model, (ids, lengths) = model_of(), sources()
    rule = Shortlist(torch.rand(len(ids), SIZE, generator=torch.Generator().manual_seed(0)) < 0.5)
    call = DecodingCall(model, ids, lengths, lengths + 6, SearchOptions(beam=3), nbest=3, rules=(rule,))
    assert choose(call).name == "compiled"
    assert_equal(COMPILED.decode(call), run_reference(call))
