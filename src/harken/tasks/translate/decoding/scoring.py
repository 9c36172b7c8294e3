"""The probabilities of given translations: forced decoding, token by token.

    log P(y | x) = sum over t of log P(y_t | y_<t, x),     EOS included

The final score is ranked as the model's own search ranks its outputs (`harken.search.ranking`), so it can be compared
with the scores that `harken translate --scores` prints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harken.data.io.token_rows import pad
from harken.data.tokenizers.tokens import BOS
from harken.errors import UserError
from harken.lazy_torch import no_grad, torch
from harken.search.ranking import Ranking

if TYPE_CHECKING:
    from harken.tasks.translate.sources import Sources
    from harken.tasks.translate.translator import Translator


@dataclass(frozen=True)
class ScoredPair:
    """A translation and its log-probability under a model."""

    source: str
    target: str
    pieces: list[str]  # of the target, EOS last
    token_scores: list[float]  # log-probability of each piece
    score: float  # ranked as the search ranks

    @property
    def log_probability(self) -> float:
        """log P(y | x)."""
        return math.fsum(self.token_scores)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a piece."""
        return math.exp(-self.log_probability / len(self.token_scores))


@no_grad
def forced_scores(
    translator: Translator, sources: Sources, indices: Sequence[int], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """log P(y_t | y_<t, x) of given tokens for some of the sources, and of EOS after them."""
    source, lengths, distances = sources.batch(list(indices), translator.device)
    before, _ = pad([[BOS, *tokens] for tokens in targets], eos=False)
    after, _ = pad([list(tokens) for tokens in targets], eos=True)
    hidden = translator.model(source, lengths, before.to(translator.device), distances)
    scores = torch.log_softmax(translator.model.logits(hidden).float(), -1)  # (B, T, V)
    rows = scores.gather(-1, after.to(translator.device)[..., None])[..., 0].tolist()  # (B, T)
    return [row[: len(tokens) + 1] for row, tokens in zip(rows, targets, strict=True)]


def score_pairs(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[ScoredPair]:
    """Score translations of sentences.

    Raises:
        UserError: not as many targets as sources, or an empty sentence on one side.
    """
    if len(sources) != len(targets):
        raise UserError(
            f"there are {len(sources):,} sources and {len(targets):,} targets; give one target for each source"
        )
    masked = list(translator.placeholders.mask_columns((sources, targets), as_read=True)[1])
    read, target_ids = translator.read(list(sources)), translator.target.encode_all(masked)
    for number, (left, right) in enumerate(zip(read.ids, target_ids, strict=True), start=1):
        if not left or not right:
            raise UserError(f"pair {number} has an empty side; both the sentence and its translation need a word")
    search = translator.recipe.search
    ranking = Ranking(search.length_penalty, search.length_rule, search.word_reward)
    order = sorted(range(len(target_ids)), key=lambda index: len(target_ids[index]))
    scored: dict[int, ScoredPair] = {}
    for start in range(0, len(order), search.batch_sentences):
        some = order[start : start + search.batch_sentences]
        rows = forced_scores(translator, read, some, [target_ids[index] for index in some])
        for index, parts in zip(some, rows, strict=True):
            pieces = [*translator.target.pieces(target_ids[index]), "</s>"]
            final = ranking.of(math.fsum(parts), len(parts))
            scored[index] = ScoredPair(read.texts[index], targets[index], pieces, parts, final)
    return [scored[index] for index in range(len(target_ids))]
