"""Translation as a task: sentence pairs in batches of tokens, label-smoothed cross-entropy, scores by greedy search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.batching import token_batches
from harken.data.io.token_rows import ParallelBatch
from harken.data.packing import PackedPairs, Window, fits, pack, packed_batches, shrunk, window_of
from harken.data.text.pairs import Corpus
from harken.data.text.placeholders import Placeholders, fill
from harken.data.tokenizers.base import Tokenizer
from harken.metrics import corpus_bleu, corpus_chrf, exact_match
from harken.models.config import longest_of
from harken.models.encoder_decoder import TranslationModel
from harken.models.recurrent import captured
from harken.models.transformer import packed
from harken.search import Hypothesis, greedy_search
from harken.search.config import SearchOptions
from harken.search.dispatch import DecodingCall, decode
from harken.search.graphs import release_searches
from harken.tasks.sequence_task import SequenceTask, Sums, length_batches, perplexity, refuse_too_long
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.sources import distances_of, encode_pairs, max_lengths, trees_of_pairs
from harken.training.adapter import Adapter
from harken.training.log import SIGNATURE
from harken.training.task import Indices, Work

PACKED_SHAPES, ROUNDED_SHAPES = 4, 128  # of batches that get a CUDA graph each


class TranslationBatch(NamedTuple):
    """Sentence pairs as a network reads them."""

    pairs: ParallelBatch
    padded: bool  # whether some source is shorter than the others; known before a GPU has to be waited for
    distances: Tensor | None  # (B, S, S) between source pieces, where the model reads trees
    indices: Indices  # (B,)
    rounded: bool = False  # whether rows and columns of padding were added, so that few shapes occur


class PackedBatch(NamedTuple):
    """Sentence pairs packed into a window of fixed size."""

    pairs: PackedPairs
    indices: Indices  # (B,)


class TranslationTask(SequenceTask[TranslationModel, TranslationBatch | PackedBatch]):
    """See `harken.tasks.sequence_task`."""

    unread = frozenset()
    mode = "max"

    def __init__(
        self,
        recipe: TranslateRecipe,
        corpus: Corpus,
        model: TranslationModel,
        source: Tokenizer,
        target: Tokenizer,
        general: Corpus | None = None,
        adapter: Adapter | None = None,
    ) -> None:
        """
        Args:
            adapter: of the model, which is trained in its place (`adapt.rank`).
            general: pairs that are rehearsed and scored beside the corpus (`adapt.mix`).
        """
        self.recipe, self.source, self.target = recipe, source, target
        self.adapter = adapter
        self.validates_start = recipe.adapt.start is not None
        self.num_own, self.num_own_valid = len(corpus.train), len(corpus.valid)
        if general is not None:  # its pairs have the indices after those of the corpus
            corpus = replace(
                corpus, train=[*corpus.train, *general.train], valid=[*corpus.valid, *general.valid], tests={}
            )
        placeholders = Placeholders.of(recipe.data.markup, source, target)
        self.train = encode_pairs(corpus.train, source, target, placeholders)
        self.valid = encode_pairs(corpus.valid, source, target, placeholders, as_read=True)
        valid_lengths = np.maximum(self.valid.source.lengths, self.valid.target.lengths)
        super().__init__(model, recipe.train, self.train.target.lengths, valid_lengths)
        self.monitor = recipe.search.goal
        self.train_trees = trees_of_pairs(corpus.train, self.train, source, recipe)
        self.valid_trees = trees_of_pairs(corpus.valid, self.valid, source, recipe)
        sides = (side.lengths for part in (self.train, self.valid) for side in (part.source, part.target))
        excess, remedy = "sentences have more pieces than", "shorten the data, as by data.max_words, "
        lengths = np.concatenate(list(sides))
        refuse_too_long(lengths, longest_of(recipe.model), excess, ", its end counted", remedy)
        self.references = [pair.target for pair in corpus.valid]
        self.masked = [placeholders.mask(pair.source) for pair in corpus.valid] if placeholders.kinds else []
        self.loss_of = self.compiled(_loss)
        self.windows: dict[int, Window] = {}  # batch_tokens -> window
        self.of_model: tuple[TranslationModel, bool, tuple[int, int]] | None = None  # what `_facts` found

    def with_model(self, model: TranslationModel) -> TranslationTask:
        """The task with another network, which reads and writes the same pieces."""
        other = copy(self)
        other.model = model
        return other

    @property
    def packs(self) -> bool:
        """Whether pairs are packed: on a GPU, for networks that can read them (`harken.models.transformer.packed`)."""
        if not self.settings.device.startswith("cuda") or self.train_trees is not None:
            return False
        return packed.PACKED_LOSS.supports(self.model, torch.device(self.settings.device))

    @property
    def rounds(self) -> bool:
        """Whether sizes of padded batches can be rounded up: on a GPU, for `harken.models.recurrent.captured`."""
        settings = self.settings
        if not settings.device.startswith("cuda") or self.train_trees is not None or settings.compile:
            return False
        return self._facts()[0]

    def _facts(self) -> tuple[bool, tuple[int, int]]:
        """Whether updates can be captured, and `matrix_sizes`, of the model that the task has now."""
        if self.of_model is None or self.of_model[0] is not self.model:
            dtype, device = getattr(torch, self.settings.precision, torch.float32), self.settings.device
            can = captured.CAPTURED_LOSS.supports(self.model, torch.device(device), dtype)
            self.of_model = self.model, can, self.model.matrix_sizes()
        return self.of_model[1:]

    @property
    def static_shapes(self) -> int:
        """See `harken.training.strategies.captured`."""
        return PACKED_SHAPES if self.packs else ROUNDED_SHAPES if self.rounds else 0

    def window(self) -> Window:
        """The window whose longer side has `train.batch_tokens`."""
        budget = self.settings.batch_tokens
        if budget not in self.windows:
            self.windows[budget] = window_of(self.train.source.lengths, self.train.target.lengths, budget)
        return self.windows[budget]

    def epoch(self, number: int) -> Sequence[Indices]:
        """Packed windows, or batches bucketed by both lengths, in an order drawn for this epoch."""
        settings = self.settings
        lengths = self.train.source.lengths, self.train.target.lengths
        if self.packs:
            packed.grow_positions(self.model, sum(int(side.max(initial=1)) for side in lengths))
        rows = self._rows(number)
        if rows is not None:
            lengths = lengths[0][rows], lengths[1][rows]
        batches: Sequence[Indices]
        if self.packs:
            batches = packed_batches(*lengths, self.window(), seed=settings.seed, epoch=number)
        else:
            batches = token_batches(*lengths, settings.batch_tokens, seed=settings.seed, epoch=number)
        return batches if rows is None else [rows[batch] for batch in batches]

    def _rows(self, number: int) -> Indices | None:
        """The pairs of an epoch: all of the corpus, and a drawn part of those to rehearse; None where all are read."""
        others = len(self.train) - self.num_own
        if not others:
            return None
        share = self.recipe.adapt.mix_share
        count = min(others, round(self.num_own * share / (1 - share)))
        random = np.random.default_rng([self.settings.seed, number, others])
        drawn = np.sort(random.choice(others, count, replace=False)) + self.num_own
        return np.concatenate([np.arange(self.num_own), drawn])

    def collate(self, indices: Indices, valid: bool = False) -> TranslationBatch | PackedBatch:
        if not valid and self.packs and fits(self.train, indices, window := self.window()):
            return PackedBatch(pack(self.train, indices, shrunk(window, self.train, indices)), indices)
        ids, trees = (self.valid, self.valid_trees) if valid else (self.train, self.train_trees)
        pairs = ids.batch(indices)
        padded = int(pairs.source_lengths.min()) < pairs.source.shape[1]
        return TranslationBatch(pairs, padded, None if trees is None else distances_of(trees, indices), indices)

    def static_collate(self, indices: Indices) -> TranslationBatch | PackedBatch:
        """A training batch in one of few shapes: rows and columns of padding are added where pairs are not packed."""
        if not self.rounds:
            return self.collate(indices)
        pairs = self.train.batch(indices)
        (rows, sources), targets = pairs.source.shape, pairs.target_input.shape[1]
        sizes = captured.rounded_sizes(rows, sources, targets)
        return TranslationBatch(pairs.padded(*sizes), True, None, indices, rounded=True)

    def loss(self, model: TranslationModel, batch: TranslationBatch | PackedBatch) -> tuple[Tensor, int]:
        """Summed over the target's real tokens."""
        settings = self.settings
        if isinstance(batch, PackedBatch):
            arguments = packed.packed_arguments(batch.pairs)
            loss = packed.packed_loss(model, *arguments, settings.label_smoothing, settings.z_loss)
            return loss, self.size(batch.indices)
        loss = self.loss_of(model, *_arguments(batch), settings.label_smoothing, batch.distances, settings.z_loss)
        return loss, self.size(batch.indices)

    def is_static(self, batch: TranslationBatch | PackedBatch) -> bool:
        """Whether batches of this shape come again, and `static_loss` computes their loss."""
        return isinstance(batch, PackedBatch) or batch.rounded

    def static_loss(self, model: TranslationModel, batch: TranslationBatch | PackedBatch) -> Tensor:
        """The loss of a static batch, without reading anything back from the GPU."""
        if isinstance(batch, PackedBatch):
            return self.loss(model, batch)[0]
        return captured.captured_loss(model, *_arguments(batch), self.settings.label_smoothing, self.settings.z_loss)

    def work(self, indices: Indices) -> Work:
        """Tokens of both sides, and 6 FLOPs for each and each weight of a matrix that it is multiplied with."""
        offsets = self.train.source.offsets
        source, target = int((offsets[indices + 1] - offsets[indices]).sum()), self.size(indices)
        encoder, decoder = self._facts()[1]
        return Work(source + target, 6.0 * (source * encoder + target * decoder))

    def evaluate(self, model: TranslationModel, batch: TranslationBatch | PackedBatch) -> Sums:
        """Loss without smoothing; translations of the pairs that are to be scored by BLEU, each with its index."""
        assert isinstance(batch, TranslationBatch)
        pairs, most = batch.pairs, self.settings.validate_sentences or len(self.valid)
        is_general = bool(batch.indices[0] >= self.num_own_valid)
        scored = batch.indices - self.num_own_valid * is_general < most
        rows = torch.from_numpy(np.flatnonzero(scored)).to(pairs.source.device)
        outputs: list[str] = []
        if len(rows):
            distances = None if batch.distances is None else batch.distances[rows]
            hypotheses = self._search(model, pairs.source[rows], pairs.source_lengths[rows], distances)
            outputs = [self.target.decode(hypothesis.tokens) for hypothesis in hypotheses]
        indices = batch.indices[scored].tolist()
        if self.masked:
            outputs = [fill(text, *self.masked[index]) for text, index in zip(outputs, indices, strict=True)]
        translations = list(zip(indices, outputs, strict=True))
        if is_general:
            return {"general_translations": translations}
        return {
            "loss": float(model.loss(*_arguments(batch), 0.0, batch.distances)),
            "tokens": int(pairs.target_lengths.sum()),
            "translations": translations,
        }

    def valid_batches(self, part: int, parts: int) -> Iterable[Indices]:
        """See the base; no batch has pairs of the corpus and pairs to rehearse."""
        own, budget = self.num_own_valid, self.settings.batch_tokens
        batches = length_batches(self.valid_lengths[:own], budget, part, parts)
        return [*batches, *(own + batch for batch in length_batches(self.valid_lengths[own:], budget, part, parts))]

    def _search(
        self, model: TranslationModel, source: Tensor, lengths: Tensor, distances: Tensor | None
    ) -> list[Hypothesis]:
        """Greedy search; on a GPU in the precision that training has, by the backends of `harken translate`."""
        limits = max_lengths(self.recipe, lengths)
        if not source.is_cuda:
            state = model.start(source, lengths, distances, max_length=int(limits.max()))
            return greedy_search(model, state, len(source), max_lengths=limits)
        precision = "float32" if self.settings.precision == "float32" else "auto"
        options = SearchOptions.model_validate({"beam": 1, "precision": precision})
        with torch.autocast("cuda", enabled=False):
            outcome = decode(DecodingCall(model, source, lengths, limits, options, distances=distances))
        return [hypotheses[0] for hypotheses in outcome]

    def validate(self, part: int, parts: int) -> Sums:
        """See the base; the memory of captured searches is for training afterwards."""
        try:
            return super().validate(part, parts)
        finally:
            release_searches(self.model)

    def metrics(self, sums: Sums) -> dict[str, Any]:
        """Mean loss per token, perplexity, BLEU with its signature, chrF, and the percentage of exact matches."""
        loss, (outputs, references) = sums["loss"] / sums["tokens"], self._in_order(sums["translations"])
        bleu, general = corpus_bleu(outputs, references), dict[str, float]()
        if others := sums.get("general_translations"):
            scored = self._in_order(others)
            general = {"general_bleu": corpus_bleu(*scored).value, "general_chrf": corpus_chrf(*scored).value}
        return {
            "loss": loss,
            "perplexity": perplexity(loss),
            "bleu": bleu.value,
            "chrf": corpus_chrf(outputs, references).value,
            "exact_match": exact_match(outputs, references).value,
            **general,
            SIGNATURE: bleu.signature,
        }

    def _in_order(self, translations: Sequence[tuple[int, str]]) -> tuple[list[str], list[str]]:
        """Translations in the order of their indices, and the references."""
        texts = dict(translations)
        return [texts[index] for index in sorted(texts)], [self.references[index] for index in sorted(texts)]


def _loss(model: TranslationModel, *arguments: Any) -> Tensor:
    """The loss as a function of tensors alone, which is compiled."""
    return model.loss(*arguments)


def _arguments(batch: TranslationBatch) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    pairs = batch.pairs
    return pairs.source, pairs.source_lengths if batch.padded else None, pairs.target_input, pairs.target_output
