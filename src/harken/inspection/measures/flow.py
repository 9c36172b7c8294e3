"""How far gradients travel: |dL/dh_t|, |dL/dC_t| and the gradient at every gate, for every step of every layer.

The gradient at step t is the loss's, times one factor dh/dh for each step in between. `gradient_flow` shows the
result step by step, the factors (`measures.jacobian`), the weights behind them (`measures.summary`),
and says what it makes of it (`measures.verdict`). The model is left as it was: no `.grad` is touched.

distance      steps between t and the last step, in its direction, that the loss depends on
|dL/dh_t|     Euclidean norm over the units, one number for each row and step; curves are the mean over rows, and stop
              where fewer than 8 rows are left

>>> import harken.nn
>>> layer = harken.nn.RNN(2, 16, batch_first=True, orthogonal=True)  # an orthogonal matrix: nothing is lost but by tanh
>>> flow = gradient_flow(layer, 0.01 * torch.randn(8, 40, 2))
>>> flow.kind, [round(value, 3) for value in flow[0].weights.values()]
('healthy', [1.0])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from harken.errors import UserError
from harken.inspection.measures.jacobian import Jacobians, jacobians
from harken.inspection.measures.running import Loss, attends_to_all_steps, run, unwrap
from harken.inspection.measures.summary import recurrent_norms
from harken.inspection.measures.tracing import LayerRecord, NamedLayers, still, tracing, with_harken_layers
from harken.inspection.measures.verdict import FEWEST_ROWS, KINDS, Verdict, judge
from harken.inspection.measures.watching import Watched, watching
from harken.nn.recurrent.cell import Cell

if TYPE_CHECKING:
    from harken.inspection.pictures.flow import FlowPicture


@dataclass(frozen=True)
class LayerFlow:
    """The gradients of one layer in one direction."""

    name: str  # `encoder.0 layer 1 →`
    cell: str  # LSTM, GRU or RNN
    gradients: dict[str, np.ndarray]  # hidden, cell, forget ... -> (B, T) norms, NaN where the loss does not reach
    reverse: bool
    weights: dict[str, float]  # largest singular value of each recurrent matrix, as a whole and gate by gate
    jacobians: Jacobians | None
    direct: bool = False  # an encoder whose every step the decoder attends to

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the values that have gradients: states first, then gates."""
        states = ("hidden", "cell")
        return tuple(
            sorted(self.gradients, key=lambda word: (word not in states, states.index(word) if word in states else 0))
        )

    @property
    def carrier(self) -> str:
        """The part of the state that is there to carry things over many steps: C of an LSTM, else h."""
        return "cell" if "cell" in self.gradients else "hidden"

    def curve(self, word: str = "hidden") -> np.ndarray:
        """(distances,): the mean norm over the rows that are that long, nearest to the loss first.

        It stops where fewer than `FEWEST_ROWS` rows are left, or fewer than all of a smaller batch: a mean over a few
        long rows is no trend.

        Raises:
            UserError: a cell that has no such gate or state.
        """
        norms = self._by_distance(word)  # (B, T)
        return np.nanmean(norms[:, : len(self.row_counts(word))], axis=0)

    def row_counts(self, word: str = "hidden") -> np.ndarray:
        """(distances,): how many rows stand behind each point of the curve.

        Raises:
            UserError: a cell that has no such gate or state.
        """
        rows_at = (~np.isnan(self._by_distance(word))).sum(0)  # (T,): falls with the distance
        return rows_at[rows_at >= max(1, min(FEWEST_ROWS, rows_at.max(initial=0)))]

    def _by_distance(self, word: str) -> np.ndarray:
        """(B, T): the norms with the rows moved so that all their ends meet at distance 0; NaN past their beginning."""
        if word not in self.gradients:
            raise UserError(f"{self.name} ({self.cell}) has no {word!r}; it has {', '.join(self.words)}")
        norms = self.gradients[word]  # (B, T)
        there = ~np.isnan(norms)
        aligned = np.full(norms.shape, np.nan)
        for row, (values, known) in enumerate(zip(norms, there, strict=True)):
            aligned[row, : known.sum()] = values[known] if self.reverse else values[known][::-1]
        return aligned

    def judge(self, word: str | None = None) -> Verdict:
        """The verdict on the gradient at h, C or a gate on its way back."""
        word = word or self.carrier
        counts = self.row_counts(word)
        return judge(self.curve(word), self.direct, int(counts.min(initial=len(self.gradients[word]))))

    @property
    def verdict(self) -> Verdict:
        """The verdict on the carrier."""
        return self.judge()

    def by_position(self, word: str = "hidden") -> np.ndarray:
        """(T,): the mean norm over the rows at each step or position; NaN where no row is reached."""
        norms = np.ma.masked_invalid(self.gradients[word])
        return np.ma.filled(norms.mean(0), np.nan)

    def __repr__(self) -> str:
        rows, steps = self.gradients[self.carrier].shape
        return f"LayerFlow({self.name!r}, {self.cell}, {rows} rows x {steps} steps, {self.verdict.sentence})"

    def to_dict(self) -> dict[str, Any]:
        """The measurement as JSON can hold it."""
        jacobians = self.jacobians
        return {
            "name": self.name,
            "cell": self.cell,
            "verdict": {"of": self.carrier, **self.verdict.to_dict()},
            "weights": self.weights,
            "jacobian": None
            if jacobians is None
            else {
                "steps": jacobians.steps.tolist(),
                "largest": {word: values.tolist() for word, values in jacobians.largest.items()},
                "growth": jacobians.growth,
                "span": jacobians.span,
            },
            "gradient_by_distance": {word: self.curve(word).tolist() for word in self.words},
            "rows_by_distance": self.row_counts(self.carrier).tolist(),
        }


@dataclass(frozen=True)
class GradientFlow(NamedLayers[LayerFlow]):
    """All recurrent layers of a model; `flow[0]`, `flow["decoder"]`, or one after the other."""

    loss: float
    looked_from: str  # "last", "all", or the name of the function

    @property
    def worst(self) -> LayerFlow:
        """The layer with most to worry about; the lowest of several."""
        return max(self.layers, key=lambda layer: KINDS.index(layer.verdict.kind))

    @property
    def kind(self) -> str:
        """vanishing, exploding, healthy or unclear, of the worst layer."""
        return self.worst.verdict.kind

    @property
    def verdict(self) -> str:
        """One sentence with the numbers behind it."""
        return f"{self.worst.name}: {self.worst.verdict.sentence}"

    def by_layer(self) -> dict[str, float]:
        """For each layer the mean norm over rows and positions of the gradient at its output."""
        return {layer.name: float(np.nanmean(layer.gradients["hidden"])) for layer in self.layers}

    def to_dict(self) -> dict[str, Any]:
        """The measurement as JSON can hold it."""
        layers = [layer.to_dict() for layer in self.layers]
        return {
            "kind": self.kind,
            "verdict": self.verdict,
            "loss": self.loss,
            "from": self.looked_from,
            "layers": layers,
        }

    def picture(self, name: str = "", compare: Mapping[str, GradientFlow] | None = None) -> FlowPicture:
        """Gradient against distance, other models side by side with this one."""
        from harken.inspection.pictures.flow import FlowPicture

        return FlowPicture({name: self, **(compare or {})})

    def __repr__(self) -> str:
        return f"GradientFlow({len(self.layers)} layers, {self.verdict})"

    def __str__(self) -> str:
        return str(self.picture())

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


def gradient_flow(
    model: Any, batch: Any, *, loss: Loss | None = None, lengths: Tensor | None = None, sampled: int = 8
) -> GradientFlow:
    """Run a model on a batch, go back from its loss, and keep what every step, or every position, receives.

    Of recurrent layers and cells these are the states and gates of every step; of a model without any, such as a
    Transformer, the outputs of every block at every position: "hidden" is then |dL/dx| at the output of that block.

    Args:
        model: any module: with recurrent layers or cells (harken's or torch's), or with stacked blocks; or a harken
            model.
        batch: what the model is called with: values (B, T, I), a tuple, a dict; pairs of sentences for a translator.
        loss: "last" (where nothing is said), "all", or a function of what the model returns: see
            `harken.inspection.measures.running`.
        lengths: (B,) steps of each row, handed on to the model.
        sampled: steps at which Jacobians are made; 0 for none.

    Raises:
        UserError: a model without either, or a loss that does not depend on them.
    """
    network, batch = unwrap(model, batch)
    network = with_harken_layers(network)
    with still(network), tracing(network) as records, watching(network) as watched:
        value = run(network, batch, loss, lengths)
    others = watched.cells()
    others = others if records or others else watched.blocks()
    if not records and not others:
        raise UserError(
            f"{type(network).__name__} has no recurrent layer or cell (harken's or torch's), and no block that returns "
            "a sequence (B, T, D), so there is no gradient through time to look at; to see what attention looks at, "
            "use harken attention"
        )
    every = [*(record.trace.steps for record in records), *(other.steps for other in others)]
    tensors = [tensor for parts in every for steps in parts.values() for tensor in steps]
    if not value.requires_grad:
        raise UserError("the loss does not depend on any weight, so there are no gradients; give another loss=")
    gradients = iter(torch.autograd.grad(value, tensors, allow_unused=True))
    attended = attends_to_all_steps(network, batch)
    layers = [
        _layer(record, gradients, sampled, attended and not record.module.startswith("decoder")) for record in records
    ]
    layers += [_watched_layer(other, gradients) for other in others]
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", "a function") if loss else "last"
    return GradientFlow(layers, value.item(), name)


def _layer(record: LayerRecord, gradients: Iterator[Tensor | None], sampled: int, direct: bool) -> LayerFlow:
    trace = record.trace
    reverse = bool(trace.recurrence and trace.recurrence.reverse)
    norms = _norms(trace.steps, gradients, lambda steps: trace.layout.unpack(torch.cat(steps)))
    rows = torch.cat(trace.steps["hidden"])[:, :1]
    there = trace.layout.unpack(torch.ones_like(rows))[..., 0].cpu().numpy() > 0
    cell = None if trace.recurrence is None else trace.recurrence.cell
    return LayerFlow(
        record.name,
        type(cell).__name__.removesuffix("Cell") if cell is not None else "recurrent",
        _reached(norms, reverse, there),
        reverse,
        {} if cell is None else recurrent_norms(cell),
        jacobians(trace, sampled) if sampled else None,
        direct,
    )


def _watched_layer(watched: Watched, gradients: Iterator[Tensor | None]) -> LayerFlow:
    """The gradients of a cell in the user's own loop, or of a block."""
    norms = _norms(watched.steps, gradients, watched.assemble)
    cell = watched.module
    if isinstance(cell, nn.RNNCellBase):
        weights = {"all gates": float(torch.linalg.matrix_norm(cell.weight_hh.detach().double(), 2))}
    else:
        weights = recurrent_norms(cell) if isinstance(cell, Cell) else {}
    direct = watched.is_block and watched.attends
    return LayerFlow(watched.name, watched.kind, _reached(norms, False), False, weights, None, direct)


def _norms(
    parts: Mapping[str, list[Tensor]],
    gradients: Iterator[Tensor | None],
    assemble: Callable[[list[Tensor]], Tensor],
) -> dict[str, np.ndarray]:
    """For each state and gate (B, T) norms of its gradients, which come in the order of the steps."""
    norms = {}
    for word, steps in parts.items():
        backward = [torch.zeros_like(step) if (gradient := next(gradients)) is None else gradient for step in steps]
        norm = assemble(backward).double().norm(dim=-1).nan_to_num(torch.inf, torch.inf)
        norms[word] = norm.cpu().numpy()
    return norms


def _reached(norms: dict[str, np.ndarray], reverse: bool, there: np.ndarray | bool = True) -> dict[str, np.ndarray]:
    """The norms with NaN at padding and past the last step that the loss depends on."""
    there = there & _up_to_the_last(np.any([values != 0 for values in norms.values()], axis=0), reverse)
    return {word: np.where(there, values, np.nan) for word, values in norms.items()}


def _up_to_the_last(reached: np.ndarray, reverse: bool) -> np.ndarray:
    """(B, T): whether this step or one that is read later is reached."""
    if reverse:
        return np.maximum.accumulate(reached, axis=1)
    return np.maximum.accumulate(reached[:, ::-1], axis=1)[:, ::-1]
