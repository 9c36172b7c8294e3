"""On a CUDA device captured searches give the results of the reference, and their number is bounded."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.errors import UserError
from harken.kernels.decoding.cuda import choosing, sampling
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.models.language.config import TransformerLanguageConfig
from harken.models.recurrent.config import RecurrentLanguageConfig
from harken.models.recurrent.language import RecurrentLanguage
from harken.models.transformer.language import TransformerLanguage
from harken.search import graphs
from harken.search.config import SearchOptions
from harken.search.device_search import SamplingSettings
from harken.search.dispatch import DecodingCall, choose, decode, run_reference
from harken.search.ensemble import Ensemble
from harken.search.hypotheses import SPECIAL_TOKENS, continuations
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.rules.penalties import Banned, Shortlist
from harken.search.rules.prefix import ForcedFirst, Prefix
from harken.search.sampling import filtered_probabilities
from harken.search.streaming import CertainPrefix

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


def make_call(model: nn.Module, rows: int, number: int, beam: int, nbest: int = 1, **options: Any) -> DecodingCall:
    random, seed = torch.Generator().manual_seed(number), number
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


RULES: dict[str, Any] = {
    "banned": lambda rows: Banned([[5], [6, 7], [8, 9, 10], *([token, token + 1] for token in range(20, 90))]),
    "first": lambda rows: ForcedFirst(17),
    "forced": lambda rows: Prefix([[9, 30], [], [40]] * rows),
    "preferred": lambda rows: Prefix([[9, 30], [], [40]] * rows, 0.9),
    "shortlist": lambda rows: Shortlist(torch.rand(rows, VOCABULARY, generator=torch.Generator().manual_seed(1)) < 0.4),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "ngrams": {"no_repeat_ngram": 2},
    "repetition": {"repetition_penalty": 1.4, "unknown_penalty": 2.0, "min_length": 4},
    "coverage": {"coverage_penalty": 0.3},
    "ranks": {"word_reward": -0.3, "length_rule": "gnmt", "stopping": "first"},
    "patience": {"patience": 1.6},
    "groups": {"diversity_groups": 2, "diversity": 0.8},
    "all": {"no_repeat_ngram": 3, "repetition_penalty": 1.2, "coverage_penalty": 0.2, "word_reward": 0.1},
}
EVERYTHING = "all", ("banned", "preferred", "shortlist")
CASES = [("pre", name, ()) for name in OPTIONS] + [("pre", "ngrams", (name,)) for name in RULES]
CASES += [(kind, *case) for kind in ("rotary", "recurrent") for case in (EVERYTHING, ("groups", ("banned", "forced")))]


def cut_rules(names: tuple[str, ...], rows: int) -> tuple[Any, ...]:
    """The rules of these names for a call of some rows."""
    rules = [RULES[name](rows) for name in names]
    for rule in rules:
        if isinstance(rule, Prefix):
            rule.tokens = rule.tokens[:rows]
    return tuple(rules)


def outcome(search: Any, call: DecodingCall) -> Any:
    try:
        return search(call)
    except UserError as refused:
        return str(refused)


def assert_nearly_same(rows: Any, expected: Any) -> None:
    """As `assert_same`, but for hypotheses whose ranks differ by rounding alone."""
    if isinstance(expected, str):
        assert rows == expected
        return
    for row, others in zip(rows, expected, strict=True):
        assert [one.normalised for one in row] == pytest.approx([one.normalised for one in others], abs=2e-3, rel=1e-3)
    different = [row for row, others in zip(rows, expected, strict=True) if row[0].tokens != others[0].tokens]
    assert len(different) <= len(rows) // 8


@pytest.mark.parametrize(("kind", "name", "names"), CASES, ids=str)
def test_options_and_rules_as_the_reference(kind: str, name: str, names: tuple[str, ...]) -> None:
    model = make_model(kind)
    for rows, seed, beam in ((33, 2, 4), (2, 1, 1)):
        options = OPTIONS[name]
        if beam == 1 and "diversity_groups" in options:
            continue
        call = make_call(model, rows, seed, beam, nbest=min(beam, 2), **options)
        longer = torch.as_tensor(call.max_lengths) + 4
        call = replace(call, rules=cut_rules(names, rows), max_lengths=longer)
        assert choose(call).name == "graphs", graphs.why_not_graphs(call)
        assert_nearly_same(outcome(decode, call), outcome(run_reference, call))


def test_other_values_of_options_replay_the_same_graph() -> None:
    model = make_model("pre")
    for size, penalty, words in ((2, 1.0, [[4]]), (3, 1.3, [[5, 6], [7]]), (0, 1.8, [])):
        options = {"no_repeat_ngram": size, "repetition_penalty": penalty, "min_length": 2}
        call = replace(make_call(model, 3, 0, 4, **options), rules=(Banned(words),))
        assert_same(decode(call), run_reference(call))
    assert len(graphs._SEARCHES.of(model).captured) == 1


def fused(call: DecodingCall, language: Any) -> DecodingCall:
    """The call with a language model, in a fresh state."""
    rows = call.rows
    return replace(call, rules=(LanguageModelFusion(language, language.start(rows), 0.5),))


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_language_model_as_the_reference(kind: str, beam: int) -> None:
    torch.manual_seed(3)
    if kind == "recurrent":
        language: Any = RecurrentLanguage(RecurrentLanguageConfig(embedding=16, width=16), VOCABULARY)
    else:
        sizes = {"layers": 1, "width": 32, "heads": 2, "feedforward": 32}
        language = TransformerLanguage(TransformerLanguageConfig(**sizes, dropout=0.0), VOCABULARY)
    language, model = language.eval().cuda(), make_model("pre")
    for seed in (0, 1):
        call = make_call(model, 5, seed, beam)
        assert choose(fused(call, language)).name == "graphs"
        assert_nearly_same(decode(fused(call, language)), run_reference(fused(call, language)))


@pytest.mark.parametrize("beam", [1, 4])
def test_an_ensemble_as_the_reference(beam: int) -> None:
    models = [make_model("pre"), make_model("recurrent", 2), make_model("rotary", 3)]
    for options in ({}, {"no_repeat_ngram": 2, "coverage_penalty": 0.2}):
        call = replace(make_call(models[0], 5, 0, beam, **options), model=Ensemble(models, [1.0, 2.0, 1.0]))
        assert choose(call).name == "graphs", graphs.why_not_graphs(call)
        assert_nearly_same(decode(call), run_reference(call))
    change_in_place(models[1])
    assert_nearly_same(decode(call), run_reference(call))


SAMPLED: list[tuple[str, dict[str, Any]]] = [
    ("pre", {}),
    ("pre", {"temperature": 0.0}),
    ("pre", {"top_k": 5}),
    ("pre", {"top_p": 0.8, "no_repeat_ngram": 2}),
    ("recurrent", {"temperature": 1.5, "top_k": 40, "top_p": 0.9, "min_p": 0.01}),
]


@pytest.mark.parametrize(("kind", "options"), SAMPLED, ids=str)
def test_samples_are_those_of_the_reference(kind: str, options: dict[str, Any]) -> None:
    model = make_model(kind, sharpness=1.5)
    equal = total = 0
    for rows, seed in ((1, 0), (40, 2)):
        call = make_call(model, rows, seed, 1, 3, sample=True, seed=seed + 11, **options)
        assert choose(call).name == "graphs"
        samples = decode(call)
        assert samples == decode(call)  # the same seed, the same samples
        for row, others in zip(samples, run_reference(call), strict=True):
            equal += sum(one.tokens in [other.tokens for other in others] for one in row)
            total += len(row)
        if options.get("temperature", 1) and options.get("top_k", 40) > 5:
            assert samples != decode(replace(call, options=call.options.changed({"seed": 99})))
    assert equal >= 0.95 * total, (equal, total)


def test_samples_have_the_right_distribution() -> None:
    logits = torch.randn(1, 40_000, device="cuda") * 2
    logits[0, 7] = logits.max() + 1.0
    table, count = logits.log_softmax(1).expand(20_000, -1).contiguous(), 20_000
    search = SimpleNamespace(sampling=SamplingSettings(count, logits.device), beam=1, special=SPECIAL_TOKENS)
    search.length = torch.zeros(1, dtype=torch.long, device="cuda")
    for options in ({"top_k": 30}, {"top_p": 0.4, "temperature": 0.8}, {"min_p": 0.05}):
        search.sampling.load(SearchOptions(sample=True, seed=5, **options), None, count)
        drawn = sampling.draw(search, None, table, table)[2][:, 0]
        exact = table[:1].clone()
        exact[:, [PAD, BOS]] = -torch.inf
        expected = filtered_probabilities(exact, **options)[0]
        frequencies = torch.bincount(drawn, minlength=40_000) / count
        assert float(frequencies[expected == 0].sum()) == 0
        assert float((frequencies - expected).abs().sum()) / 2 < 3 * (float((expected > 0).sum()) / count) ** 0.5


@pytest.mark.parametrize("beam", [1, 4])
def test_what_streams_is_a_beginning_of_the_result(beam: int) -> None:
    model, seen = make_model("pre"), list[list[int]]()
    call = make_call(model, 1, 0, beam, min_length=9)
    call = replace(call, max_lengths=20, observe=CertainPrefix(lambda tokens: seen.append(list(tokens))))
    assert choose(call).name == "graphs"
    (best,) = decode(call)[0]
    assert seen
    assert all(best.tokens[: len(tokens)] == tokens for tokens in seen)
    assert best.tokens == run_reference(call)[0][0].tokens


def test_a_search_that_is_cancelled_ends_with_what_it_has() -> None:
    model = make_model("pre")
    for beam in (1, 4):
        call = replace(make_call(model, 3, 0, beam, min_length=60), max_lengths=64, cancelled=lambda: True)
        for row in decode(call):
            assert 0 < len(row[0].tokens) < 20


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
        assert search.members[0].is_recurrent == (rows * beam <= 8)


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
