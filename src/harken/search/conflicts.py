"""Options that cannot be combined, each with the sentence that refuses them: all of them, in one place.

A backend that does not support a combination leaves it to the reference (`harken.search.dispatch`), so what is refused
is what has no meaning in any of them. The only refusal beside these tables is that of int8, which has no reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None}  # options of sampling, and their defaults


class Conflict(NamedTuple):
    """A combination that is refused: when it applies, and the sentence; `{}` names options that are filled in."""

    applies: Callable[[Any], bool]
    sentence: str


def _is_given(name: str, default: Any) -> Callable[[Any], bool]:
    return lambda options: bool(getattr(options, name) != default and not options.sample)


OF_OPTIONS = (
    Conflict(
        lambda options: options.beam % options.diversity_groups > 0,
        "search.diversity_groups is {diversity_groups}, which does not divide search.beam = {beam}",
    ),
    Conflict(
        lambda options: options.sample and options.diversity_groups > 1,
        "search.diversity_groups is for beam search; leave it out where search.sample is true",
    ),
    *(
        Conflict(_is_given(name, default), f"search.{name} is for sampling; also set search.sample = true")
        for name, default in SAMPLING.items()
    ),
    Conflict(
        lambda options: options.patience != 1 and options.stopping != "count",
        'search.patience is for search.stopping = "count"; leave it out',
    ),
)
OF_TRANSLATION = (
    Conflict(
        lambda options: options.rerank and options.mbr,
        "search.rerank and search.mbr both choose from the n-best list; keep one of them",
    ),
    Conflict(
        lambda options: options.lm_weight and options.language_model is None,
        "search.lm_weight needs search.language_model, the folder of a language model",
    ),
)
OF_CALLS = (  # of a `DecodingCall`
    Conflict(
        lambda call: call.options.sample and any(rule.needs_beam for rule in call.rules),
        "phrases that an output must contain need beam search; leave search.sample out",
    ),
)
OF_STREAMS = (
    Conflict(
        lambda options: options.mbr,
        "minimum Bayes risk compares whole translations, so nothing can be streamed; leave search.mbr out",
    ),
)
OF_TREES = (
    Conflict(
        lambda options: options.sample or options.mbr,
        "a beam is drawn of beam search; leave sampling and minimum Bayes risk out",
    ),
)


def conflict_of(subject: Any, table: Sequence[Conflict]) -> str | None:
    """The sentence of the first conflict that applies to some options or a call; None: there is none."""
    for conflict in table:
        if conflict.applies(subject):
            return conflict.sentence.format_map(vars(subject))
    return None
