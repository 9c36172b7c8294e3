"""The attention weights of any PyTorch model while it runs, layer by layer and head by head.

Works on `nn.MultiheadAttention` wherever it is (torch's Transformer layers discard the weights; here they are kept),
harken's attention layers, and models that return attentions when called with `output_attentions=True`, as those of
Hugging Face do (loaded with `attn_implementation="eager"`: their fused kernels have no weights). The model is left as
it was.

>>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3).eval()
>>> maps = attention_maps(encoder, torch.randn(1, 4, 8))
>>> maps
AttentionMaps(3 layers: layers.0.self_attn (1, 2, 4, 4), layers.1.self_attn (1, 2, 4, 4), layers.2.self_attn \
(1, 2, 4, 4))
>>> maps[0].weights.sum(-1).round(4).tolist()  # (B, N, T): weights sum to 1
[[[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]]
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from harken.errors import UserError
from harken.inspection.measures.running import unwrap
from harken.inspection.measures.tracing import NamedLayers, hooks, still
from harken.nn.attention.functional import Attention
from harken.nn.attention.multihead import CrossAttention, SelfAttention
from harken.nn.attention.torch_multihead import MultiheadAttention

if TYPE_CHECKING:
    from harken.inspection.pictures.grid import AttentionGrid


@dataclass(frozen=True)
class LayerAttention:
    """The weights of one attention layer."""

    name: str
    weights: np.ndarray  # (B, N, T, S), each row of it sums to 1

    def __repr__(self) -> str:
        return f"{self.name} {self.weights.shape}"


@dataclass(frozen=True)
class AttentionMaps(NamedLayers[LayerAttention]):
    """All attention layers in the order in which they ran; `maps[0]`, `maps["encoder.layers.0.self_attn"]`."""

    def picture(
        self,
        source: Sequence[str] | None = None,
        target: Sequence[str] | None = None,
        *,
        row: int = 0,
        layers: str | None = None,
    ) -> AttentionGrid:
        """All heads of the layers that look at the same tokens.

        Args:
            source: the tokens that are looked at; their numbers by default.
            target: the tokens that look; the source where there are as many.
            row: which row of the batch.
            layers: only layers with this in their name; by default those shaped as the first.

        Raises:
            UserError: no such layers, or tokens that do not fit.
        """
        from harken.inspection.pictures.grid import AttentionGrid

        named = [layer for layer in self.layers if layers is None or layers in layer.name]
        if not named:
            known = ", ".join(layer.name for layer in self.layers)
            raise UserError(f"no attention layer has {layers!r} in its name; there are {known}")
        alike = [layer.weights[row] for layer in named if layer.weights.shape[1:] == named[0].weights.shape[1:]]
        _, targets, sources = alike[0].shape
        source = source or [str(number) for number in range(1, sources + 1)]
        target = target or (source if targets == sources else [str(number) for number in range(1, targets + 1)])
        return AttentionGrid(np.stack(alike), source, target, f"Attention of {named[0].name} and layers like it")

    def __repr__(self) -> str:
        count = len(self.layers)
        return f"AttentionMaps({count} layer{'s' * (count != 1)}: {', '.join(map(repr, self.layers))})"


def attention_maps(model: Any, batch: Any, **options: Any) -> AttentionMaps:
    """Run a model on a batch and keep the weights of all its attention layers.

    Args:
        model: any module with attention, or a harken model.
        batch: what it is called with: a tensor, a tuple of arguments, or a dict of named ones; for a harken model its
            examples, such as pairs of sentences.
        options: further named arguments of the call.

    Raises:
        UserError: no attention layer ran.
    """
    network, batch = unwrap(model, batch)
    with still(network), capturing(network) as captured:
        result = _call(network, batch, options)
    layers = [LayerAttention(name, _numbers(weights)) for name, weights in captured]
    layers = layers or [LayerAttention(name, _numbers(weights)) for name, weights in _returned(result)]
    if not layers:
        returns_them = "output_attentions" in inspect.signature(network.forward).parameters
        hint = 'load it with attn_implementation="eager"' if returns_them else "only attention layers have them"
        raise UserError(f"{type(network).__name__} gave no attention weights; {hint}")
    return AttentionMaps(layers)


@contextmanager
def capturing(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """A list that fills with (name, weights (B, N, T, S)) of every attention layer until the block ends."""
    captured: list[tuple[str, Tensor]] = []
    with hooks() as handles:
        for name, module in model.named_modules():
            path = name or type(module).__name__
            if isinstance(module, nn.MultiheadAttention | MultiheadAttention):
                handles += _watch_multihead(path, module, captured)
            elif isinstance(module, SelfAttention | CrossAttention):
                handles.append(module.register_forward_hook(_again_with_weights(path, captured), with_kwargs=True))
            elif isinstance(module, Attention):
                handles.append(module.register_forward_hook(_single_query(path, captured)))
        yield captured


def _watch_multihead(name: str, module: nn.Module, captured: list[tuple[str, Tensor]]) -> list[Any]:
    """Ask for the weights of each head, and give the caller what it asked for."""
    signature = inspect.signature(module.forward)
    requested: list[tuple[bool, bool]] = []

    def before(_: nn.Module, arguments: Any, options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        requested.append((bound.arguments["need_weights"], bound.arguments["average_attn_weights"]))
        bound.arguments |= {"need_weights": True, "average_attn_weights": False}
        return bound.args, bound.kwargs

    def after(_: nn.Module, inputs: Any, result: tuple[Tensor, Tensor]) -> Any:
        output, weights = result
        single = weights.dim() == 3  # a sequence without a batch
        captured.append((name, weights[None] if single else weights))
        need, average = requested.pop()
        return output, (weights.mean(-3) if average else weights) if need else None

    return [module.register_forward_pre_hook(before, with_kwargs=True), module.register_forward_hook(after)]


def _again_with_weights(name: str, captured: list[tuple[str, Tensor]]) -> Any:
    def after(module: Any, arguments: Any, options: Any, result: Any) -> None:
        bound = inspect.signature(module.forward).bind(*arguments, **options)
        bound.apply_defaults()
        with torch.no_grad():
            captured.append((name, module.with_weights(*bound.args, **bound.kwargs)[1]))

    return after


def _single_query(name: str, captured: list[tuple[str, Tensor]]) -> Any:
    """A decoder asks once for each step: its steps are the T of one map."""

    def after(module: Any, arguments: Any, result: tuple[Tensor, Tensor]) -> None:
        weights = result[1][:, None, None]  # (B, 1, 1, S)
        if captured and captured[-1][0] == name and captured[-1][1].shape[3] == weights.shape[3]:
            weights = torch.cat((captured.pop()[1], weights), 2)
        captured.append((name, weights))

    return after


def _call(network: nn.Module, batch: Any, options: dict[str, Any]) -> Any:
    if "output_attentions" in inspect.signature(network.forward).parameters:
        options = {"output_attentions": True, **options}
    if hasattr(batch, "target_input") and hasattr(network, "logits"):
        batch = batch.to(next(network.parameters()).device)
        return network(batch.source, batch.source_lengths, batch.target_input)
    if hasattr(batch, "predictions"):
        return batch.predictions(network)
    if isinstance(batch, Mapping):
        return network(**batch, **options)
    return network(*(batch if isinstance(batch, tuple | list) else (batch,)), **options)


def _returned(result: Any) -> Iterator[tuple[str, Tensor]]:
    """The attentions that a model returned itself: `attentions`, `cross_attentions`, `encoder_attentions` ..."""
    named = (
        result.items() if isinstance(result, Mapping) else vars(result).items() if hasattr(result, "__dict__") else ()
    )
    for name, value in named:
        if str(name).endswith("attentions") and isinstance(value, tuple | list):
            for number, weights in enumerate(value):
                if isinstance(weights, Tensor) and weights.dim() == 4:
                    yield f"{name}.{number}", weights


def _numbers(weights: Tensor) -> np.ndarray:
    return weights.detach().double().cpu().numpy()
