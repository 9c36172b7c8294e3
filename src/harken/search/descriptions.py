"""The descriptions of all keys of `[search]`, for recipes and the command line; nothing is imported here."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple


class Option(NamedTuple):
    """A key of `[search]`."""

    kind: Any  # the type of its value; None is always allowed on the command line
    description: str


OPTIONS: dict[str, Option] = {
    "beam": Option(int, "beam width; 1 is greedy search"),
    "length_penalty": Option(float, "scores are divided by length to this power"),
    "length_rule": Option(
        Literal["power", "gnmt"],
        "power: divide by length ** length_penalty; gnmt: by ((5 + length) / 6) ** length_penalty",
    ),
    "word_reward": Option(float, "added to the final score for every token; negative: a penalty"),
    "coverage_penalty": Option(
        float, "weight of the coverage of the source by attention in the final score (Wu et al., 2016)"
    ),
    "stopping": Option(
        Literal["exact", "count", "first"],
        "exact: until no better hypothesis is possible; count: until beam * patience hypotheses have ended, which may "
        "miss better ones; first: until one has ended that beats all live ones",
    ),
    "patience": Option(float, "beam * patience hypotheses must end; implies stopping = count"),
    "min_length": Option(int, "fewest tokens of an output"),
    "no_repeat_ngram": Option(int, "no n-gram of this many tokens twice; 0: off"),
    "repetition_penalty": Option(float, "log-probabilities of tokens written before are multiplied by this"),
    "unknown_penalty": Option(float, "subtracted for every unknown word; with 1000 none is written"),
    "diversity_groups": Option(int, "groups of the beam that avoid each other's tokens"),
    "diversity": Option(float, "how much they avoid them, with diversity_groups above 1"),
    "sample": Option(bool, "draw outputs at random instead of searching for the best"),
    "temperature": Option(float, "sampling: below 1 sharper, above 1 flatter"),
    "top_k": Option(int, "sampling: only from this many most probable tokens"),
    "top_p": Option(float, "sampling: only from the most probable tokens of this mass"),
    "min_p": Option(float, "sampling: only from tokens this probable beside the best"),
    "seed": Option(int, "sampling: the same seed gives the same outputs"),
    "time_limit": Option(float, "seconds for a batch, after which the search ends with what it has"),
    "precision": Option(
        Literal["float32", "int8", "auto"],
        "int8: weights and activations of a Transformer in 8 bits on a CPU, faster; auto: int8 on a CPU and bfloat16 "
        "on a GPU, where they are supported",
    ),
    "shortlist": Option(
        int,
        "target tokens that are considered for each source token, beside the most frequent ones; faster with large "
        "vocabularies; 0: all tokens",
    ),
    "max_length_factor": Option(float, "longest output, as a multiple of the source's length in pieces"),
    "max_length_extra": Option(int, "constant added to the longest output"),
    "banned": Option(list[str], "words and phrases that are never written"),
    "glossary": Option(
        str, "file of source TAB target lines; where the source has the left, the output has the right side"
    ),
    "language_model": Option(str, "folder of a language model over the target's tokens, for shallow fusion"),
    "lm_weight": Option(float, "weight of the language model's log-probabilities"),
    "mbr": Option(
        Literal["chrf", "bleu"],
        "minimum Bayes risk: of the candidates choose the one most like the others by this metric",
    ),
    "rerank": Option(str, "folder of a second translator that rescores the n-best list"),
    "rerank_weight": Option(float, "weight of its score, from 0 to 1"),
    "rerank_reversed": Option(bool, "it was trained on targets with their words in reverse order (right to left)"),
    "mbr_candidates": Option(int, "candidates of minimum Bayes risk: samples, or the n-best list"),
}
