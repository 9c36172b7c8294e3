"""Sequence classification: encode, pool, dropout, a linear layer.

h_1 .. h_T = encoder(x_1 .. x_T)        any encoder, over ids or frames (`harken.models.reader`)
v = pool(h)                             last, mean, max or attention (`harken.models.heads.pooling`)
p(k | x) = softmax_k(W dropout(v) + b)

The network may be trained on finer labels than it predicts: `merged` maps each of F fine labels to one of K, and
p(k | x) is the sum over its fine labels (Li and Roth, 2002, have fifty kinds of answer in six).

Several members may read the same embeddings, each with its own encoder, pooling and output layer; the ensemble's
probabilities are the mean of theirs (Hansen and Salamon, 1990).

Predictions are calibrated by scales a that are fitted on validation data and not trained with the network
(`harken.metrics.calibration`). The scale of a network alone is the inverse of its temperature; a second one is that of
a bag of n-grams (`harken.models.heads.ngrams`), whose logits the user of the network adds:

p(k | x) = softmax_k(a_1 log p_network(k | x) + a_2 log p_ngrams(k | x))

Regularisation in training: word dropout, which replaces words by the unknown word (Iyyer et al., 2015), and Gaussian
noise on frames.

>>> from harken.models.reader import TokenInput
>>> from harken.models.recurrent.config import RecurrentEncoderConfig
>>> from harken.models.recurrent.encoder import RecurrentEncoder
>>> reader = Reader(TokenInput(10, 8), RecurrentEncoder(RecurrentEncoderConfig(embedding=8, width=4)))
>>> model = ClassifierModel(reader, labels=3, pooling="attention")
>>> logits, weights = model(torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([3, 2]))
>>> logits.shape, weights.shape, weights[1, 2].item()
(torch.Size([2, 3]), torch.Size([2, 3]), 0.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from harken.models.base import Encoder
from harken.models.heads.pooling import Pooling
from harken.models.reader import FrameInput, InContext, Reader
from harken.nn.dropout import Dropout

UNK, FIRST_WORD = 1, 4  # ids below are padding, unknown, begin and end


class Member(nn.Module):
    """One of several networks over the same embeddings (B, T, E)."""

    def __init__(self, encoder: Encoder, labels: int, pooling: str, score: str, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = Pooling(pooling, encoder.width, score)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(encoder.width, labels)

    def decide(self, embedded: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Logits (B, F), and the pooling's weights (B, T)."""
        vector, weights = self.pooling(self.encoder(embedded, lengths), lengths)  # (B, W)
        logits: Tensor = self.output(self.dropout(vector))
        return logits, weights


def average(members: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """The log of the mean probabilities (B, F), and the mean of the weights (B, T); a single member unchanged."""
    if len(members) == 1:
        return members[0]
    log_probs = torch.stack([torch.log_softmax(logits.float(), -1) for logits, _ in members])  # (M, B, F)
    weights = [weight for _, weight in members if weight is not None]
    return torch.logsumexp(log_probs, 0) - math.log(len(members)), torch.stack(weights).mean(0) if weights else None


class ClassifierModel(nn.Module):
    """Ids (B, T) or frames (B, T, C) -> logits (B, K) and the pooling's weights (B, T), None where it has none."""

    refitted: ClassVar = ("scales",)  # buffers that every validation fits
    scales: Tensor | None  # (1,) or, beside n-grams, (2,); None: not calibrated

    def __init__(
        self,
        reader: Reader,
        labels: int,
        *,
        pooling: str = "attention",
        score: str = "additive",
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        noise: float = 0.0,
        merged: Sequence[int] | None = None,
        others: Sequence[Encoder] = (),
        scales: int = 0,
    ) -> None:
        super().__init__()
        self.reader = reader
        self.pooling = Pooling(pooling, reader.width, score)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(reader.width, labels)
        self.others = nn.ModuleList(Member(encoder, labels, pooling, score, dropout) for encoder in others)
        self.word_dropout, self.noise = word_dropout, noise
        self.merged = None if merged is None else tuple(merged)
        self.register_buffer("scales", torch.full((scales,), 1 / scales) if scales else None)

    def forward(self, values: Any, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Steps of a row from `lengths` on are padding. Beside n-grams, the logits of the network are not scaled."""
        logits, weights = self.uncalibrated(values, lengths)
        if self.scales is None or len(self.scales) > 1:
            return logits, weights
        return self.scales * logits, weights

    def uncalibrated(self, values: Any, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The same without a scale."""
        fine, weights = self.finely(values, lengths)
        return self.merge(fine), weights

    def finely(self, values: Any, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The same before labels are merged, too: logits (B, F)."""
        return average(self.each(values, lengths))

    def each(self, values: Any, lengths: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
        """Fine logits and weights of every member, for the loss; each has its own word dropout and noise."""
        return [
            member.decide(self.reader.inputs(self.disturbed(values)), lengths)
            for member in (self, *self.others)
            if isinstance(member, ClassifierModel | Member)
        ]

    def decide(self, embedded: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The first member from embeddings (B, T, E) on: logits (B, F), and the pooling's weights."""
        vector, weights = self.pooling(self.reader.encoder(embedded, lengths), lengths)  # (B, W)
        logits: Tensor = self.output(self.dropout(vector))
        return logits, weights

    def merge(self, fine: Tensor) -> Tensor:
        """Logits (B, F) of fine labels -> (B, K), whose softmax sums the probabilities of the fine labels of each."""
        if self.merged is None:
            return fine
        owner = torch.tensor(self.merged, device=fine.device)  # (F,)
        apart = owner != torch.arange(max(self.merged) + 1, device=fine.device)[:, None]  # (K, F)
        return torch.logsumexp(fine[:, None].masked_fill(apart, -torch.inf), -1)

    def disturbed(self, values: Any) -> Any:
        """In training: some words replaced by the unknown word, or frames with noise."""
        if not self.training:
            return values
        if isinstance(values, InContext):
            return replace(values, values=self.disturbed(values.values))
        inputs = self.reader.inputs
        if isinstance(inputs, FrameInput):
            return values + self.noise * inputs.deviation * torch.randn_like(values) if self.noise else values
        if not self.word_dropout:
            return values
        dropped = torch.rand(values.shape, device=values.device) < self.word_dropout
        return values.masked_fill(dropped & (values >= FIRST_WORD), UNK)

    def dry_run(self, length: int) -> Tensor:
        """Logits (1, K) of a sequence of `length` steps (`harken.models.sizing`)."""
        logits: Tensor = self(self.reader.inputs.dummy(length), None)[0]  # type: ignore[operator]
        return logits

    def saliency(self, values: Any, lengths: Tensor | None) -> Tensor:
        """|d logit_k / d e_t| (B, T) of the predicted label k (Simonyan et al., 2014)."""
        with torch.enable_grad():
            embedded = self.reader.inputs(values).detach().requires_grad_()
            decisions = [member.decide(embedded, lengths) for member in (self, *self.others)]
            logits = self.merge(average(decisions)[0])
            (gradient,) = torch.autograd.grad(logits.amax(-1).sum(), embedded)
        norms: Tensor = gradient.norm(dim=-1)
        return norms
