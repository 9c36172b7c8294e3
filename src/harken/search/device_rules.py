"""The rules of a search on a device: what `harken.search.rules` holds for a call, in tensors of fixed addresses.

Values are copied into these tensors before a search, so that one captured step serves all of them. Rules act in the
order of `ORDER`, in which `rules_of` and the commands give them. `restrict` acts on logits; the operations on scores
are one kernel (`harken.kernels.decoding.cuda.rules`), which also keeps the tokens of every hypothesis so far.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from harken.data.tokenizers.tokens import EOS, PAD, UNK
from harken.kernels.weights import has_hooks
from harken.search.config import SearchOptions
from harken.search.hypotheses import NEG_INF
from harken.search.program import rules_of
from harken.search.rules.base import ScoreRule
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.rules.penalties import (
    Banned,
    MinimumLength,
    NoRepeatNgram,
    RepetitionPenalty,
    Shortlist,
    UnknownPenalty,
)
from harken.search.rules.prefix import ForcedFirst, Prefix

ON_SCORES = (RepetitionPenalty, UnknownPenalty, NoRepeatNgram, MinimumLength, Banned, Prefix)
BEFORE_SOFTMAX = (ForcedFirst, Shortlist)
ORDER: tuple[type[ScoreRule], ...] = (
    *ON_SCORES[:5],
    ForcedFirst,
    Prefix,
    LanguageModelFusion,
    Shortlist,
)
LEAST_SEQUENCES, LEAST_TOKENS = 64, 8  # of banned sequences there is room for so many, and for more in buckets


def why_not_device_rules(options: SearchOptions, rules: Sequence[ScoreRule]) -> str | None:
    """The reason for which these rules do not run on a device; None: they do."""
    kinds = [type(rule) for rule in (*rules_of(options), *rules)]
    if other := next((kind for kind in kinds if kind not in ORDER), None):
        return f"{other.__name__} is a rule that is not captured"
    places = [ORDER.index(kind) for kind in kinds]
    if any(later <= earlier for earlier, later in pairwise(places)):
        return "there are several rules of a kind, or in another order than that of the commands"
    fusion = next((rule for rule in rules if isinstance(rule, LanguageModelFusion)), None)
    if fusion is not None and (not getattr(fusion.model, "is_static", False) or not is_captured(fusion.model)):
        return "the language model has no state of fixed shapes, is in training, or has hooks"
    return None


def is_captured(model: Any) -> bool:
    """Whether the steps of a network can be captured: it is not in training and has no hooks."""
    return isinstance(model, nn.Module) and not model.training and not has_hooks(model)


class LanguageStep:
    """A language model that follows the hypotheses of a search, R rows."""

    def __init__(self, model: Any, rows: int, length: int, device: torch.device) -> None:
        self.model, self.rows = weakref.ref(model), rows
        self.state = model.start(rows, max_length=length, static=True)
        self.weight = torch.zeros(1, device=device)

    def load(self, rule: LanguageModelFusion) -> None:
        """The state before the first token."""
        model = self.model()
        assert model is not None
        self.state.load_(model.start(self.rows, max_length=1, static=True))
        self.weight.fill_(rule.weight)

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Logits (R, V) after tokens (R,) at `position` (1,); texts begin after an EOS."""
        model = self.model()
        assert model is not None
        logits: Tensor = model.step(torch.where(position == 0, EOS, tokens), self.state)
        return logits


class DeviceRules:
    """The tensors of the rules of a search with `sources` x `beam` rows and at most `length` tokens.

    Args:
        banned: how many banned sequences there is room for, and tokens of each.
        kinds: the rules that the step applies; the others are left out of it.
        language: the model of `LanguageModelFusion`.
    """

    unknown = UNK

    def __init__(
        self,
        sources: int,
        beam: int,
        length: int,
        vocabulary: int,
        banned: tuple[int, int],
        kinds: frozenset[type[ScoreRule]],
        device: torch.device,
        language: Any = None,
    ) -> None:
        whole: dict[str, Any] = {"dtype": torch.int32, "device": device}
        rows = sources * beam
        self.beam, self.changes_scores = beam, not kinds <= set(BEFORE_SOFTMAX)
        self.language = None if language is None else LanguageStep(language, rows, length, device)
        self.first = torch.zeros(vocabulary, device=device) if ForcedFirst in kinds else None
        self.excluded: Tensor | None = None  # (B, V)
        if Shortlist in kinds:
            self.excluded = torch.zeros(sources, vocabulary, dtype=torch.bool, device=device)
        if self.changes_scores:
            self.numbers = torch.zeros(4, device=device)
            self.integers = torch.zeros(5, dtype=torch.long, device=device)
            self.banned = torch.zeros(banned[0], 1 + banned[1], **whole)  # the length of each, then its tokens
            self.prefixes = torch.zeros(sources, length, **whole)
            self.saved = torch.zeros(rows, length, device=device)  # logits of the tokens so far, before the rules
            self.kept = torch.zeros(rows, 2, device=device)  # and of the unknown word and of `target`
            self.target, self.log_sums = torch.zeros(rows, **whole), torch.zeros(rows, device=device)
            self.shift, self.only = torch.zeros(rows, device=device), torch.full((rows,), -1, **whole)
            self.histories = [torch.zeros(rows, length, **whole) for _ in range(2)]  # before and after a step

    def load(self, options: SearchOptions, rules: Sequence[ScoreRule]) -> None:
        """The values of a call, before its first step."""
        given = {type(rule): rule for rule in (*rules_of(options), *rules)}
        if self.first is not None:
            self.first.fill_(NEG_INF)[given[ForcedFirst].token] = 0.0  # type: ignore[attr-defined]
        if self.excluded is not None:
            allowed = torch.as_tensor(given[Shortlist].allowed)  # type: ignore[attr-defined]
            self.excluded[: len(allowed) if allowed.dim() > 1 else None] = ~allowed.to(self.excluded.device)
        if self.language is not None:
            self.language.load(given[LanguageModelFusion])  # type: ignore[arg-type]
        if self.changes_scores:
            self._load_operations(options, given)

    def _load_operations(self, options: SearchOptions, given: dict[type[ScoreRule], Any]) -> None:
        sequences: list[list[int]] = given[Banned].sequences() if Banned in given else []
        longest = max(map(len, sequences), default=1)
        if sequences:
            table = [[len(row), *row, *[PAD] * (self.banned.shape[1] - 1 - len(row))] for row in sequences]
            self.banned[: len(table)] = torch.tensor(table, dtype=torch.int32)
        bias = -1.0
        self.prefixes.fill_(PAD)
        if rule := given.get(Prefix):
            tokens = torch.as_tensor(rule.tokens[:, : self.prefixes.shape[1]])
            self.prefixes[: len(tokens), : tokens.shape[1]] = tokens
            bias = -1.0 if rule.bias is None else rule.bias
        softly = math.log1p(-bias) if bias > 0 else 0.0, math.log(bias) if bias > 0 else NEG_INF
        numbers = options.repetition_penalty, options.unknown_penalty, *softly
        integers = options.no_repeat_ngram, options.min_length, len(sequences), longest - 1, bias >= 0
        self.numbers.copy_(torch.tensor(numbers))
        self.integers.copy_(torch.tensor(integers))

    def restrict(self, logits: Tensor, position: Tensor) -> Tensor:
        """Logits (R, V) of the tokens at `position` (1,) without what has no probability at all; it may be in place."""
        if self.first is not None:
            logits = torch.where(position == 0, self.first.to(logits.dtype), logits)
        if self.excluded is not None:
            logits.view(len(self.excluded), self.beam, -1).masked_fill_(self.excluded[:, None], NEG_INF)
        return logits

    def reorder_(self, rows: Tensor) -> None:
        """Hypotheses change places."""
        if self.language is not None:
            self.language.state.reorder_(rows)
