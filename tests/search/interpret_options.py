"""The search that is captured on a GPU, its kernels in Triton's interpreter, against the reference with any options.

Started by test_graph_options.py with TRITON_INTERPRET=1, which has to be set before a kernel is imported.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from test_combinations import COMPILED_OPTIONS, RANKED, SCORE_RULES, SEARCHED, SIZE, assert_equal, calls, score_rules

from harken.errors import UserError
from harken.kernels.decoding.cuda import attention, choosing, rules, sampling
from harken.models.language.config import TransformerLanguageConfig
from harken.models.recurrent.config import RecurrentLanguageConfig
from harken.models.recurrent.language import RecurrentLanguage
from harken.models.transformer.language import TransformerLanguage
from harken.search.dispatch import DecodingCall, run_reference
from harken.search.ensemble import Ensemble
from harken.search.graphs import GraphSearch, describe, language_models, models_of, shape_of, why_not_static
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.streaming import CertainPrefix

KINDS = ("transformer", "lstm")
DEVICE_RULES = {name: values for name, values in SCORE_RULES.items() if name != "phrases"}
counts = Counter[str]()  # what was tested


@cache
def language_model(kind: str) -> Any:
    """A small language model with random weights."""
    torch.manual_seed(5)
    if kind == "lstm":
        return RecurrentLanguage(RecurrentLanguageConfig(embedding=8, width=8, layers=1), SIZE).eval()
    config = TransformerLanguageConfig(layers=1, width=16, heads=2, feedforward=16, dropout=0.0)
    return TransformerLanguage(config, SIZE).eval()


def fusion(weight: float, rows: int, seed: int) -> tuple[LanguageModelFusion, ...]:
    """The rule of a language model, where there is a weight."""
    model = language_model(KINDS[seed % 2])
    return (LanguageModelFusion(model, model.start(rows), weight),) if weight else ()


def run(call: DecodingCall) -> list[list[Any]]:
    """Uncaptured, with the kernels of the selection and the operators of the decoder."""
    models = models_of(call.model)
    language = next(iter(language_models(call)), None)
    with torch.inference_mode():
        search = GraphSearch(models, [*map(describe, models)], shape_of(call), call.source.device, language)
        return search.run(models, call)


@settings(
    max_examples=int(sys.argv[1]),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # shrinking takes the interpreter minutes
)
@given(
    kind=st.sampled_from(KINDS),
    options=st.fixed_dictionaries(COMPILED_OPTIONS, optional=RANKED),
    searched=SEARCHED,
    drawn=st.fixed_dictionaries({}, optional=DEVICE_RULES),
    rows=st.sampled_from([1, 3]),
    seed=st.integers(0, 500),
    second=st.sampled_from([None, None, None, *KINDS]),
    shortlisted=st.booleans(),
    width=st.integers(1, 2),
    nbest=st.integers(1, 4),
)
def check_options(
    kind: str,
    options: dict[str, Any],
    searched: dict[str, Any],
    drawn: dict[str, Any],
    rows: int,
    seed: int,
    second: str | None,
    shortlisted: bool,
    width: int,
    nbest: int,
) -> None:
    """Equal hypotheses, or the same refusal."""
    searched, drawn = dict(searched), dict(drawn)
    groups = searched.pop("groups", 1)
    options = options | searched | ({"diversity_groups": groups, "beam": groups * width} if groups > 1 else {})
    nbest = nbest if options.get("sample") else min(nbest, options["beam"])
    whole = calls(kind, rows, seed, shortlisted, options, nbest)
    if second is not None:
        whole = replace(whole, model=Ensemble([whole.model, calls(second, 1, 0, False, {}, 1).model], [1.0, 2.0]))
    for rule in whole.rules:
        rule.allowed[..., drawn.get("first", 3)] = True
    weight = drawn.pop("weight", 0.0)
    call, other = (
        replace(whole, rules=(*score_rules(drawn, rows), *fusion(weight, rows, seed), *whole.rules)) for _ in range(2)
    )
    if reason := why_not_static(call):
        counts[reason] += 1
    assume(reason is None)
    counts["searches"] += 1
    counts.update(name for name in (*options, *drawn) if name in {**RANKED, **SCORE_RULES, "sample": 0})
    counts.update(f"stopping {searched['stopping']}" for _ in range("stopping" in searched))
    counts["groups"] += groups > 1
    try:
        expected = run_reference(other)
    except UserError as refused:
        assert "leave no output" in str(refused)
        counts["refused"] += 1
        try:
            run(call)
        except UserError as again:
            assert "leave no output" in str(again)
            return
        raise AssertionError("the reference refused a search that the kernels ran") from refused
    hypotheses = run(call)
    if options.get("sample"):
        assert [[h.tokens for h in row] for row in hypotheses] == [[h.tokens for h in row] for row in expected]
    assert_equal(hypotheses, expected)
    for row, others in zip(hypotheses, expected, strict=True):
        for hypothesis, same in zip(row, others, strict=True):
            if hypothesis.tokens == same.tokens:
                assert abs(hypothesis.added - same.added) < 1e-3
                assert abs(hypothesis.coverage - same.coverage) < 1e-3


def check_streams_and_stops() -> None:
    """What is certain grows to the result, and a search that is stopped ends with what it has."""
    for beam in (1, 3):
        streamed: list[list[int]] = []
        call = replace(calls("lstm", 1, 7, False, {"beam": beam, "min_length": 9}, 1), max_lengths=11)
        watched = replace(call, observe=CertainPrefix(lambda tokens, seen=streamed: seen.append(list(tokens))))
        assert why_not_static(watched) is None
        ((best,),) = run(watched)
        assert best.tokens == run_reference(call)[0][0].tokens
        assert streamed, "nothing was streamed"
        assert all(best.tokens[: len(tokens)] == tokens for tokens in streamed)
        stopped = run(replace(call, cancelled=lambda: True))[0][0]
        assert 0 < len(stopped.tokens) < len(best.tokens)


def main() -> None:
    """Prints what was tested, then "equal"."""
    warnings.simplefilter("ignore", RuntimeWarning)  # of numpy: hashes overflow
    np.seterr(all="ignore")
    torch.set_num_threads(1)
    attention.INTERPRETED = False
    choosing.BLOCK, choosing.GROUP, rules.BLOCK, rules.PART = 16, 4, 4, 16
    check_streams_and_stops()
    for sampling.BLOCK in (32, 16):  # rows in one part and in two
        check_options()
    print(dict(counts), file=sys.stderr)
    print("equal")


if __name__ == "__main__":
    main()
