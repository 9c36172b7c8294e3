"""Every head of every layer of a Transformer on one page: small maps to choose from, one large map to read.

Layers stand below each other, heads beside each other, with the mean of the heads at the end of each row and the mean
of all first. Reference: Vaswani et al. (2017), "Attention Is All You Need", figures 3 to 5.

>>> grid = AttentionGrid(np.full((2, 4, 1, 2), 0.5), ["the", "cat"], ["chat"])
>>> grid.map(layer=1, head=3).weights
array([[0.5, 0.5]])
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.files import atomic_write
from harken.inspection.checks import checked_weights
from harken.inspection.figure.spec import Figure
from harken.inspection.tables import AlignmentMap

JOINER = "￭"  # marks pieces that were joined to the word before; many fonts lack it


class AttentionGrid:
    """Cross-attention weights of all layers and heads over the tokens of one sentence and its output."""

    def __init__(
        self,
        layers: npt.ArrayLike,
        source_tokens: Sequence[str],
        target_tokens: Sequence[str],
        title: str | None = None,
    ) -> None:
        """
        Args:
            layers: (L, N, T, S) weights from 0 to 1: layers, heads, target tokens, source tokens.

        Raises:
            UserError: weights that do not fit the tokens, or are no weights.
        """
        array = np.asarray(layers, dtype=np.float64)
        if array.ndim != 4 or 0 in array.shape[:2]:
            raise UserError(f"The attention has shape {array.shape}; pass layers x heads x target x source.")
        self.source_tokens = [str(token).replace(JOINER, "") or str(token) for token in source_tokens]
        self.target_tokens = [str(token).replace(JOINER, "") or str(token) for token in target_tokens]
        shape = (*array.shape[:2], len(self.target_tokens), len(self.source_tokens))
        self.layers = checked_weights(array, shape, "layers x heads x target x source tokens")
        self.title = title or "Cross-attention of the decoder"

    def map(self, layer: int | None = None, head: int | None = None) -> AlignmentMap:
        """One map, counted from 0; the mean over what is left out.

        Raises:
            UserError: a layer or head the model does not have.
        """
        weights = self.layers  # (L, N, T, S)
        for name, number, count in (("layer", layer, weights.shape[0]), ("head", head, weights.shape[1])):
            if number is not None and not 0 <= number < count:
                raise UserError(f"There is no {name} {number}; the model has {count}, counted from 0.")
        chosen = weights.mean(0) if layer is None else weights[layer]  # (N, T, S)
        cells = chosen.mean(0) if head is None else chosen[head]  # (T, S)
        named = [f"{name} {number + 1}" for name, number in (("layer", layer), ("head", head)) if number is not None]
        of = ", ".join(named) or "mean of all layers and heads"
        return AlignmentMap(self.source_tokens, self.target_tokens, cells, f"{self.title}: {of}")

    def figures(self) -> list[Figure]:
        """The mean of all, then every layer with its heads and their mean."""
        layers, heads = self.layers.shape[:2]
        every: list[tuple[str, AlignmentMap]] = [("all / mean", self.map())]
        for layer in range(layers):
            every += [(f"layer {layer + 1} / head {head + 1}", self.map(layer, head)) for head in range(heads)]
            every.append((f"layer {layer + 1} / mean", self.map(layer)))
        return [Figure(one.title, [one.panel()], one.strongest, name=name) for name, one in every]

    def to_html(self) -> str:
        """A whole page that needs no network."""
        from harken.inspection.figure.page import draw_page

        return draw_page(self.title, self.figures())

    def save(self, path: str | Path) -> Path:
        """Write the page.

        Raises:
            UserError: an ending other than .html, or a path that cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() != ".html":
            raise UserError(f"{path}: all layers together are a page, so name the file .html, or save one map of them.")
        atomic_write(path, self.to_html().encode())
        return path

    def _repr_html_(self) -> str:
        frame = 'style="width:100%;height:640px;border:0" title="Attention of all layers and heads"'
        return f'<iframe srcdoc="{escape(self.to_html())}" {frame}></iframe>'
