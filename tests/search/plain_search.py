"""The search in plain Python, one hypothesis at a time: the definition that the engine is compared with."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import torch
from step_models import MemoryState, TinyRecurrent

from harken.data.tokenizers.tokens import BOS, EOS, UNK

VOCABULARY = 6
WORDS = (UNK, 4, 5)  # what a model of this vocabulary writes


class Started(TinyRecurrent):
    """A tiny model whose sources are seeds."""

    def start(self, source: torch.Tensor, lengths: Any = None, **_: Any) -> MemoryState:  # type: ignore[override]
        rows = [TinyRecurrent.start(self, 1, int(seed)).memory for seed in source.view(-1)]
        return MemoryState(torch.cat(rows))


class Mind:
    """Log-probabilities of the next token after any prefix, for one source, remembered."""

    def __init__(self, model: Any, seed: int) -> None:
        self.model, self.seed = model, seed
        self.known: dict[tuple[int, ...], list[float]] = {}

    def __call__(self, prefix: tuple[int, ...]) -> list[float]:
        if prefix not in self.known:
            state = self.model.start(torch.tensor([self.seed]))
            for token in (BOS, *prefix):
                logits = self.model.step(torch.tensor([token]), state)
            self.known[prefix] = logits.log_softmax(-1)[0].tolist()
        return self.known[prefix]


def contains(tokens: tuple[int, ...], phrase: list[int]) -> bool:
    return any(list(tokens[at : at + len(phrase)]) == phrase for at in range(len(tokens)))


def rule_scores(prefix: tuple[int, ...], scores: list[float], asked: dict[str, Any]) -> list[float]:
    """The rules, in plain Python and in the order of the engine."""
    scores = list(scores)
    for token in set(prefix):
        scores[token] *= asked.get("repetition_penalty", 1.0)
    scores[UNK] -= asked.get("unknown_penalty", 0.0)
    if size := asked.get("no_repeat_ngram", 0):
        grams = {prefix[at : at + size] for at in range(len(prefix) - size + 1)}
        for token in range(VOCABULARY):
            if (*prefix[len(prefix) - size + 1 :], token)[-size:] in grams and len(prefix) >= size - 1:
                scores[token] = -math.inf
    if len(prefix) < asked.get("min_length", 0):
        scores[EOS] = -math.inf
    for banned in asked.get("banned", []):
        if list(prefix[len(prefix) - len(banned) + 1 :]) == banned[:-1] and len(prefix) >= len(banned) - 1:
            scores[banned[-1]] = -math.inf
    wanted = asked.get("prefix", [])
    if len(prefix) < len(wanted):
        bias, here = asked.get("bias"), wanted[len(prefix)]
        if bias is None:
            scores = [score if token == here else -math.inf for token, score in enumerate(scores)]
        elif list(prefix) == wanted[: len(prefix)]:
            scores = [score + math.log1p(-bias) for score in scores]
            total = math.exp(scores[here]) + bias
            scores[here] = math.log(total) if total else -math.inf
    if not all(any(contains(prefix, phrase) for phrase in alternatives) for alternatives in asked.get("phrases", [])):
        scores[EOS] = -math.inf
    if (fused := asked.get("fused")) is not None:
        scores = [score + asked["lm_weight"] * other for score, other in zip(scores, fused(prefix), strict=True)]
    return scores


def restricted(mind: Any, asked: dict[str, Any]) -> Any:
    """The distribution of a shortlist: that of the allowed tokens alone."""
    if (allowed := asked.get("shortlist")) is None:
        return mind

    def among_allowed(prefix: tuple[int, ...]) -> list[float]:
        raw = [score if token in {EOS, *allowed} else -math.inf for token, score in enumerate(mind(prefix))]
        total = math.log(sum(map(math.exp, raw)))
        return [score - total for score in raw]

    return among_allowed


def rank(score: float, length: int, asked: dict[str, Any]) -> float:
    base = length if asked.get("length_rule", "power") == "power" else (5 + length) / 6
    return score / base ** asked.get("length_penalty", 1.0) + asked.get("word_reward", 0.0) * length


def exhaustive(mind: Any, limit: int, asked: dict[str, Any]) -> list[tuple[list[int], float, float]]:
    """All outputs: (tokens, the model's score, rank), best first."""
    mind, outputs = restricted(mind, asked), []
    for length in range(limit):
        for tokens in product(WORDS, repeat=length):
            score = total = 0.0
            for at, token in enumerate((*tokens, EOS)):
                raw = mind(tokens[:at])
                total += raw[token]
                score += rule_scores(tokens[:at], raw, asked)[token]
            if score > -math.inf:
                outputs.append((list(tokens), total, rank(score, length + 1, asked)))
    return sorted(outputs, key=lambda output: -output[2])


def beam(mind: Any, limit: int, asked: dict[str, Any]) -> list[tuple[list[int], float]]:
    """Beam search in plain lists, with groups and every stopping rule: finished outputs with their ranks, best first.

    "exact" is computed by never stopping before the limit.
    """
    mind, width, groups = restricted(mind, asked), asked["beam"], asked.get("diversity_groups", 1)
    size, stopping, diversity = width // groups, asked.get("stopping", "exact"), asked.get("diversity", 0.5)
    live: list[list[tuple[tuple[int, ...], float]]] = [[((), 0.0)] for _ in range(groups)]
    finished: dict[tuple[int, ...], float] = {}
    for length in range(1, limit + 1):
        chosen: list[int] = []
        for group in range(groups):
            offers = []
            for prefix, score in live[group]:
                gains = rule_scores(prefix, mind(prefix), asked)
                offers += [
                    ((*prefix, token), score + gains[token], score + gains[token] - diversity * chosen.count(token))
                    for token in sorted((*WORDS, EOS))
                    if gains[token] > -math.inf
                ]
            offers.sort(key=lambda offer: -offer[2])
            for tokens, score, _ in offers[:size]:
                if tokens[-1] == EOS:
                    finished.setdefault(tokens[:-1], rank(score, length, asked))
            live[group] = [(tokens, score) for tokens, score, _ in offers if tokens[-1] != EOS][:size]
            chosen += [tokens[-1] for tokens, _ in live[group]]
        best_live = max((score for group in live for _, score in group), default=-math.inf)
        if stopping == "count" and len(finished) >= width * asked.get("patience", 1.0):
            break
        if stopping == "first" and finished and max(finished.values()) >= rank(best_live, length, asked):
            break
    return sorted(((list(tokens), final) for tokens, final in finished.items()), key=lambda output: -output[1])
