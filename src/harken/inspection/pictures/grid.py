"""Every head of every layer of a Transformer on one page: small maps to choose from, one large map to read.

cross     from pieces of the output to pieces of the input
encoder   self-attention of the input
decoder   self-attention of the output: from a piece to itself and those before

Layers stand below each other, heads side by side, with the mean of the heads at the end of each row. Reference:
Vaswani et al. (2017), "Attention Is All You Need", figures 3 to 5.

>>> grid = AttentionGrid(np.full((2, 4, 1, 2), 0.5), ["the", "cat"], ["chat"])
>>> grid.map(layer=1, head=3).weights
array([[0.5, 0.5]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Heat
from harken.inspection.pictures.inputs import checked_weights, piece_names
from harken.inspection.pictures.picture import Picture
from harken.inspection.pictures.tables import AlignmentMap

CROSS, ENCODER, DECODER = "cross-attention", "encoder self-attention", "decoder self-attention"
READ = {
    CROSS: "Each row sums to 1: from a piece of the output (down) to the pieces of the input (across).",
    ENCODER: "Each row sums to 1: from a piece of the input (down) to all pieces of the input (across).",
    DECODER: "Each row sums to 1: from a piece of the output (down) to itself and the pieces before it (across).",
}


class AttentionGrid(Picture):
    """Attention weights of all layers and heads over the pieces of one sentence and its output."""

    ending = ".html"

    def __init__(
        self,
        layers: npt.ArrayLike,
        source_tokens: Sequence[str],
        target_tokens: Sequence[str],
        title: str | None = None,
        encoder: npt.ArrayLike | None = None,
        decoder: npt.ArrayLike | None = None,
    ) -> None:
        """
        Args:
            layers: (L, N, T, S) weights from 0 to 1: layers, heads, target pieces, source pieces.
            encoder: (L, N, S, S) self-attention of the source, where there is any.
            decoder: (L, N, T, T) self-attention of the target, read from its beginning: `<s>`, then all but the last.

        Raises:
            UserError: weights that do not fit the pieces, or are no weights.
        """
        self.source_tokens, self.target_tokens = (
            piece_names([str(token) for token in tokens]) for tokens in (source_tokens, target_tokens)
        )
        read = ["<s>", *self.target_tokens[:-1]]
        across = {CROSS: self.source_tokens, ENCODER: self.source_tokens, DECODER: read}
        self.down = {CROSS: self.target_tokens, ENCODER: self.source_tokens, DECODER: read}
        self.kinds: dict[str, np.ndarray] = {}
        for kind, weights in ((CROSS, layers), (ENCODER, encoder), (DECODER, decoder)):
            if weights is None:
                continue
            array = np.asarray(weights, dtype=np.float64)
            if array.ndim != 4 or 0 in array.shape[:2]:
                raise UserError(f"The {kind} has shape {array.shape}; pass layers x heads x rows x columns.")
            shape = (*array.shape[:2], len(self.down[kind]), len(across[kind]))
            self.kinds[kind] = checked_weights(array, shape, "layers x heads x target x source tokens")
        self.across = across
        self.title = title or "Attention of every layer and head"

    @property
    def layers(self) -> np.ndarray:
        """(L, N, T, S): the cross-attention."""
        return self.kinds[CROSS]

    def map(self, layer: int | None = None, head: int | None = None, kind: str = CROSS) -> AlignmentMap:
        """One map, counted from 0; the mean over what is left out.

        Raises:
            UserError: a layer, head or kind of attention the model does not have.
        """
        if kind not in self.kinds:
            raise UserError(f"There is no {kind}; the model has {', '.join(self.kinds)}.")
        weights = self.kinds[kind]  # (L, N, T, S)
        for name, number, count in (("layer", layer, weights.shape[0]), ("head", head, weights.shape[1])):
            if number is not None and not 0 <= number < count:
                raise UserError(f"There is no {name} {number}; the model has {count}, counted from 0.")
        chosen = weights.mean(0) if layer is None else weights[layer]  # (N, T, S)
        cells = chosen.mean(0) if head is None else chosen[head]  # (T, S)
        named = [f"{name} {number + 1}" for name, number in (("layer", layer), ("head", head)) if number is not None]
        of = ", ".join(named) or "mean of all layers and heads"
        title = f"{kind[0].upper()}{kind[1:]}: {of}"
        return AlignmentMap(self.across[kind], self.down[kind], cells, title, unit="piece")

    def figures(self) -> list[Figure]:
        """The mean of all, then of every kind every layer with its heads and their mean."""
        every: list[tuple[str, str, AlignmentMap]] = []
        for kind, weights in self.kinds.items():
            layers, heads = weights.shape[:2]
            every.append((kind, f"{kind}, all / mean", self.map(kind=kind)))
            for layer in range(layers):
                row = f"{kind}, layer {layer + 1}"
                every += [(kind, f"{row} / head {head + 1}", self.map(layer, head, kind)) for head in range(heads)]
                every.append((kind, f"{row} / mean", self.map(layer, kind=kind)))
        return [
            Figure(table.title, [self._panel(table, kind)], f"{READ[kind]} {table.strongest}", name=name)
            for kind, name, table in every
        ]

    def _panel(self, table: AlignmentMap, kind: str) -> Heat:
        across, down = {
            CROSS: ("source piece", "target piece"),
            ENCODER: ("source piece", "source piece"),
            DECODER: ("target piece", "target piece"),
        }[kind]
        return replace(table.panel(), x_label=across, y_label=down)

    def to_terminal(self, width: int | None = None, color: bool | None = None) -> str:
        """Every map of every kind, one below the other."""
        maps = []
        for kind, weights in self.kinds.items():
            layers, heads = weights.shape[:2]
            maps += [
                self.map(layer, head, kind).to_terminal(width, color)
                for layer in range(layers)
                for head in range(heads)
            ]
        return "\n\n".join(maps)

    def save(self, path: str | Path) -> Path:
        """Write the page.

        Raises:
            UserError: an ending other than .html, or a path that cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() != ".html":
            raise UserError(f"{path}: all layers together are a page, so name the file .html, or save one map of them.")
        return super().save(path)

    def _repr_html_(self) -> str:
        frame = 'style="width:100%;height:640px;border:0" title="Attention of all layers and heads"'
        return f'<iframe srcdoc="{escape(self.to_html())}" {frame}></iframe>'
