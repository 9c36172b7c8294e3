"""A bag of n-grams: a linear classifier of texts, which few examples suffice for.

x_j = idf_j [the text has n-gram j] / norm        n-grams of 1 to N tokens with their begin and end, norm: |x| = 1
idf_j = 1 + ln((1 + D) / (1 + d_j))               D training texts, d_j of them with the n-gram
p(k | x) = softmax_k(W x + b)

W and b are those of logistic regression: they minimise the cross-entropy summed over the texts plus |W|^2 / (2 C), a
convex problem that L-BFGS solves (Liu and Nocedal, 1989); C is chosen on validation data. An n-gram of ids i_1 .. i_n
is the number with the digits i_1 + 1 .. i_n + 1 in base V + 1, so a sorted array of numbers is the vocabulary.

>>> ids, lengths = torch.tensor([[5, 6, 3], [7, 3, 0]] * 4), torch.tensor([3, 2] * 4)
>>> model = NGrams.learn([(ids, lengths)], size=8, order=2, labels=2)
>>> len(model.keys)                                             # 5, 6, 7, and pairs with begin and end
8
>>> model.fit(model.matrix([(ids, lengths)]), torch.tensor([0, 1] * 4), strength=10.0)
>>> model(ids, lengths).argmax(1).tolist()
[0, 1, 0, 1, 0, 1, 0, 1]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BEGIN, FIRST_WORD = 2, 4  # ids below are padding, unknown, begin and end
MIN_TEXTS = 2  # that have an n-gram of the vocabulary
MAX_NGRAMS = 200_000
MAX_WEIGHTS = 4_000_000  # n-grams times labels
ITERATIONS = 60
Batch = tuple[Tensor, Tensor]  # ids (B, T) and lengths (B,)


class NGrams(nn.Module):
    """Ids (B, T) -> logits (B, K). Nothing in it is trained with a network, so all tensors are buffers."""

    keys: Tensor
    idf: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, count: int, size: int, order: int, labels: int) -> None:
        """A vocabulary of `count` n-grams of up to `order` of `size` ids, to be filled by `learn` or from a file."""
        super().__init__()
        self.base, self.order = size + 1, largest_order(size, order)
        self.register_buffer("keys", torch.zeros(count, dtype=torch.long))
        self.register_buffer("idf", torch.zeros(count))
        self.register_buffer("weight", torch.zeros(count, labels))
        self.register_buffer("bias", torch.zeros(labels))

    @classmethod
    def learn(cls, batches: Iterable[Batch], size: int, order: int, labels: int) -> Self:
        """The most frequent n-grams of training texts, with weights of 0."""
        empty = cls(0, size, order, labels)
        parts, texts = [torch.zeros(0, dtype=torch.long)], 0
        for ids, lengths in batches:
            keys, is_first = empty.numbers(ids, lengths)
            parts.append(keys[is_first])
            texts += len(ids)
        keys, counts = torch.cat(parts).unique(return_counts=True)
        keys, counts = keys[counts >= MIN_TEXTS], counts[counts >= MIN_TEXTS]
        most = max(1, min(MAX_NGRAMS, MAX_WEIGHTS // labels))
        chosen = counts.argsort(descending=True, stable=True)[:most].sort().values
        model = cls(len(chosen), size, order, labels)
        model.keys.copy_(keys[chosen])
        model.idf.copy_(1 + torch.log((1 + texts) / (1 + counts[chosen].double())))
        return model

    def numbers(self, ids: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """The n-grams of each text as sorted numbers (B, M), and which are there for the first time (B, M)."""
        steps = torch.arange(ids.shape[1], device=ids.device)
        if lengths is not None:
            ids = torch.where(steps < lengths[:, None], ids, -1)
        ids = F.pad(ids, (1, 0), value=BEGIN)  # (B, T + 1)
        parts = []
        for length in range(1, self.order + 1):
            windows = ids.unfold(1, length, 1) if ids.shape[1] >= length else ids[:, :0, None]  # (B, T', n)
            powers = self.base ** torch.arange(length - 1, -1, -1, device=ids.device)
            is_inside = (windows >= 0).all(-1) & (windows >= FIRST_WORD).any(-1)
            parts.append(torch.where(is_inside, ((windows + 1) * powers).sum(-1), -1))
        keys = torch.cat(parts, 1).sort(1).values
        previous = F.pad(keys[:, :-1], (1, 0), value=-1)
        return keys, keys != previous

    def features(self, ids: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """The indices in the vocabulary (B, M) of a text's n-grams, and their values x (B, M)."""
        keys, is_first = self.numbers(ids, lengths)
        indices = torch.searchsorted(self.keys, keys).clamp(max=max(0, len(self.keys) - 1))
        is_known = is_first & (self.keys[indices] == keys) if len(self.keys) else torch.zeros_like(is_first)
        values = torch.where(is_known, self.idf[indices], 0.0) if len(self.keys) else self.idf.new_zeros(keys.shape)
        return indices, F.normalize(values, dim=1)

    def forward(self, ids: Tensor, lengths: Tensor | None) -> Tensor:
        """Logits (B, K)."""
        indices, values = self.features(ids, lengths)
        if not len(self.keys):
            return self.bias.expand(len(ids), -1)
        return F.embedding_bag(indices, self.weight, mode="sum", per_sample_weights=values) + self.bias

    def fit(self, texts: SparseMatrix, labels: Tensor, strength: float, class_weights: Tensor | None = None) -> None:
        """Logistic regression by L-BFGS, from the present weights on.

        Args:
            texts: (N, V) as `matrix` gives them.
            labels: (N,) numbers of their classes.
            strength: C, the inverse strength of the penalty.
            class_weights: (K,) by which the terms of the loss are multiplied.
        """
        transposed = texts.transposed(len(self.keys))  # (V, N), for the gradient
        count, targets = len(labels), F.one_hot(labels, len(self.bias)).float()  # (N, K)
        factors = torch.ones(count, 1) if class_weights is None else class_weights[labels][:, None]
        optimizer = torch.optim.LBFGS(
            [self.weight, self.bias], max_iter=ITERATIONS, tolerance_change=1e-7, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            log_probs = torch.log_softmax(texts.times(self.weight) + self.bias, -1)
            residuals = factors * (log_probs.exp() - targets) / count
            self.weight.grad = transposed.times(residuals) + self.weight / (strength * count)
            self.bias.grad = residuals.sum(0)
            loss = -(factors * targets * log_probs).sum() / count
            return loss + self.weight.square().sum() / (2 * strength * count)

        with torch.no_grad():
            optimizer.step(closure)  # type: ignore[arg-type]
        self.weight.grad = self.bias.grad = None

    def matrix(self, batches: Iterable[Batch]) -> SparseMatrix:
        """The features x of all texts (N, V)."""
        columns, values, counts = [self.keys[:0]], [self.idf[:0]], [0]
        for ids, lengths in batches:
            indices, present = self.features(ids, lengths)
            is_set = present != 0
            columns.append(indices[is_set])
            values.append(present[is_set])
            counts += is_set.sum(1).tolist()
        return SparseMatrix(torch.cat(columns), torch.cat(values), torch.tensor(counts).cumsum(0))


class SparseMatrix(NamedTuple):
    """A matrix (R, C) by its entries, row after row."""

    columns: Tensor  # (E,)
    values: Tensor  # (E,)
    starts: Tensor  # (R + 1,) where the entries of each row begin, and where the last ends

    def times(self, dense: Tensor) -> Tensor:
        """The product (R, D) with a dense matrix (C, D)."""
        return F.embedding_bag(
            self.columns, dense, self.starts, mode="sum", per_sample_weights=self.values, include_last_offset=True
        )

    def transposed(self, columns: int) -> SparseMatrix:
        """The matrix (C, R) of this one, which has so many columns."""
        order = self.columns.argsort(stable=True)
        rows = torch.arange(len(self.starts) - 1).repeat_interleave(self.starts.diff())
        starts = F.pad(self.columns.bincount(minlength=columns).cumsum(0), (1, 0))
        return SparseMatrix(rows[order], self.values[order], starts)


def largest_order(size: int, order: int) -> int:
    """The longest n-gram of up to `order` of `size` ids whose number 64 bits hold.

    >>> largest_order(100, 5), largest_order(60_000, 5)
    (5, 3)
    """
    while order > 1 and (size + 1) ** order >= 2**63:
        order -= 1
    return order
