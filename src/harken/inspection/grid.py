"""Every head of every layer of a Transformer on one page: small maps to choose from, one large map to read.

Layers stand below each other, heads beside each other, the mean of the heads at the end of each row and the mean of all
in the corner. Reference: Vaswani et al., 2017, "Attention Is All You Need", figures 3 to 5.

>>> grid = AttentionGrid(np.full((2, 4, 1, 2), 0.5), ["the", "cat"], ["chat"])
>>> grid.map(layer=1, head=3).weights
array([[0.5, 0.5]])
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.alignment import AlignmentMap
from harken.inspection.checks import atomic_write, checked_weights
from harken.inspection.map_html import heading, map_page, table
from harken.inspection.page import asset


class AttentionGrid:
    """Attention weights of all layers and heads over the tokens of one sentence and its output."""

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
        self.source_tokens = [str(token) for token in source_tokens]
        self.target_tokens = [str(token) for token in target_tokens]
        shape = (*array.shape[:2], len(self.target_tokens), len(self.source_tokens))
        self.layers = checked_weights(array, shape, "layers x heads x target x source tokens")
        self.title = title

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
        return AlignmentMap(self.source_tokens, self.target_tokens, cells, f"{self.title or 'Attention'}: {of}")

    def to_html(self) -> str:
        """A whole page that needs no network."""
        mean = self.map()
        mean.title = self.title or "Attention"
        thousandths = np.rint(self.layers * 1000).astype(int)
        data = json.dumps(thousandths.reshape(*thousandths.shape[:2], -1).tolist(), separators=(",", ":"))
        body = (
            f'{heading(mean)}<div class="grid"><div class="picker" role="group" aria-label="Layers and heads">'
            f'{self._picker()}</div><div class="view"><h2 class="name" aria-live="polite">Mean of all layers and heads'
            f'</h2>{table(mean)}</div></div><script type="application/json" id="weights">{data}</script>'
        )
        return map_page(mean, body, asset("map_script") + asset("grid_script"))

    def save(self, path: str | Path) -> Path:
        """Write the page.

        Raises:
            UserError: an ending other than .html, or a place that cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() != ".html":
            raise UserError(f"{path}: all layers together are a page, so name the file .html, or save one map of them.")
        atomic_write(path, self.to_html().encode())
        return path

    def _repr_html_(self) -> str:
        frame = 'style="width:100%;height:640px;border:0" title="Attention of all layers and heads"'
        return f'<iframe srcdoc="{escape(self.to_html())}" {frame}></iframe>'

    def _picker(self) -> str:
        layers, heads = self.layers.shape[:2]
        head_names = "".join(f'<th scope="col">head {head + 1}</th>' for head in range(heads))
        rows = []
        for layer in range(layers):
            buttons = "".join(
                _button(str(layer), str(head), f"Layer {layer + 1}, head {head + 1}") for head in range(heads)
            )
            mean = _button(str(layer), "mean", f"Layer {layer + 1}, mean of its heads")
            rows.append(f'<tr><th scope="row">layer {layer + 1}</th>{buttons}{mean}</tr>')
        everything = _button("all", "mean", "Mean of all layers and heads", pressed=True)
        last = f'<tr><th scope="row">all</th>{"<td></td>" * heads}{everything}</tr>'
        head_row = f'<tr><td></td>{head_names}<th scope="col">mean</th></tr>'
        return f"<table><thead>{head_row}</thead><tbody>{''.join(rows)}{last}</tbody></table>"


def _button(layer: str, head: str, name: str, pressed: bool = False) -> str:
    return (
        f'<td><button type="button" data-layer="{layer}" data-head="{head}" title="{name}" aria-label="{name}" '
        f'aria-pressed="{str(pressed).lower()}"><canvas width="1" height="1"></canvas></button></td>'
    )
