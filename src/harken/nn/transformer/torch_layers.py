"""`torch.nn.Transformer` and its parts, with attention weights on request.

post  norm(x + f(x))     as in the paper, torch's default
pre   x + f(norm(x))     `norm_first=True`

Constructors, calls, shapes, masks, initial weights from the same seed and the names in `state_dict` are torch's.
`with_weights` also returns the attention weights of every layer and head. `EncoderStack` and `DecoderStack`
(`stack.py`) are what harken's own models use: they have positions and caches. Vaswani et al. (2017).

>>> layer = TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
>>> encoder = TransformerEncoder(layer, num_layers=3).eval()
>>> output, weights = encoder.with_weights(torch.randn(2, 5, 8))
>>> output.shape, weights.shape  # (B, T, D), (B, L, N, T, T)
(torch.Size([2, 5, 8]), torch.Size([2, 3, 2, 5, 5]))
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.attention.torch_multihead import MultiheadAttention
from harken.nn.recurrent.options import one_of
from harken.nn.transformer.block import Sublayer, connect

Activation = str | Callable[[Tensor], Tensor]
Weighted = tuple[Tensor, Tensor | None]  # a result, and attention weights (B, N, T, S) where they were asked for


class _Layer(nn.Module):
    """Self-attention, a feed-forward network, norms and dropout under torch's names; arguments as in torch."""

    attentions: ClassVar[tuple[str, ...]] = ("self_attn",)
    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        score: str = "scaled",
    ) -> None:
        super().__init__()
        if isinstance(activation, str):
            one_of("activation", activation, ("relu", "gelu"))
            activation = F.relu if activation == "relu" else F.gelu
        self.activation, self.norm_first = activation, norm_first
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, score=score, **factory
            )
            self.add_module(name, attention)
        self.linear1 = nn.Linear(d_model, dim_feedforward, bias, **factory)
        self.dropout = nn.Dropout(dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model, bias, **factory)
        numbers = range(1, len(self.attentions) + 2)
        for number in numbers:
            self.add_module(f"norm{number}", nn.LayerNorm(d_model, layer_norm_eps, bias=bias, **factory))
        for number in numbers:
            self.add_module(f"dropout{number}", nn.Dropout(dropout))

    def _wire(self, x: Tensor, *sublayers: Sublayer) -> Weighted:
        """The sub-layers and the feed-forward network, each as in `harken.nn.transformer.block.connect`."""
        weights = None
        for number, sublayer in enumerate((*sublayers, self._feed_forward), 1):
            norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
            x, of_sublayer = connect(x, sublayer, norm, dropout, self.norm_first)
            weights = weights if of_sublayer is None else of_sublayer
        return x, weights

    def _feed_forward(self, x: Tensor) -> Weighted:
        return self.linear2(self.dropout(self.activation(self.linear1(x)))), None

    _run: Callable[..., Weighted]  # the call's arguments and `need_weights` -> the result and the weights or None

    def with_weights(self, *arguments: Any, **named: Any) -> tuple[Tensor, Tensor]:
        """The result of the call, and the weights (B, N, T, S) of an encoder's own or of those over the memory."""
        output, weights = self._run(*arguments, **named, need_weights=True)
        assert weights is not None
        return output, weights


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, drop-in for `torch.nn.TransformerEncoderLayer`.

    >>> layer = TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)
    >>> layer(torch.randn(5, 3, 8), src_key_padding_mask=torch.zeros(3, 5, dtype=torch.bool)).shape  # (T, B, D)
    torch.Size([5, 3, 8])
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(T, B, D) -> (T, B, D); masks as in `MultiheadAttention`."""
        return self._run(src, src_mask, src_key_padding_mask, is_causal)[0]

    def _run(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False, need_weights: bool = False,
    ) -> Weighted:  # fmt: skip
        masks = (src_key_padding_mask, need_weights, src_mask, False, is_causal)
        return self._wire(src, lambda x: self.self_attn(x, x, x, *masks))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory and a feed-forward network; `torch.nn.TransformerDecoderLayer`.

    >>> layer = TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> layer(torch.randn(4, 3, 8), memory=torch.randn(5, 3, 8), tgt_is_causal=True).shape  # (T, B, D)
    torch.Size([4, 3, 8])
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(T, B, D), memory (S, B, D) -> (T, B, D); masks as in `MultiheadAttention`."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self._run(tgt, memory, *masks, tgt_is_causal, memory_is_causal)[0]

    def _run(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False, need_weights: bool = False,
    ) -> Weighted:  # fmt: skip
        own = (tgt_key_padding_mask, False, tgt_mask, False, tgt_is_causal)
        others = (memory_key_padding_mask, need_weights, memory_mask, False, memory_is_causal)
        return self._wire(
            tgt,
            lambda x: self.self_attn(x, x, x, *own),
            lambda x: self.multihead_attn(x, memory, memory, *others),
        )


class _Layers(nn.Module):
    """Copies of one layer, and a last norm."""

    def __init__(self, layer: nn.Module, num_layers: int, norm: nn.Module | None) -> None:
        super().__init__()
        if not isinstance(layer, nn.Module):
            raise TypeError(
                f"harken.nn.{type(self).__name__} takes a layer and their number, as torch's does; for a stack by its "
                "sizes (layers, width, heads, feedforward) use harken.nn.EncoderStack or DecoderStack"
            )
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def _run(self, x: Tensor, *arguments: Any) -> Tensor:
        """Through all layers, whose further arguments these are, and the last norm."""
        for layer in self.layers:
            x = layer(x, *arguments)
        return x if self.norm is None else self.norm(x)

    def with_weights(self, x: Tensor, *arguments: Any, **named: Any) -> tuple[Tensor, Tensor]:
        """The result of the call, and the weights (B, L, N, T, S) of every layer and head; arguments of the call."""
        weights = []
        for layer in self.layers:
            x, of_layer = layer.with_weights(x, *arguments, **self._of_layer(named))  # type: ignore[operator]
            weights.append(of_layer)
        return x if self.norm is None else self.norm(x), torch.stack(weights, -4)

    def _of_layer(self, named: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the call as a layer names them."""
        return named


class TransformerEncoder(_Layers):
    """`num_layers` copies of an encoder layer, drop-in for `torch.nn.TransformerEncoder`."""

    def __init__(
        self,
        encoder_layer: nn.Module,
        num_layers: int,
        norm: nn.Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)  # the last two are about torch's kernels, and change nothing

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """(T, B, D) -> (T, B, D)."""
        return self._run(src, mask, src_key_padding_mask, bool(is_causal))

    def _of_layer(self, named: dict[str, Any]) -> dict[str, Any]:
        return {"src_mask" if name == "mask" else name: value for name, value in named.items()}


class TransformerDecoder(_Layers):
    """`num_layers` copies of a decoder layer, drop-in for `torch.nn.TransformerDecoder`.

    >>> decoder = TransformerDecoder(TransformerDecoderLayer(8, nhead=2, dim_feedforward=16), num_layers=2).eval()
    >>> target, memory = torch.randn(4, 3, 8), torch.randn(5, 3, 8)
    >>> decoder(target, memory, tgt_is_causal=True).shape, decoder.with_weights(target, memory)[1].shape
    (torch.Size([4, 3, 8]), torch.Size([3, 2, 2, 4, 5]))
    """

    def __init__(self, decoder_layer: nn.Module, num_layers: int, norm: nn.Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(T, B, D), memory (S, B, D) -> (T, B, D)."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self._run(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)


class Transformer(nn.Module):
    """Encoder and decoder, drop-in for `torch.nn.Transformer`.

    >>> model = Transformer(8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> model(torch.randn(5, 3, 8), torch.randn(4, 3, 8), tgt_is_causal=True).shape  # (S, B, D), (T, B, D) -> (T, B, D)
    torch.Size([4, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: nn.Module | None = None,
        custom_decoder: nn.Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        score: str = "scaled",
    ) -> None:
        super().__init__()
        shape = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}

        def norm() -> nn.Module:
            return nn.LayerNorm(d_model, layer_norm_eps, bias=bias, **factory)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*shape, **factory, score=score), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*shape, **factory, score=score), num_decoder_layers, norm()
        )
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Sources (S, B, D) and targets (T, B, D) -> (T, B, D)."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        output: Tensor = self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)
        return output

    @staticmethod
    def generate_square_subsequent_mask(
        size: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """(size, size), -inf above the diagonal: what a causal `tgt_mask` is."""
        return torch.full((size, size), -torch.inf, device=device, dtype=dtype).triu(1)
