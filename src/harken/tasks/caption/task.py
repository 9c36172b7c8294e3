"""Captioning as a task: pictures with all of their captions in batches, cross-entropy, BLEU by greedy search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.data.images.captioned import CaptionCorpus, Captioned
from harken.data.io.token_rows import TokenRows
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import BOS, PAD
from harken.models.captioning.model import CaptionModel, to_images
from harken.nn.loss import smoothed_cross_entropy
from harken.search import greedy_search
from harken.tasks.by_length import ByLength
from harken.tasks.caption.recipe import CaptionRecipe
from harken.training.task import Indices

TOGETHER = 64  # pictures validated at once


class CaptionRows:
    """Pictures and the ids of their captions, each ended by EOS."""

    def __init__(self, examples: Sequence[Captioned], tokenizer: Tokenizer) -> None:
        self.pixels = torch.from_numpy(np.stack([example.image for example in examples]))  # (N, Y, X, 3) bytes
        self.references = [example.references for example in examples]
        self.rows = TokenRows.encode(tokenizer, [text for example in examples for text in example.captions])
        self.first = np.cumsum(
            [0, *(len(example.captions) for example in examples)]
        )  # the rows of picture i are first[i] to first[i + 1]

    def __len__(self) -> int:
        return len(self.references)

    def captions(self, pictures: Indices) -> tuple[Tensor, Tensor, Tensor]:
        """(owner (R,), input (R, T), output (R, T)) of all captions of the pictures."""
        counts = self.first[pictures + 1] - self.first[pictures]
        rows = np.concatenate([np.arange(self.first[picture], self.first[picture + 1]) for picture in pictures])
        output, _ = self.rows.gather(rows)
        shifted = torch.cat([torch.full_like(output[:, :1], BOS), output[:, :-1]], 1)
        shifted[output == PAD] = PAD  # where a shorter row's EOS was moved to
        return torch.from_numpy(np.repeat(np.arange(len(pictures)), counts)), shifted, output


class CaptionTask(ByLength):
    """See `harken.training.task.Task`; an example is a picture with all of its captions."""

    monitor = "bleu"
    mode = "max"

    def __init__(self, recipe: CaptionRecipe, corpus: CaptionCorpus, model: CaptionModel, tokenizer: Tokenizer) -> None:
        self.recipe, self.settings, self.model, self.tokenizer = recipe, recipe.train, model, tokenizer
        self.train = CaptionRows(corpus.train, tokenizer)
        self.valid = CaptionRows(corpus.valid, tokenizer)
        lengths = self.train.rows.lengths
        spans = list(zip(self.train.first[:-1], self.train.first[1:], strict=True))
        self.terms = np.array([lengths[a:b].sum() for a, b in spans])
        self.lengths = np.array([(b - a) * lengths[a:b].max() for a, b in spans])  # what a picture takes, padded

    def size(self, examples: Indices) -> int:
        """Words of all captions, the end of each counted and padding not."""
        return int(self.terms[examples].sum())

    def loss(self, examples: Indices) -> Tensor:
        """Summed over the real words."""
        device = next(self.model.parameters()).device
        owner, target, wanted = (tensor.to(device) for tensor in self.train.captions(examples))
        images = self.changed(to_images(self.train.pixels[torch.from_numpy(examples)].to(device)))
        return self.model.loss_of_captions(images, owner, target, wanted, self.settings.label_smoothing)

    def changed(self, images: Tensor) -> Tensor:
        """Training pictures (B, 3, Y, X) mirrored and moved by chance, as the recipe says."""
        data = self.recipe.data
        if data.flips:
            mirrored = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
            images = torch.where(mirrored, images.flip(3), images)
        if data.shift:
            size = images.shape[2]
            wide = F.pad(images, [data.shift] * 4, mode="replicate")
            places = torch.randint(0, 2 * data.shift + 1, (len(images), 2)).tolist()
            images = torch.stack([one[:, y : y + size, x : x + size] for one, (y, x) in zip(wide, places, strict=True)])
        return images

    def validate(self, part: int, parts: int) -> Any:
        """Loss on every caption of the part; captions written for the pictures that are to be scored."""
        scored = self.settings.validate_sentences or len(self.valid)
        device = next(self.model.parameters()).device
        mine = np.arange(part, len(self.valid), parts)
        loss, tokens, found = 0.0, 0, {}
        for pictures in np.array_split(mine, max(1, math.ceil(len(mine) / TOGETHER))):
            if not len(pictures):
                continue
            owner, target, wanted = (tensor.to(device) for tensor in self.valid.captions(pictures))
            images = to_images(self.valid.pixels[torch.from_numpy(pictures)].to(device))
            logits = self.model.logits(self.model(images[owner], None, target))
            loss += float(smoothed_cross_entropy(logits.flatten(0, 1), wanted.flatten(), 0.0, PAD))
            tokens += int((wanted != PAD).sum())
            kept = pictures[pictures < scored]
            if len(kept):
                state = self.model.start(images[: len(kept)], None)  # the numbers rise, so these come first
                limit = self.recipe.search.max_length_extra
                for picture, best in zip(
                    kept, greedy_search(self.model, state, len(kept), max_lengths=limit), strict=True
                ):
                    found[int(picture)] = self.tokenizer.decode(best.tokens)
        return {"loss": loss, "tokens": tokens, "captions": list(found.items())}

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss per word, perplexity, and BLEU against all references."""
        from harken.metrics.bleu import multi_reference_bleu

        loss = sum(result["loss"] for result in results) / sum(result["tokens"] for result in results)
        captions = dict(item for result in results for item in result["captions"])
        chosen = sorted(captions)
        bleu = multi_reference_bleu([captions[i] for i in chosen], [self.valid.references[i] for i in chosen])
        return {"loss": loss, "perplexity": math.exp(min(loss, 50.0)), "bleu": bleu.value}
