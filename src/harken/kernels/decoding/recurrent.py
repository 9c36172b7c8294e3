"""A model with a recurrent decoder in the form the kernels take: packed once, then used for many batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.kernels.caching import cached_njit, is_cached
from harken.kernels.decoding.cells import CELLS, PRODUCTS, SCORES, Cells, Source, new_state, recurrent_step
from harken.kernels.decoding.description import Cell, Connections, Linear, Recurrent, SpecialTokens
from harken.kernels.decoding.products import INPUTS, STRIDE, round_up
from harken.kernels.decoding.recurrent_encoder import start
from harken.kernels.decoding.search import Decoding, Rules, empty_result, make_search, new_search, starts_of
from harken.kernels.decoding.topk import all_allowed
from harken.kernels.decoding.weights import OutputLayer, cache_line_array, pack
from harken.lazy_torch import as_array, torch

if TYPE_CHECKING:
    from torch import Tensor

_search = make_search(recurrent_step)


@cached_njit
def decode_recurrent(
    packed: Any, cells: Any, state: Any, b: Any, limits: Any, minimums: Any, rules: Any, stop: Any, result: Any,
    last: Any, allowed: Any, s: Any, steps: Any, turn: Any, share: Any,
) -> bool:  # fmt: skip
    """Decodes all sources of a batch; for the arguments see `harken.kernels.decoding.search.make_search`."""
    return _search(packed, cells, state, b, limits, minimums, rules, stop, result, last, allowed, s, steps, turn, share)


def _padded(values: Tensor | np.ndarray) -> Any:
    """(..., width) with widths of whole panels, zeros behind."""
    flat = as_array(values).reshape(-1, values.shape[-1])
    out = cache_line_array(len(flat) * round_up(flat.shape[1], STRIDE), np.float32).reshape(len(flat), -1)
    out[:, : flat.shape[1]] = flat
    return out.reshape(*values.shape[:-1], -1)


def name_of(cell: Cell) -> str:
    """The name by which the kernels know a cell."""
    return "gru-before" if cell.kind == "gru" and cell.reset == "before" else cell.kind


def _joined(cell: Cell) -> list[Linear]:
    """The maps of a layer, most of them of [input; h].

    "rnn" and "lstm" have one for all gates; "gru" one for r and z, and for the candidate one of the input and one of h;
    "gru-before" one for r and z, and one of [input; r * h].
    """
    name = name_of(cell)
    none: Any = np.zeros(len(cell.weight_ih), np.float32)
    of_input, of_hidden = as_array(cell.weight_ih), as_array(cell.weight_hh)
    first, second = (none if bias is None else as_array(bias) for bias in (cell.bias_ih, cell.bias_hh))
    whole: Any = np.concatenate((of_input, of_hidden), 1)
    both = first + second
    if cell.kind != "gru":
        return [Linear(whole, both)]
    gates = len(whole) // 3 * 2
    rz = Linear(whole[:gates], both[:gates])
    if name == "gru-before":
        return [rz, Linear(whole[gates:], both[gates:])]
    return [rz, Linear(of_input[gates:], first[gates:]), Linear(of_hidden[gates:], second[gates:])]


@dataclass
class CompiledRecurrent:
    """Packed weights and the calls of the compiled function."""

    model: Recurrent
    precision: str = "float32"

    def __post_init__(self) -> None:
        model, none = self.model, np.zeros(0, np.float32)
        cell, layers, connections = CELLS[name_of(model.cells[0])], len(model.cells), model.connections
        cells = [linear for layer in model.cells for linear in _joined(layer)]
        linears = [linear for linear in (model.query, model.combine, model.narrow) if linear is not None]
        self.packed = pack([*cells, *linears, model.output], [], self.precision)
        self.output = OutputLayer(model.output, self.precision)
        self.table = np.ascontiguousarray(as_array(model.target_embedding))
        energy, coverage = (none if weight is None else as_array(weight) for weight in (model.energy, model.coverage))
        self.cells = Cells(
            cell=cell,
            products=PRODUCTS[cell],
            layers=layers,
            embedding=model.embedding,
            width=model.width,
            embedding_scale=np.float32(model.embedding_scale),
            score=SCORES[model.score],
            scale=np.float32(model.scale),
            energy=_padded(energy) if len(energy) else energy,
            coverage=_padded(coverage) if len(coverage) else coverage,
            before=model.attends_before,
            feeds=model.feeds_back,
            reads=np.array(model.reads),
            query_layer=model.query_layer,
            residual_from=connections.first if connections.kind == "residual" else layers,
            zoneout=np.float32(model.zoneout),
            narrows=model.narrow is not None,
        )

    @property
    def vocabulary(self) -> int:
        """V."""
        return len(self.model.output.weight)

    def cache_numbers(self, rows: int, longest: int) -> int:
        """Numbers in the state of so many hypotheses, about."""
        return 2 * round_up(self.model.width, STRIDE) * (len(self.model.cells) * 2 + 8) * rows

    def read(self, model: Any, source: Tensor | np.ndarray, lengths: Tensor | None, sizes: Any) -> Source:
        """The first states and the memory by the model's own encoder, or that of a stored one, which is None; `sizes`
        (B,) are the lengths."""
        if model is None:
            first, constant, keys, memory = start(self.model, np.asarray(source), sizes)
            inside = np.arange(source.shape[1])[None] < sizes[:, None]
            return self._source(first, constant, None if keys is None else keys[inside], memory[inside])
        with torch.inference_mode():
            state = model.decoder.start(model.encode(source, lengths))
        states = torch.stack([torch.stack(layer) for layer in state.layers])  # (L, P, B, H)
        feed = torch.zeros(len(source), self.model.width) if state.feed is None else state.feed
        if state.keys is None:
            return self._source(states, feed, None, None)
        within = torch.arange(state.memory.shape[1])[None] < torch.as_tensor(sizes)[:, None]
        return self._source(states, feed, state.keys[within], state.memory[within])

    def _source(self, states: Any, feed: Any, keys: Any, values: Any) -> Source:
        """From the states (L, P, B, H), the feed (B, H), and with attention keys and values of all tokens."""
        if keys is None:
            return Source(_padded(states), _padded(feed), np.zeros((0, STRIDE), np.float32), 0)
        keys = _padded(keys)
        return Source(_padded(states), _padded(feed), np.concatenate((keys, _padded(values)), 1), keys.shape[1])

    def begin(
        self, source: Source, sizes: Any, limits: Any, minimums: Any, rules: Rules, stop: Any, allowed: Any = None
    ) -> Decoding:
        """See `harken.kernels.decoding.transformer.CompiledTransformer.begin`."""
        hidden, most = int(self.packed.products[-1, INPUTS]), len(limits) * rules.beam
        state, b = new_state(self.cells, self.table, source, starts_of(sizes), most, hidden)
        result = empty_result(len(limits), rules.nbest, int(limits.max()))
        last, part = (self.packed, all_allowed()) if allowed is None else self.output.part(allowed, rules.special)
        arguments = self.packed, self.cells, state, b, limits, minimums, rules, stop, result, last, part
        return Decoding(decode_recurrent, arguments)


def _tiny_call() -> tuple[Any, ...]:
    """The arguments for the smallest model: compiled code depends on types alone, so it stands for all."""
    table: Any = np.zeros((8, 2), np.float32)
    square: Any = np.zeros((2, 2), np.float32)
    cell, output = Cell("rnn", square, square, None, None), Linear(table, None, is_output=True)
    model = CompiledRecurrent(Recurrent((cell,), Connections(None, 1), output, 2, 2, table, 1.0))
    states = _padded(np.zeros((1, 1, 1, 2), np.float32))
    source = Source(states, _padded(square[:1]), np.zeros((0, STRIDE), np.float32), 0)
    ones, rules = np.ones(1, np.int64), Rules(SpecialTokens(0, 1, 2), 1, 1, 1.0)
    decoding = model.begin(source, ones, ones, ones, rules, np.zeros(1, np.int64))
    return decoding.arguments_of(new_search(rules, ones, 1, 8, 8))


def is_compiled() -> bool:
    """Whether the compiled function is in this process or on disk for this CPU."""
    return is_cached(decode_recurrent, _tiny_call())


def compile_ahead() -> None:
    """Compiles the function, or loads it from disk; takes some 10 seconds the first time on a machine."""
    decode_recurrent(*_tiny_call())
