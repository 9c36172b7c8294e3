"""Translation as a task: sentence pairs in batches of tokens, label-smoothed cross-entropy, scores by greedy search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import ParallelIds
from harken.data.text.dependency_heads import Trees
from harken.data.text.pairs import Corpus, Pair
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import PAD
from harken.errors import UserError
from harken.models.config import longest_of
from harken.models.encoder_decoder import TranslationModel
from harken.nn.loss import smoothed_cross_entropy
from harken.search import greedy_search
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.sources import distances_of, trees_of
from harken.training.task import Indices


class TranslationTask:
    """See `harken.training.task.Task`."""

    mode = "max"

    def __init__(
        self, recipe: TranslateRecipe, corpus: Corpus, model: TranslationModel, source: Tokenizer, target: Tokenizer
    ) -> None:
        self.recipe, self.model = recipe, model
        self.monitor: str = recipe.search.goal
        self.source, self.target = source, target
        self.train = encode_pairs(corpus.train, source, target)
        self.valid = encode_pairs(corpus.valid, source, target)
        self.train_trees = trees_of_pairs(corpus.train, self.train, source, recipe)
        self.valid_trees = trees_of_pairs(corpus.valid, self.valid, source, recipe)
        refuse_too_long(recipe, self.train, self.valid)
        self.references = [pair.target for pair in corpus.valid]
        self.lengths = self.train.target.lengths
        self.loss_of: Callable[..., Tensor] = model.loss
        if recipe.train.compile:
            self.loss_of = torch.compile(model.loss, dynamic=True)

    def epoch(self, number: int) -> Sequence[Indices]:
        """Batches bucketed by length, in an order drawn for this epoch."""
        train = self.recipe.train
        return self.train.batches(train.batch_tokens, seed=train.seed, epoch=number)

    def size(self, examples: Indices) -> int:
        """Target tokens, the end of each sentence counted and padding not."""
        return int(self.lengths[examples].sum())

    def share(self, examples: Indices, parts: int) -> list[Indices]:
        """Deal the rows out by length, so that every part has as many tokens."""
        ordered = examples[np.argsort(self.lengths[examples], kind="stable")]
        return [ordered[part::parts] for part in range(parts)]

    def loss(self, examples: Indices) -> Tensor:
        """Summed over the target's real tokens."""
        batch = self.train.batch(examples)
        padded = int(batch.source_lengths.min()) < batch.source.shape[1]  # asked before a GPU has to be waited for
        device = next(self.model.parameters()).device
        batch, distances = batch.to(device), self._distances(self.train_trees, examples)
        lengths, smoothing = batch.source_lengths if padded else None, self.recipe.train.label_smoothing
        return self.loss_of(batch.source, lengths, batch.target_input, batch.target_output, smoothing, distances)

    def _distances(self, trees: Trees | None, examples: Indices) -> Tensor | None:
        """Between source pieces (B, S, S), where the model reads trees."""
        return None if trees is None else distances_of(trees, examples).to(next(self.model.parameters()).device)

    def validate(self, part: int, parts: int) -> Any:
        """Loss on every pair of the part; translations of those that are to be scored by BLEU."""
        scored = self.recipe.train.validate_sentences or len(self.valid)
        order = np.argsort(self.valid.source.lengths, kind="stable")
        mine = order[part::parts]
        loss, tokens, found = 0.0, 0, {}
        for examples in np.array_split(mine, max(1, math.ceil(len(mine) / 64))):
            if not len(examples):
                continue
            batch = self.valid.batch(examples).to(next(self.model.parameters()).device)
            distances = self._distances(self.valid_trees, examples)
            hidden = self.model(batch.source, batch.source_lengths, batch.target_input, distances)
            logits = self.model.logits(hidden)
            loss += float(smoothed_cross_entropy(logits.flatten(0, 1), batch.target_output.flatten(), 0.0, PAD))
            tokens += int(batch.target_lengths.sum())
            chosen = torch.from_numpy(np.flatnonzero(examples < scored)).to(batch.source.device)
            if len(chosen):
                lengths = batch.source_lengths[chosen]
                state = self.model.start(
                    batch.source[chosen], lengths, None if distances is None else distances[chosen]
                )
                limits = max_lengths(self.recipe, lengths)
                hypotheses = greedy_search(self.model, state, len(chosen), max_lengths=limits)
                kept = examples[examples < scored]
                for example, hypothesis in zip(kept, hypotheses, strict=True):
                    found[int(example)] = self.target.decode(hypothesis.tokens)
        return {"loss": loss, "tokens": tokens, "translations": list(found.items())}

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss per token, perplexity, BLEU, and the percentage of outputs that are right as a whole."""
        from harken.metrics import corpus_bleu, exact_match

        loss = sum(result["loss"] for result in results) / sum(result["tokens"] for result in results)
        translations = dict(item for result in results for item in result["translations"])
        chosen = sorted(translations)
        outputs, references = [translations[i] for i in chosen], [self.references[i] for i in chosen]
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 50.0)),
            "bleu": corpus_bleu(outputs, references).value,
            "exact_match": exact_match(outputs, references).value,
        }


def encode_pairs(pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer) -> ParallelIds:
    """Both sides as ids, each row ended by EOS."""
    return ParallelIds.encode([pair.source for pair in pairs], [pair.target for pair in pairs], source, target)


def trees_of_pairs(
    pairs: Sequence[Pair], ids: ParallelIds, tokenizer: Tokenizer, recipe: TranslateRecipe
) -> Trees | None:
    """The trees of the sources, where the model reads them."""
    if not recipe.reads_trees:
        return None
    rows = [ids.source[row][:-1].tolist() for row in range(len(ids))]  # without EOS
    return trees_of([pair.source for pair in pairs], rows, [pair.heads or () for pair in pairs], tokenizer)


def longest(recipe: TranslateRecipe) -> int | None:
    """The most pieces a sentence may have, its end counted, where positions are learned; None for no limit."""
    return longest_of(recipe.model)


def refuse_too_long(recipe: TranslateRecipe, *parts: ParallelIds) -> None:
    """Say before training, not in the midst of it, that sentences are longer than positions are learned.

    Raises:
        UserError: how many, how long, and what may be done.
    """
    limit = longest(recipe)
    lengths = np.concatenate([side.lengths for part in parts for side in (part.source, part.target)])
    if limit is not None and len(lengths) and lengths.max() > limit:
        raise UserError(
            f"{int((lengths > limit).sum()):,} sentences have more pieces than model.max_length {limit} (the longest "
            f"has {int(lengths.max())}, its end counted): raise model.max_length, shorten the data, as by "
            "data.max_words, or take positions that are not learned"
        )


def max_lengths(recipe: TranslateRecipe, source_lengths: Tensor) -> Tensor:
    """The most tokens each output may have, from the recipe's `[search]`, and no more than have positions."""
    search, limit = recipe.search, longest(recipe)
    lengths = (source_lengths * search.max_length_factor).long() + search.max_length_extra
    return lengths if limit is None else lengths.clamp(max=limit - 1)  # one is for BOS
