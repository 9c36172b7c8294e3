"""Captioning as a task: pictures with all of their captions in batches, cross-entropy, BLEU by greedy search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.data.images.captioned import CaptionCorpus, Captioned
from harken.data.io.token_rows import TokenRows
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import BOS, PAD
from harken.metrics.bleu import multi_reference_score
from harken.models.captioning.model import CaptionModel, to_images
from harken.nn.loss import smoothed_cross_entropy
from harken.search import Hypothesis, greedy_search
from harken.tasks.caption.recipe import CaptionRecipe
from harken.tasks.sequence_task import SequenceTask, Sums, perplexity
from harken.training.log import SIGNATURE
from harken.training.task import Indices

TOGETHER = 64  # pictures validated at once


class CaptionRows:
    """Pictures and the ids of their captions, each ended by EOS."""

    def __init__(self, examples: Sequence[Captioned], tokenizer: Tokenizer) -> None:
        self.pixels = torch.from_numpy(np.stack([example.image for example in examples]))  # (N, Y, X, 3) bytes
        self.references = [example.references for example in examples]
        self.rows = TokenRows.encode(tokenizer, [text for example in examples for text in example.captions])
        counts = [len(example.captions) for example in examples]
        self.first = np.cumsum([0, *counts])  # the rows of picture i are first[i] to first[i + 1]

    def __len__(self) -> int:
        return len(self.references)

    def padded(self) -> np.ndarray:
        """(N,) words that the captions of each picture take, padded to the longest of them."""
        longest: np.ndarray = np.maximum.reduceat(self.rows.lengths, self.first[:-1])
        return np.diff(self.first) * longest

    def captions(self, pictures: Indices) -> tuple[Tensor, Tensor, Tensor]:
        """(owner (R,), input (R, T), output (R, T)) of all captions of the pictures."""
        counts = self.first[pictures + 1] - self.first[pictures]
        rows = np.concatenate([np.arange(self.first[picture], self.first[picture + 1]) for picture in pictures])
        output, _ = self.rows.gather(rows)
        shifted = torch.cat([torch.full_like(output[:, :1], BOS), output[:, :-1]], 1)
        shifted[output == PAD] = PAD  # where a shorter row's EOS was moved to
        return torch.from_numpy(np.repeat(np.arange(len(pictures)), counts)), shifted, output


class CaptionBatch(NamedTuple):
    """Pictures and all of their captions."""

    pixels: Tensor  # (B, Y, X, 3) bytes
    owner: Tensor  # (R,) the place in the batch of each caption's picture
    target: Tensor  # (R, T) what the decoder reads
    labels: Tensor  # (R, T) what it should write
    indices: Indices  # (B,)


class CaptionTask(SequenceTask[CaptionModel, CaptionBatch]):
    """See `harken.tasks.sequence_task`; an example is a picture with all of its captions."""

    unit = "words"
    unread = frozenset()
    monitor = "bleu"
    mode = "max"

    def __init__(self, recipe: CaptionRecipe, corpus: CaptionCorpus, model: CaptionModel, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.train, self.valid = CaptionRows(corpus.train, tokenizer), CaptionRows(corpus.valid, tokenizer)
        super().__init__(model, recipe.train, self.train.padded(), self.valid.padded())
        self.terms = np.add.reduceat(self.train.rows.lengths, self.train.first[:-1])

    def size(self, indices: Indices) -> int:
        """Words of all captions, the end of each counted and padding not."""
        return int(self.terms[indices].sum())

    def collate(self, indices: Indices, valid: bool = False) -> CaptionBatch:
        rows = self.valid if valid else self.train
        return CaptionBatch(rows.pixels[torch.from_numpy(indices)], *rows.captions(indices), indices)

    def loss(self, model: CaptionModel, batch: CaptionBatch) -> tuple[Tensor, int]:
        """Summed over the real words."""
        images = self.changed(to_images(batch.pixels))
        captions = batch.owner, batch.target, batch.labels
        return model.loss_of_captions(images, *captions, self.settings.label_smoothing), self.size(batch.indices)

    def changed(self, images: Tensor) -> Tensor:
        """Training pictures (B, 3, Y, X) mirrored and moved at random, as the recipe says."""
        data = self.recipe.data
        if data.flips:
            mirrored = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
            images = torch.where(mirrored, images.flip(3), images)
        if data.shift:
            size = images.shape[2]
            wide = F.pad(images, [data.shift] * 4, mode="replicate")
            offsets = torch.randint(0, 2 * data.shift + 1, (len(images), 2)).tolist()
            pairs = zip(wide, offsets, strict=True)
            images = torch.stack([image[:, y : y + size, x : x + size] for image, (y, x) in pairs])
        return images

    def valid_batches(self, part: int, parts: int) -> Sequence[Indices]:
        mine = np.arange(part, len(self.valid), parts)
        return np.array_split(mine, math.ceil(len(mine) / TOGETHER)) if len(mine) else []

    def evaluate(self, model: CaptionModel, batch: CaptionBatch) -> Sums:
        """Loss of every caption; captions of the pictures that are to be scored by BLEU, each with its index."""
        images = to_images(batch.pixels)
        logits = model.logits(model(images[batch.owner], None, batch.target))  # (R, T, V)
        scored = batch.indices[batch.indices < (self.settings.validate_sentences or len(self.valid))]
        hypotheses: list[Hypothesis] = []
        if len(scored):
            state = model.start(images[: len(scored)], None)  # the indices rise, so these come first
            hypotheses = greedy_search(model, state, len(scored), max_lengths=self.recipe.search.max_length_extra)
        texts = [self.tokenizer.decode(best.tokens) for best in hypotheses]
        return {
            "loss": float(smoothed_cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), 0.0, PAD)),
            "tokens": int((batch.labels != PAD).sum()),
            "captions": list(zip(scored.tolist(), texts, strict=True)),
        }

    def metrics(self, sums: Sums) -> dict[str, Any]:
        """Mean loss per word, perplexity, BLEU with its signature and chrF against all references."""
        loss, captions = sums["loss"] / sums["tokens"], dict(sums["captions"])
        chosen = sorted(captions)
        both = [captions[i] for i in chosen], [self.valid.references[i] for i in chosen]
        bleu, chrf = (multi_reference_score(metric, *both) for metric in ("bleu", "chrf"))
        scores = {"bleu": bleu.value, "chrf": chrf.value, SIGNATURE: bleu.signature}
        return {"loss": loss, "perplexity": perplexity(loss), **scores}
