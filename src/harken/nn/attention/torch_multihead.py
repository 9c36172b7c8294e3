"""`torch.nn.MultiheadAttention`, with any score and positions, and with weights at no other result.

e = score(W_q q, W_k k) + bias      a = softmax(e)      o = W_o [a_1 V_1; ...; a_N V_N]      for each of N heads

Constructor, call, shapes, masks (True = hidden, or numbers added to the scores), initial weights from the same seed and
the names in `state_dict` are torch's. Without weights the context comes from a fused kernel (`attend`), with weights
from the equation (`attend_with_weights`); both give the same output. A query that may see nothing gets 0, not NaN.
`SelfAttention` and `CrossAttention` (`multihead.py`) are what harken's own models use: they have caches.

>>> _ = torch.manual_seed(0)
>>> layer, x = MultiheadAttention(8, num_heads=2, batch_first=True), torch.randn(3, 5, 8)
>>> output, weights = layer(x, x, x, average_attn_weights=False)
>>> output.shape, weights.shape  # (B, T, D), (B, N, T, S)
(torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 5]))
>>> peer = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
>>> peer.load_state_dict(layer.state_dict())
<All keys matched successfully>
>>> torch.allclose(peer(x, x, x)[0], output, atol=1e-6)
True
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.attention.functional import attend, attend_with_weights
from harken.nn.attention.head_scores import head_score
from harken.nn.attention.multihead import split_heads
from harken.nn.positions.base import AttentionPositions
from harken.nn.recurrent.options import check_dtype, probability


class MultiheadAttention(nn.Module):
    """Multi-head attention, drop-in for `torch.nn.MultiheadAttention`.

    Args:
        embed_dim, ..., dtype: as in torch.
        score: how queries and keys are compared: "scaled" as in torch, "dot", "cosine", "multiplicative", "additive".
        positions: for self-attention, such as `RotaryPositions(embed_dim // num_heads)` or `AlibiPositions(num_heads)`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        score: str = "scaled",
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} cannot be shared by {num_heads} heads: choose a multiple")
        probability("dropout", dropout, can_be_one=True)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        joint = self.kdim == embed_dim and self.vdim == embed_dim
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim, **factory)) if joint else None
        for name, width in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            weight = None if joint else nn.Parameter(torch.empty(embed_dim, width, **factory))
            self.register_parameter(f"{name}_proj_weight", weight)
        self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim, **factory)) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias, **factory)
        self.bias_k = nn.Parameter(torch.empty(1, 1, embed_dim, **factory)) if add_bias_kv else None
        self.bias_v = nn.Parameter(torch.empty(1, 1, embed_dim, **factory)) if add_bias_kv else None
        self._reset_parameters()  # before the score draws its own, so that the same seed gives torch's weights
        self.score = head_score(score, num_heads, self.head_dim).to(**factory)
        self.positions = positions or AttentionPositions()
        if self.positions.rotates_qk and not self.score.is_dot_product:
            raise ValueError(f"rotary positions need a dot-product score, and {score!r} is none; choose another")

    def _reset_parameters(self) -> None:
        for name, parameter in self.named_parameters():
            if "proj_weight" in name:
                nn.init.xavier_uniform_(parameter)
            elif name in ("bias_k", "bias_v"):
                nn.init.xavier_normal_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Outputs in the layout of the queries, and weights (B, T, S), (B, N, T, S) where not averaged, or None.

        Args:
            query, key, value: (T, B, D), (S, B, kdim), (S, B, vdim); batch before time with `batch_first=True`; or
                without B.
            key_padding_mask: (B, S), True where a key is padding; or numbers added to the scores.
            need_weights: also return the weights, before dropout.
            attn_mask: (T, S) or (B x N, T, S), True where a query must not see a key; or numbers added to the scores.
            average_attn_weights: the mean over the heads.
            is_causal: queries see no later keys; with an `attn_mask`, a remark that the mask says so, as in torch.
        """
        if query.dim() not in (2, 3):
            raise ValueError(
                f"MultiheadAttention takes inputs (T, B, D) or (T, D), but a query has {query.dim()} dimensions"
            )
        for name, part in (("query", query), ("key", key), ("value", value)):
            check_dtype(part, self.out_proj.weight, name)
        single = query.dim() == 2
        same_kv, same = key is value, query is key and key is value
        if single:
            query, key, value = query[None], key[None], value[None]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        q, k, v = self._project(query, key, value, same, same_kv)  # (B, T, D), (B, S, D), (B, S, D)
        extra = int(self.bias_k is not None) + int(self.add_zero_attn)
        k, v = self._extended(k, self.bias_k), self._extended(v, self.bias_v)
        q, k, v = (split_heads(part, self.num_heads) for part in (q, k, v))  # (B, N, T, K)
        q, k = self.positions.apply_rotary(self.score.queries(q), self.score.keys(k), 0)
        visible, added = self._masks(attn_mask, key_padding_mask, q, k.shape[2] - extra, extra)
        score, bias, value_bias = self.positions.functions(self.score, q.shape[2], k.shape[2])
        if added is not None:
            inner = bias
            bias = lambda a, b: added if inner is None else added + inner(a, b)  # noqa: E731
        options: dict[str, Any] = {"score": score, "bias": bias, "value_bias": value_bias}
        options["dropout"] = self.dropout if self.training else 0.0
        causal, weights = is_causal and attn_mask is None, None
        if need_weights:
            context, weights = attend_with_weights(q, k, v, visible, causal, **options)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            context = attend(q, k, v, visible, causal, **options)
        # (T, B, D) in memory, as torch has it, so that dropout behind the layer draws the same values
        output = self.out_proj(context.permute(2, 0, 1, 3).flatten(2))
        if single:
            return output[:, 0], None if weights is None else weights[0]
        return output.transpose(0, 1) if self.batch_first else output, weights

    def _project(
        self, query: Tensor, key: Tensor, value: Tensor, same: bool, same_kv: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """W_q q, W_k k, W_v v; one product for those that read the same."""
        bias, width = self.in_proj_bias, self.embed_dim
        b_q, b_k, b_v = (None, None, None) if bias is None else bias.chunk(3)
        joint = self.in_proj_weight
        if joint is not None and same:
            q, k, v = F.linear(query, joint, bias).chunk(3, -1)
            return q, k, v
        if joint is not None and same_kv:
            k, v = F.linear(key, joint[width:], None if bias is None else bias[width:]).chunk(2, -1)
            return F.linear(query, joint[:width], b_q), k, v
        separate: Any = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        W_q, W_k, W_v = separate if joint is None else joint.chunk(3)
        return F.linear(query, W_q, b_q), F.linear(key, W_k, b_k), F.linear(value, W_v, b_v)

    def _extended(self, values: Tensor, learned: Tensor | None) -> Tensor:
        """Keys or values (B, S, D) with a learned one and a zero behind them, where the layer has them."""
        batch, _, width = values.shape
        parts = [values] if learned is None else [values, learned.to(values.dtype).expand(batch, 1, width)]
        parts += [values.new_zeros(batch, 1, width)] if self.add_zero_attn else []
        return torch.cat(parts, 1) if len(parts) > 1 else values

    def _masks(
        self, attn_mask: Tensor | None, padding: Tensor | None, query: Tensor, keys: int, extra: int
    ) -> tuple[Tensor | None, Tensor | None]:
        """One mask (B or 1, N or 1, T or 1, S), True = visible, and one sum of what is added to the scores."""
        batch, heads, targets, _ = query.shape
        visible: Tensor | None = None
        added: Tensor | None = None
        for name, mask in (("attn_mask", attn_mask), ("key_padding_mask", padding)):
            if mask is not None and mask.dtype != torch.bool and not mask.is_floating_point():
                raise ValueError(f"{name} has the dtype {mask.dtype}; masks are bool (True = hidden), or floats")
        if attn_mask is not None and tuple(attn_mask.shape) not in ((targets, keys), (batch * heads, targets, keys)):
            raise ValueError(
                f"attn_mask has shape {tuple(attn_mask.shape)}, but here it is ({targets}, {keys}), or "
                f"({batch * heads}, {targets}, {keys}) with a mask for each row and head"
            )
        if padding is not None and tuple(padding.shape) != (batch, keys):
            raise ValueError(f"key_padding_mask has shape {tuple(padding.shape)}, but here it is ({batch}, {keys})")
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.view(batch, heads, targets, keys)
        for mask in (attn_mask, None if padding is None else padding[:, None, None]):
            if mask is None:
                continue
            allowed = ~mask if mask.dtype == torch.bool else mask != -torch.inf
            visible = allowed if visible is None else visible & allowed
            if mask.is_floating_point():
                bias = mask.masked_fill(~allowed, 0.0).to(query.dtype)
                added = bias if added is None else added + bias
        if extra:  # keys that the layer adds are always visible
            visible = None if visible is None else F.pad(visible, (0, extra), value=True)
            added = None if added is None else F.pad(added, (0, extra))
        while visible is not None and visible.dim() < 4:
            visible = visible[None]
        return visible, added

    def extra_repr(self) -> str:
        options = [f"{self.embed_dim}, num_heads={self.num_heads}"]
        options += [f"dropout={self.dropout}"] if self.dropout else []
        options += ["batch_first=True"] if self.batch_first else []
        return ", ".join(options)
