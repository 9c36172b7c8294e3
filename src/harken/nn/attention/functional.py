"""Attention: score, mask, softmax, weighted sum of the values.

e = score(Q, K) + bias(Q, K)      a = softmax(e where the mask is True)      c = a V

`attend_with_weights` is this equation and returns a. `attend` gives the same c and never stores a where a fused kernel
exists: torch's `scaled_dot_product_attention` for dot products, `harken.kernels.additive_attention` for the additive
score. A query that may see nothing gets weights and a context of 0. Bahdanau et al. (2015); Vaswani et al. (2017).

With the scaled dot product q . k / sqrt(K), a query that scores 112 and 96 against two keys of width 64:

>>> query, keys = torch.zeros(1, 64), torch.zeros(2, 64)
>>> query[0, 0], keys[0, 0], keys[1, 0] = 1.0, 112.0, 96.0
>>> [round(weight, 2) for weight in attend_with_weights(query, keys, keys)[1][0].tolist()]
[0.88, 0.12]

Soft attention becomes hard attention as the temperature goes to 0 (Xu et al., 2015):

>>> scores = torch.tensor([1.0, 3.0, 2.0])
>>> [[round(weight, 2) for weight in masked_softmax(scores / temperature).tolist()] for temperature in (1, 0.2)]
[[0.09, 0.67, 0.24], [0.0, 0.99, 0.01]]
>>> masked_softmax(scores, hard=True).tolist()
[0.0, 1.0, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.additive_attention.operator import ADDITIVE_ATTENTION
from harken.kernels.decoder_loop.attention import ATTENTION as ATTENTION_IN_LOOPS
from harken.kernels.recurrent.deferred import DeferredLinear
from harken.nn.attention.head_scores import AdditiveHeads, additive_scores
from harken.nn.attention.scores import AdditiveScore, CosineScore, DotScore, MultiplicativeScore, ScaledDotScore
from harken.nn.masks import attention_mask

ScoreFunction = Callable[[Tensor, Tensor], Tensor]  # queries (..., T, K), keys (..., S, K) -> scores (..., T, S)
BiasFunction = Callable[[Tensor, Tensor], Tensor]  # the same, added to the scores
ValueBiasFunction = Callable[[Tensor], Tensor]  # weights (..., T, S) -> what is added to the contexts (..., T, K)

SHORT = 64  # compiled for a GPU and without a mask, plain products are faster than fused kernels up to this length


def dot_product_scores(query: Tensor, key: Tensor) -> Tensor:
    """q . k / sqrt(K)."""
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def masked_softmax(scores: Tensor, mask: Tensor | None = None, hard: bool = False) -> Tensor:
    """Scores (..., S) -> weights (..., S) that sum to 1 and are exactly 0 where the mask is False.

    With `hard`, all weight is on the highest score, shared equally by ties. At least float32.
    """
    exact = torch.promote_types(scores.dtype, torch.float32)
    if mask is not None:  # -inf would give NaN in rows that are masked as a whole
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    if hard:
        best = (scores == scores.amax(-1, keepdim=True)).to(exact)
        weights = best / best.sum(-1, keepdim=True)
    else:
        weights = torch.softmax(scores, -1, dtype=exact)
    return weights if mask is None else torch.where(mask, weights, 0.0)


def attend_with_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    *,
    dropout: float = 0.0,
    score: ScoreFunction = dot_product_scores,
    bias: BiasFunction | None = None,
    value_bias: ValueBiasFunction | None = None,
    hard: bool = False,
) -> tuple[Tensor, Tensor]:
    """Queries (..., T, K), keys (..., S, K), values (..., S, V) -> contexts (..., T, V) and weights (..., T, S).

    Args:
        query, key, value: as above; leading sizes broadcast.
        mask: (..., T, S), True where visible.
        causal: query i, at position S - T + i, sees no later key.
        dropout: probability that a weight is zeroed; the weights returned are those before.
        score: how queries and keys are compared.
        bias: added to the scores, such as ALiBi's.
        value_bias: added to the contexts, such as the value vectors of relative positions.
        hard: hard attention; it has no gradient.
    """
    scores = score(query, key)  # (..., T, S)
    if bias is not None:
        scores = scores + bias(query, key)
    visible = attention_mask(mask, causal, query.shape[-2], key.shape[-2], query.device)
    weights = masked_softmax(scores, visible, hard).to(value.dtype)
    dropped = F.dropout(weights, dropout) if dropout else weights
    context = dropped @ value  # (..., T, V)
    if value_bias is not None:
        context = context + value_bias(dropped)
    return context, weights


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    *,
    dropout: float = 0.0,
    score: ScoreFunction = dot_product_scores,
    bias: BiasFunction | None = None,
    value_bias: ValueBiasFunction | None = None,
) -> Tensor:
    """The contexts of `attend_with_weights`, by a fused kernel where there is one.

    >>> query, key, value = torch.randn(2, 4, 3, 8), torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 8)
    >>> torch.allclose(attend(query, key, value), attend_with_weights(query, key, value)[0], atol=1e-6)
    True
    """
    is_dot_product = score is dot_product_scores or getattr(score, "is_dot_product", False)
    if is_dot_product and value_bias is None and not _is_faster_unfused(query, key, mask, dropout):
        return _fused_dot_product(query, key, value, mask, causal, dropout, bias)
    plain = bias is None and value_bias is None
    if isinstance(score, AdditiveHeads) and plain and ADDITIVE_ATTENTION.supports(query, key, value):
        return ADDITIVE_ATTENTION.run(query, key, score.energy, value, mask, causal, dropout)
    options = {"dropout": dropout, "score": score, "bias": bias, "value_bias": value_bias}
    return attend_with_weights(query, key, value, mask, causal, **options)[0]  # type: ignore[arg-type]


def _is_faster_unfused(query: Tensor, key: Tensor, mask: Tensor | None, dropout: float) -> bool:
    if not torch.compiler.is_compiling():
        return False
    short = query.shape[-2] <= SHORT and key.shape[-2] <= SHORT
    return query.is_cuda and short and mask is None and not dropout


def _fused_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    dropout: float,
    bias: BiasFunction | None,
) -> Tensor:
    """torch's fused attention, which takes one mask, boolean or added to the scores."""
    targets, sources = query.shape[-2], key.shape[-2]
    if mask is not None or bias is not None or targets != sources:  # torch's `is_causal` aligns to the first key
        mask, causal = attention_mask(mask, causal, targets, sources, query.device), False
    added = None if bias is None else bias(query, key)
    low = query.dtype if query.dtype == torch.bfloat16 and not query.is_cuda else None
    if low:  # torch's CPU kernel is several times slower in bfloat16 than in float32
        query, key, value = query.float(), key.float(), value.float()
        mask = mask if mask is None or mask.dtype == torch.bool else mask.float()
    if added is not None:
        added = added.to(query.dtype)
        mask = added if mask is None else torch.where(mask, added, -torch.inf)
    if not low:
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
    with torch.autocast("cpu", enabled=False):
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal).to(low)


def additive_attend_with_weights(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """`attend_with_weights` with the additive score v^T tanh(q + k) (Bahdanau et al., 2015); v (K,), or (N, K) by head.

    >>> queries, keys = torch.zeros(1, 2, 3), torch.tensor([[[9.0, 9.0, 9.0], [0.0, 0.0, 0.0]]])
    >>> context, _ = additive_attend_with_weights(queries, keys, torch.ones(3), torch.tensor([[[1.0], [0.0]]]))
    >>> [round(value, 4) for value in context.flatten().tolist()]  # e^3 / (e^3 + e^0), for both queries
    [0.9526, 0.9526]
    """
    score = partial(additive_scores, vector=vector)
    return attend_with_weights(queries, keys, values, mask, causal, score=score)


def additive_attend(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """The contexts of `additive_attend_with_weights`, on a GPU by kernels that never make a tensor of T x S x K.

    >>> queries, keys, values, vector = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6), torch.randn(4)
    >>> additive_attend(queries, keys, vector, values).shape
    torch.Size([2, 3, 6])
    """
    if ADDITIVE_ATTENTION.supports(queries, keys, values):
        return ADDITIVE_ATTENTION.run(queries, keys, vector, values, mask, causal, dropout)
    score = partial(additive_scores, vector=vector)
    return attend_with_weights(queries, keys, values, mask, causal, dropout=dropout, score=score)[0]


class Attention(nn.Module):
    """Attention of one query a row over a memory, as in a recurrent decoder.

    e_i = score(s, h_i)      a = softmax(e)      c = sum_i a_i h_i

    With `hard`, an evaluating layer uses hard attention; training is soft, as the arg-max has no gradient.

    >>> from harken.nn import AdditiveScore
    >>> attention, memory = Attention(AdditiveScore(4, 6)), torch.randn(2, 3, 6)
    >>> context, weights = attention(torch.randn(2, 4), attention.score.keys(memory), memory, mask=None)
    >>> context.shape, weights.shape
    (torch.Size([2, 6]), torch.Size([2, 3]))
    """

    def __init__(self, score: nn.Module, hard: bool = False) -> None:
        super().__init__()
        self.score, self.hard = score, hard

    def forward(
        self, query: Tensor, keys: Tensor, memory: Tensor, mask: Tensor | None, coverage: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Queries (R, H), keys from `score.keys(memory)`, memory (B, S, M) -> contexts (R, M), weights (R, S).

        R is a multiple of B: the queries of one memory, such as the hypotheses of a beam, are side by side and share
        it. Coverage (R, S), the sum of earlier weights, is for scores that take it.
        """
        beam, hard = len(query) // max(1, len(memory)), self.hard and not self.training

        def score(query: Tensor, keys: Tensor) -> Tensor:  # (B, beam, H), (B, S, A) -> (B, beam, S)
            scores: Tensor
            if beam == 1:
                given = () if coverage is None else (coverage,)
                scores = self.score(query[:, 0], keys, *given)
                return scores[:, None]
            given = () if coverage is None else (coverage.unflatten(0, (-1, beam)),)
            if _has_beams(self.score):
                scores = self.score.beams(query, keys, *given)  # type: ignore[operator]
                return scores
            each = (self.score(query[:, row], keys, *(part[:, row] for part in given)) for row in range(beam))
            return torch.stack(list(each), 1)

        visible = None if mask is None else mask[:, None]
        queries = query.unflatten(0, (len(memory), beam)) if beam > 1 else query[:, None]
        context, weights = attend_with_weights(queries, keys, memory, visible, score=score, hard=hard)
        return (context.flatten(0, 1), weights.flatten(0, 1)) if beam > 1 else (context[:, 0], weights[:, 0])

    def fused(self, keys: Tensor, memory: Tensor, mask: Tensor | None) -> Callable[[Tensor], Tensor] | None:
        """Queries (B, H) -> contexts (B, M) over one memory, for the steps of one forward pass.

        On a GPU one kernel computes a step's context without its weights; None where `forward` has to. There are no
        second derivatives.
        """
        if (self.hard and not self.training) or not ATTENTION_IN_LOOPS.supports(keys, memory):
            return None
        prepare = _prepared_query(self.score)
        if prepare is None:
            return None
        if torch.is_autocast_enabled("cuda"):
            low = torch.get_autocast_dtype("cuda")
            keys, memory = keys.to(low), memory.to(low)
        vector = self.score.energy.weight[0] if isinstance(self.score, AdditiveScore) else None
        attend = ATTENTION_IN_LOOPS.run(keys, memory, mask, vector)
        return lambda query: attend(prepare(query))


def _prepared_query(score: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """Queries (B, H) as the kernel compares them with the keys; None for a score that does more."""
    if type(score) is AdditiveScore and score.coverage is None:
        return DeferredLinear(score.query.weight)
    if type(score) is CosineScore:
        return lambda query: F.normalize(query, dim=-1) * torch.exp(-score.log_temperature)
    if type(score) is ScaledDotScore:
        return lambda query: query / math.sqrt(query.shape[-1])
    if type(score) in (DotScore, MultiplicativeScore):
        return lambda query: query
    return None


def _has_beams(score: nn.Module) -> bool:
    """Whether the class that defines a score also defines it for several queries; a subclass may redefine one alone."""
    return next("beams" in vars(kind) for kind in type(score).__mro__ if "forward" in vars(kind))
