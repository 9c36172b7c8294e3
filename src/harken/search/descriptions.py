"""All keys of `[search]` with their types and descriptions: for recipes, the command line and the calls of Python.

`OPTIONS` is read from the classes here. They are also the types of keyword arguments, `**options: Unpack[SearchKeys]`,
so that type checkers and editors know every key. Nothing of harken is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_args, get_type_hints


class Option(NamedTuple):
    """A key of `[search]`."""

    kind: Any  # the type of its value; None is always allowed on the command line
    description: str


BEAM = "beam width; 1 is greedy search"


class DecodingKeys(TypedDict, total=False):
    """Keys for outputs of any source, without `beam`; None stands for the recipe's value.

    Of several types the first is that of the command line.
    """

    length_penalty: Annotated[float | None, "scores are divided by length to this power"]
    length_rule: Annotated[
        Literal["power", "gnmt"] | None,
        "power: divide by length ** length_penalty; gnmt: by ((5 + length) / 6) ** length_penalty",
    ]
    word_reward: Annotated[float | None, "added to the final score for every token; negative: a penalty"]
    coverage_penalty: Annotated[
        float | None,
        "weight of the coverage of the source by attention in the final score (Wu et al., 2016)",
    ]
    stopping: Annotated[
        Literal["exact", "count", "first"] | None,
        "exact: until no better hypothesis is possible; count: until beam * patience hypotheses have ended, which "
        "may miss better ones; first: until one has ended that beats all live ones",
    ]
    patience: Annotated[float | None, "beam * patience hypotheses must end; implies stopping = count"]
    min_length: Annotated[int | None, "fewest tokens of an output"]
    no_repeat_ngram: Annotated[int | None, "no n-gram of this many tokens twice; 0: off"]
    repetition_penalty: Annotated[float | None, "log-probabilities of tokens written before are multiplied by this"]
    unknown_penalty: Annotated[float | None, "subtracted for every unknown word; with 1000 none is written"]
    diversity_groups: Annotated[int | None, "groups of the beam that avoid each other's tokens"]
    diversity: Annotated[float | None, "how much they avoid them, with diversity_groups above 1"]
    sample: Annotated[bool | None, "draw outputs at random instead of searching for the best"]
    temperature: Annotated[float | None, "sampling: below 1 sharper, above 1 flatter"]
    top_k: Annotated[int | None, "sampling: only from this many most probable tokens"]
    top_p: Annotated[float | None, "sampling: only from the most probable tokens of this mass"]
    min_p: Annotated[float | None, "sampling: only from tokens this probable beside the best"]
    seed: Annotated[int | None, "sampling: the same seed gives the same outputs"]
    time_limit: Annotated[float | None, "seconds for a batch, after which the search ends with what it has"]
    precision: Annotated[
        Literal["float32", "int8", "auto"] | None,
        "int8: weights and activations of a Transformer in 8 bits on a CPU, faster; auto: int8 on a CPU and "
        "bfloat16 on a GPU, where they are supported",
    ]
    max_length_extra: Annotated[int | None, "constant added to the longest output"]


class CaptionKeys(DecodingKeys, total=False):
    """The same with `beam`."""

    beam: Annotated[int | None, BEAM]


class TextKeys(DecodingKeys, total=False):
    """Also keys that need the words of a source, a target vocabulary or further models."""

    shortlist: Annotated[
        int | None,
        "target tokens that are considered for each source token, beside the most frequent ones; faster with large "
        "vocabularies; 0: all tokens",
    ]
    max_length_factor: Annotated[float | None, "longest output, as a multiple of the source's length in pieces"]
    banned: Annotated[list[str] | None, "words and phrases that are never written"]
    glossary: Annotated[
        str | Path | Mapping[str, str] | None,
        "file of source TAB target lines, in Python also a dict; where the source has the left, the output has the "
        "right side",
    ]
    language_model: Annotated[
        str | Path | None,
        "folder of a language model over the target's tokens, for shallow fusion",
    ]
    lm_weight: Annotated[float | None, "weight of the language model's log-probabilities"]
    mbr: Annotated[
        Literal["chrf", "bleu"] | None,
        "minimum Bayes risk: of the candidates choose the one most like the others by this metric",
    ]
    rerank: Annotated[str | Path | None, "folder of a second translator that rescores the n-best list"]
    rerank_weight: Annotated[float | None, "weight of its score, from 0 to 1"]
    rerank_reversed: Annotated[
        bool | None,
        "it was trained on targets with their words in reverse order (right to left)",
    ]
    mbr_candidates: Annotated[int | None, "candidates of minimum Bayes risk: samples, or the n-best list"]


class SearchKeys(TextKeys, total=False):
    """All keys."""

    beam: Annotated[int | None, BEAM]


def _read_options() -> dict[str, Option]:
    hints = get_type_hints(SearchKeys, include_extras=True)
    options = {}
    for name in ("beam", *(name for name in hints if name != "beam")):
        kinds, description = get_args(hints[name])
        options[name] = Option(get_args(kinds)[0], description)
    return options


OPTIONS: dict[str, Option] = _read_options()
