"""The compiled decoder against the reference search: tokens equal, scores to 1e-4."""

import threading
import time
from copy import deepcopy
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from harken.errors import UserError
from harken.kernels.decoding.description import Transformer
from harken.models.build import build_model
from harken.models.config import TransformerConfig
from harken.search import compiled
from harken.search.compiled import KERNELS
from harken.search.config import SearchOptions
from harken.search.dispatch import COMPILED, DecodingCall, choose, decode, report_backends, run_reference
from harken.search.rules.base import ScoreRule
from harken.search.rules.penalties import Shortlist
from harken.search.streaming import CertainPrefix

SIZE = 60
VARIANTS = {
    "pre norm": {},
    "post norm": {"norm": "post"},
    "gelu": {"activation": "gelu"},
    "swiglu": {"activation": "swiglu"},
    "norm of embeddings, gelu_tanh, epsilon": {
        "embedding_norm": True,
        "activation": "gelu_tanh",
        "norm_epsilon": 0.1,
        "positions": "learned",
        "max_length": 32,
        "norm": "post",
    },
    "norm of embeddings, pre norm, not scaled": {"embedding_norm": True, "scale_embeddings": False},
    "silu, output bias, post norm": {"activation": "silu", "output_bias": True, "norm": "post", "tied": "all"},
    "learned positions": {"positions": "learned", "max_length": 32},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "no positions": {"positions": "none"},
    "dot product": {"attention": "dot"},
    "tied output": {"tied": "all"},
    "odd widths": {"width": 42, "heads": 3, "feedforward": 50},
    "ssru": {"decoder_mixer": "ssru", "encoder_layers": 3},
    "ssru, post norm": {"decoder_mixer": "ssru", "norm": "post", "width": 40, "heads": 5},
    "as T5: RMS norm, buckets, GEGLU, no biases, narrow heads": {
        "norm_kind": "rms",
        "norm_epsilon": 0.1,
        "positions": "buckets",
        "buckets": 8,
        "max_distance": 6,
        "activation": "geglu",
        "bias": False,
        "head_width": 5,
        "attention": "dot",
    },
    "heads wider than the model, buckets and an SSRU": {
        "head_width": 20,
        "positions": "buckets",
        "buckets": 8,
        "max_distance": 6,
        "decoder_mixer": "ssru",
    },
    "wide heads": {"width": 160, "heads": 2, "feedforward": 64},
}


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    KERNELS[Transformer].load()


def model_of(**options):
    """Random weights, with a large row for EOS, so that some hypotheses end."""
    torch.manual_seed(3)
    config = {"layers": 2, "width": 32, "heads": 4, "feedforward": 48, "tied": "none"} | options
    model = build_model(TransformerConfig(**config), SIZE, SIZE).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.5 if "positions" in name else 0.1)
        model.output_weight *= 3
        model.output_weight[3] *= 2
    return model


def sources(rows=9, longest=11, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (rows,), generator=generator)
    lengths[0] = longest
    ids = torch.randint(4, SIZE, (rows, longest), generator=generator)
    return ids.masked_fill(torch.arange(longest) >= lengths[:, None], 0), lengths


def assert_equal(found, expected, atol=1e-4):
    assert [len(best) for best in found] == [len(best) for best in expected]
    for mine, other in zip(chain(*found), chain(*expected), strict=True):
        assert (mine.tokens, mine.finished) == (other.tokens, other.finished)
        assert mine.score == pytest.approx(other.score, abs=atol)
        assert mine.normalised == pytest.approx(other.normalised, abs=atol)
        assert mine.token_scores == pytest.approx(other.token_scores, abs=atol)


@pytest.mark.parametrize("variant", VARIANTS)
def test_equals_the_reference(variant):
    model, (ids, lengths) = model_of(**VARIANTS[variant]), sources()
    for beam, nbest in ((1, 1), (4, 4)):
        limits = lengths * 2 + 3
        call = DecodingCall(model, ids, lengths, limits, SearchOptions(beam=beam), nbest)
        assert choose(call).name == "compiled"
        found = COMPILED.decode(call)
        assert_equal(found, run_reference(call))
        assert variant == "tied output" or any(one.finished for best in found for one in best)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("stopping", ["exact", "count"])
def test_ranking_and_stopping_equal_the_reference(penalty, stopping):
    model = model_of()
    for seed, beam in enumerate((2, 3, 5, 8)):
        ids, lengths = sources(seed=seed)
        options = SearchOptions(beam=beam, length_penalty=penalty, stopping=stopping)
        call = DecodingCall(model, ids, lengths, lengths + 6, options, nbest=beam - 1)
        assert_equal(COMPILED.decode(call), run_reference(call))


@pytest.mark.parametrize(
    "options",
    [
        {"min_length": 4},
        {"min_length": 4, "beam": 1},
        {"length_rule": "gnmt", "length_penalty": 0.6},
        {"patience": 2.0},
        {"patience": 0.5, "min_length": 2},
    ],
)
def test_further_options_equal_the_reference(options):
    model, (ids, lengths) = model_of(), sources()
    options = SearchOptions(**({"beam": 4} | options))
    call = DecodingCall(model, ids, lengths, lengths + 6, options, nbest=min(2, options.beam))
    assert choose(call).name == "compiled"
    assert_equal(COMPILED.decode(call), run_reference(call))


class Halved(ScoreRule):
    """A rule without a compiled form."""

    def __call__(self, scores, so_far):
        return scores / 2


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"keep_beam": True}, "the whole beam is observed"),
        ({"observe": lambda step: None}, "the whole beam is observed"),
        ({"rules": (Halved(),)}, "Halved is a rule without a compiled form"),
        ({"nbest": 6}, "narrower than the n-best list"),
    ],
)
def test_what_has_no_compiled_form_is_left_to_the_reference(given, reason):
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 9, SearchOptions(), **given)
    assert reason in COMPILED.why_not(call)
    assert choose(call).name == "reference"


def test_the_backend_is_reported_with_the_reasons_against_faster_ones():
    model, (ids, lengths) = model_of(), sources()
    call, lines = DecodingCall(model, ids, lengths, 9, SearchOptions()), []
    report_backends(lines.append)
    try:
        for one in (call, call, replace(call, rules=(Halved(),))):
            decode(one)
    finally:
        report_backends(None)
    compiled_line, reference_line = lines
    assert compiled_line.startswith("search by compiled (graphs: ")
    assert reference_line.endswith("; compiled: Halved is a rule without a compiled form)")


@pytest.mark.parametrize("options", [{"beam": 3}, {"beam": 1}, {"sample": True}])
def test_a_search_that_is_cancelled_or_out_of_time_ends_with_what_it_has(options):
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 12, SearchOptions(**options))
    for steps in (1, 3):
        answers = [*[False] * (steps - 1), *[True] * 9]
        found, expected = (
            run(replace(call, cancelled=iter(answers).__next__)) for run in (COMPILED.decode, run_reference)
        )
        assert_equal(found, expected)
        assert max(len(row[0].tokens) for row in found) == steps
    late = DecodingCall(model, ids, lengths, 12, SearchOptions(**options, time_limit=1e-9))
    assert all(row for row in COMPILED.decode(late))


def test_a_stream_has_the_certain_tokens_of_the_reference():
    model, (ids, lengths) = model_of(), sources()
    for options in ({"beam": 4, "min_length": 3}, {"beam": 1}, {"sample": True, "seed": 3}):
        streams = {COMPILED.decode: [], run_reference: []}
        for row, length in enumerate(lengths.tolist()):
            call = DecodingCall(model, ids[row : row + 1, :length], None, 14, SearchOptions(**options))
            for run, stream in streams.items():
                parts = []
                tokens = run(replace(call, observe=CertainPrefix(parts.append)))[0][0].tokens
                stream.append([*parts, tokens] if tokens not in parts else parts)  # the reader gets the rest
        assert streams[COMPILED.decode] == streams[run_reference]
        assert max(map(len, streams[run_reference])) > 2


def test_a_batch_equals_its_sources_one_by_one():
    model, (ids, lengths) = model_of(), sources()
    whole = COMPILED.decode(DecodingCall(model, ids, lengths, 14, SearchOptions(beam=3), 2))
    for row, length in enumerate(lengths.tolist()):
        alone = DecodingCall(model, ids[row : row + 1, :length], None, 14, SearchOptions(beam=3), 2)
        assert_equal(COMPILED.decode(alone), [whole[row]], atol=1e-5)


def test_threads_do_not_change_the_result():
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 14, SearchOptions(beam=3), 2)
    threads, one = torch.get_num_threads(), COMPILED.decode(call)
    torch.set_num_threads(2)
    try:
        assert_equal(COMPILED.decode(call), one, atol=1e-6)
    finally:
        torch.set_num_threads(threads)


def test_a_large_batch_is_decoded_in_parts(monkeypatch):
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 14, SearchOptions(beam=3), 2)
    whole = COMPILED.decode(call)
    monkeypatch.setattr(compiled, "MAX_CACHE", 2 * 64 * 2 * 3 * 14 * 4)  # four sources
    assert_equal(COMPILED.decode(call), whole, atol=1e-6)


def test_an_interrupt_ends_the_compiled_loop(monkeypatch):
    model, (ids, lengths) = model_of(), sources()
    monkeypatch.setattr(compiled, "WATCHED", 0)
    monkeypatch.setattr(threading.Thread, "join", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        COMPILED.decode(DecodingCall(model, ids, lengths, 20_000, SearchOptions(beam=4, min_length=19_999)))
    assert time.perf_counter() - started < 60  # all of it would take minutes


def test_another_encoder_gives_its_memory():
    decoder = {"architecture": "transformer", "layers": 1, "width": 24, "heads": 2, "feedforward": 30}
    config = TransformerConfig(layers=1, width=24, heads=2, feedforward=30, positions="relative", decoder=decoder)
    model, (ids, lengths) = build_model(config, SIZE, SIZE).eval(), sources()
    assert model.describe_for_decoding().encoder is None
    call = DecodingCall(model, ids, lengths, 12, SearchOptions(beam=3), 3)
    assert_equal(COMPILED.decode(call), run_reference(call))


def test_weights_that_change_are_packed_again():
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 12, SearchOptions(beam=1))
    before = COMPILED.decode(call)
    with torch.no_grad():
        model.decoder.stack.blocks[0].feedforward.expand.weight.mul_(-3)
    after = COMPILED.decode(call)
    assert after != before
    assert_equal(after, run_reference(call))


def test_a_layer_that_is_replaced_is_noticed():
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 12, SearchOptions(beam=1))
    before = COMPILED.decode(call)
    block = model.decoder.stack.blocks[1]
    block.cross.output = torch.nn.Linear(32, 32)
    after = COMPILED.decode(call)
    assert after != before
    assert_equal(after, run_reference(call))
    block.feedforward = torch.nn.Identity()
    assert not COMPILED.supports(call)


@pytest.mark.parametrize("mixer", ["attention", "ssru"])
def test_int8_is_close_to_float32(mixer):
    model, (ids, lengths) = model_of(width=64, feedforward=128, decoder_mixer=mixer), sources(40, 12)
    options = SearchOptions(beam=1)
    exact = COMPILED.decode(DecodingCall(model, ids, lengths, 15, options))
    call = DecodingCall(model, ids, lengths, 15, options.model_copy(update={"precision": "int8"}))
    rough = COMPILED.decode(call)
    first = [(a[0].token_scores[0], b[0].token_scores[0]) for a, b in zip(exact, rough, strict=True)]
    assert max(abs(a - b) for a, b in first) < 0.2
    assert sum(a[0].tokens[:1] == b[0].tokens[:1] for a, b in zip(exact, rough, strict=True)) >= 36


@pytest.mark.parametrize("variant", VARIANTS)
def test_int8_equals_the_reference_with_rounded_products(variant):
    model, (ids, lengths) = model_of(**VARIANTS[variant]), sources(40, 8)
    rounded = deepcopy(model)
    rounded.round_to_int8()
    call = DecodingCall(model, ids, lengths, 4, SearchOptions(beam=1, precision="int8"))
    plain = replace(call, options=SearchOptions(beam=1))
    assert choose(replace(plain, model=rounded)).name == "reference"  # the compiled decoder would not round
    int8, expected = COMPILED.decode(call), run_reference(replace(plain, model=rounded))

    def equal(expected):  # sources whose first token has the same probability
        pairs = zip(int8, expected, strict=True)
        return sum(abs(a[0].token_scores[0] - b[0].token_scores[0]) < 1e-4 for a, b in pairs)

    assert equal(expected) >= 36  # not all: a value between two whole numbers may be rounded either way
    assert equal(run_reference(plain)) <= 6


@pytest.mark.parametrize("options", [{"positions": "relative"}, {"attention": "cosine"}, {"experts": 2}])
def test_products_of_a_network_that_int8_does_not_support_are_not_rounded(options):
    with pytest.raises(UserError, match=r"leave adapt\.int8 out"):
        model_of(**options).round_to_int8()


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_diverged_model_is_an_error(precision, beam):
    model, (ids, lengths) = model_of(), sources(3)
    with torch.no_grad():
        model.decoder.stack.blocks[1].feedforward.contract.bias[0] = float("nan")
    with pytest.raises(UserError, match="not finite"):
        COMPILED.decode(DecodingCall(model, ids, lengths, 5, SearchOptions(beam=beam, precision=precision)))


@pytest.mark.parametrize(
    "options",
    [{"positions": "relative"}, {"attention": "cosine"}, {"experts": 2}, {"positions": "learned", "max_length": 16}],
)
def test_what_is_not_supported_is_left_to_the_reference(options):
    ids, lengths = sources()
    model = build_model(TransformerConfig(layers=1, width=16, heads=2, feedforward=20, **options), SIZE, SIZE).eval()
    assert not COMPILED.supports(DecodingCall(model, ids, lengths, 17, SearchOptions()))


def test_int8_is_demanded_or_taken_where_it_is_supported():
    (ids, lengths), relative = sources(), model_of(positions="relative")
    with pytest.raises(UserError, match="precision"):
        choose(DecodingCall(relative, ids, lengths, 9, SearchOptions(precision="int8")))
    assert choose(DecodingCall(relative, ids, lengths, 9, SearchOptions(precision="auto"))).name == "reference"
    model = model_of()
    auto, int8 = (
        COMPILED.decode(DecodingCall(model, ids, lengths, 9, SearchOptions(beam=2, precision=precision)))
        for precision in ("auto", "int8")
    )
    assert auto == int8


def test_int8_is_refused_without_kernels(monkeypatch):
    model, (ids, lengths) = model_of(), sources()
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert choose(DecodingCall(model, ids, lengths, 9, SearchOptions(precision="auto"))).name == "reference"
    with pytest.raises(UserError, match=r'precision is "int8", but HARKEN_KERNELS=off is set'):
        choose(DecodingCall(model, ids, lengths, 9, SearchOptions(precision="int8")))


def test_training_mode_and_double_precision_are_left_to_the_reference():
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 9, SearchOptions())
    assert COMPILED.supports(call)
    assert not COMPILED.supports(DecodingCall(model.train(), ids, lengths, 9, SearchOptions()))
    assert not COMPILED.supports(DecodingCall(model.eval().double(), ids, lengths, 9, SearchOptions()))


def test_short_work_runs_on_the_reference_until_the_kernels_are_worth_loading(monkeypatch):
    model, (ids, lengths) = model_of(), sources()
    call = DecodingCall(model, ids, lengths, 9, SearchOptions(beam=2))
    kernels = KERNELS[Transformer]
    monkeypatch.setattr(kernels, "is_loaded", False)
    monkeypatch.setattr(kernels, "spent", 0.0)
    monkeypatch.setattr(compiled, "sys", type("sys", (), {"modules": {}}))
    COMPILED.decode(call)
    assert not kernels.is_loaded and kernels.spent > 0
    monkeypatch.setattr(kernels, "spent", compiled.LOAD_SECONDS)
    COMPILED.decode(call)
    assert kernels.is_loaded  # they were on disk


def random_shortlist(rows, share=0.5, seed=0):
    """A (B, V) shortlist that leaves each source about this share of the vocabulary."""
    return Shortlist(torch.rand(rows, SIZE, generator=torch.Generator().manual_seed(seed)) < share)


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4}, {"beam": 3, "min_length": 3}])
def test_a_shortlist_equals_the_reference_and_a_search_of_each_source_alone(options):
    model, (ids, lengths) = model_of(), sources()
    rule, options = random_shortlist(len(ids)), SearchOptions(**options)
    call = DecodingCall(model, ids, lengths, lengths + 6, options, nbest=options.beam, rules=(rule,))
    assert choose(call).name == "compiled"
    found = COMPILED.decode(call)
    assert_equal(found, run_reference(call))
    for row, length in enumerate(lengths.tolist()):
        assert {token for one in found[row] for token in one.tokens} <= set(np.flatnonzero(rule.allowed[row]).tolist())
        own = (Shortlist(rule.allowed[row]),)
        part = ids[row : row + 1, :length], None, length + 6
        alone = DecodingCall(model, *part, options, nbest=options.beam, rules=own)
        assert_equal(COMPILED.decode(alone), [found[row]], atol=1e-5)


def test_a_shortlist_of_everything_equals_none():
    model, (ids, lengths) = model_of(), sources()
    everything = Shortlist(torch.ones(SIZE, dtype=torch.bool))
    for precision in ("float32", "int8"):
        call = DecodingCall(model, ids, lengths, 12, SearchOptions(beam=3, precision=precision), 2)
        assert_equal(COMPILED.decode(replace(call, rules=(everything,))), COMPILED.decode(call), atol=1e-6)


def test_a_shortlist_smaller_than_the_beam_is_left_to_the_reference():
    model, (ids, lengths) = model_of(), sources()
    few = Shortlist(torch.arange(SIZE) < 8)
    assert choose(DecodingCall(model, ids, lengths, 9, SearchOptions(beam=5), rules=(few,))).name == "reference"
