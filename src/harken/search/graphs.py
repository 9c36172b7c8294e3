"""The CUDA backend of `harken.search.dispatch`: greedy search, sampling and beam search as captured CUDA graphs.

The step of the model and the search after it (`harken.search.device_search`) are captured once for a shape and replayed
without waiting for the device; whether all rows are done is copied to pinned memory after every few steps and read
while the next ones run. A shape is rounded up to a bucket: sources, words of the longest source, tokens of the longest
output.

    Transformers       `harken.kernels.decoding.cuda`: fused kernels, and an ancestry table in place of moving the cache
    recurrent ones     fused kernels for a few rows
    other decoders     with `is_static` (Transformers with other positions, recurrent ones): their own `step`

precision     "float32": the dtype of the model. "auto": a copy of the model in bfloat16, which is made once and brought
              up to date at every call; log-probabilities and the sums of them are float32
weights       are read where they lie, so that changes in place are seen; learned positions are copied at every call
memory        at most SEARCHES shapes of a model and SHARE of the device's memory; the least recently used is dropped
options       are data on the device (`harken.search.device_rules`), so that one graph serves all values of them
left to the   rules that are not captured, beams that the kernels do not support, models in training or with hooks, and
reference     searches whose caches exceed SHARE of the memory
"""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.cuda_graphs import GraphCache, capture, run_on
from harken.kernels.decoding.description import Recurrent, Transformer
from harken.kernels.settings import device_only, has_triton
from harken.kernels.weights import ModelCache, Snapshot, has_hooks, is_frozen
from harken.search.contract import limits
from harken.search.device_rules import (
    LEAST_SEQUENCES,
    LEAST_TOKENS,
    ON_SCORES,
    DeviceRules,
    why_not_device_rules,
)
from harken.search.device_search import DeviceSearch, Form, Selection
from harken.search.hypotheses import Hypothesis
from harken.search.program import is_independent, ranking_of, rules_of, stopper
from harken.search.rules.base import ScoreRule
from harken.search.rules.penalties import Banned
from harken.search.streaming import CertainPrefix

if TYPE_CHECKING:
    from harken.search.dispatch import Decode, DecodingCall

SEARCHES, SHARE = 16, 0.25
STEPS = 4  # of one captured graph, and between two looks at whether all rows are done; even (`RecurrentStep.half`)
LEAST_WORDS = 16


def bucket(size: int, least: int = 1) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 ...: at most half as much again.

    >>> [bucket(size) for size in (1, 5, 13, 64, 65)]
    [1, 6, 16, 64, 96]
    """
    size = max(size, least)
    power = 1 << (size - 1).bit_length()
    return power * 3 // 4 if power >= 4 and size <= power * 3 // 4 else power


@dataclass(frozen=True)
class Shape:
    """The sizes that a captured search is made for."""

    sources: int
    beam: int  # hypotheses of a source that compete, or its samples
    words: int  # of the longest source
    length: int  # of the longest output
    form: Form
    kinds: frozenset[type[ScoreRule]] = frozenset()  # the rules of the step; of those on scores one stands for all
    banned: tuple[int, int] = (0, 0)  # sequences, and tokens of the longest


def shape_of(call: DecodingCall) -> Shape:
    """The bucket of a call."""
    options, rules = call.options, [*rules_of(call.options), *call.rules]
    words, longest = call.source.shape[1], int(torch.as_tensor(call.max_lengths).max())
    padded = max(words, min(bucket(words, LEAST_WORDS), _most_words(call.model)))
    groups = 1 if options.sample else options.diversity_groups
    form = Form(not is_independent(options, call.nbest, rules), options.sample, groups)
    beam = call.nbest if options.sample else options.beam
    kinds = frozenset(ON_SCORES[0] if type(rule) in ON_SCORES else type(rule) for rule in rules)
    sequences = [row for rule in rules if isinstance(rule, Banned) for row in rule.sequences()]
    banned = bucket(len(sequences), LEAST_SEQUENCES), bucket(max(map(len, sequences), default=0), LEAST_TOKENS)
    room = banned if ON_SCORES[0] in kinds else (0, 0)
    return Shape(bucket(call.rows), beam, padded, bucket(longest, LEAST_WORDS), form, kinds, room)


def why_not_graphs(call: DecodingCall) -> str | None:
    """The reason for which captured searches do not run a call; None: they do."""
    if not isinstance(call.source, Tensor) or call.source.device.type != "cuda":
        return "the model is not on a GPU"
    if not has_triton():
        return "Triton is not installed"
    if torch.is_autocast_enabled("cuda") or torch.cuda.is_current_stream_capturing():
        return "autocast is on, or a CUDA graph is captured"
    reason = why_not_static(call)
    if reason is None:
        total = torch.cuda.get_device_properties(call.source.device).total_memory
        reason = "its caches are too large" if cache_bytes(call.model, shape_of(call)) > SHARE * total else None
    return reason


def why_not_static(call: DecodingCall) -> str | None:
    """The reason for which a search cannot have fixed shapes, on any device."""
    from harken.kernels.decoding.cuda import choosing  # imports Triton

    options, model = call.options, call.model
    if options.precision == "int8" or call.keep_beam or not isinstance(call.observe, CertainPrefix | None):
        return "int8 was asked for, or the whole beam is observed"
    if call.distances is not None or call.source.dim() != 2 or call.source.is_floating_point():
        return "the source is not a row of tokens"
    if options.coverage_penalty:
        return "there is a coverage penalty"
    if reason := why_not_device_rules(options, call.rules):
        return reason
    if not options.sample and not 1 <= call.nbest <= options.beam <= choosing.MOST // 2:
        return f"the beam is narrower than the n-best list or wider than {choosing.MOST // 2}"
    if not isinstance(model, nn.Module) or model.training or has_hooks(model):
        return "the model is in training or has hooks"
    if not getattr(getattr(model, "decoder", None), "is_static", False) or not hasattr(model, "encode"):
        return "the decoder has no state of fixed shapes"
    longest = torch.as_tensor(call.max_lengths)
    if int(longest.min()) < 1 or (call.lengths is not None and int(call.lengths.min()) < 1):
        return "a source or a limit is empty"
    if not options.sample and len(model.output_weight) < 2 * options.beam + 3:  # type: ignore[arg-type]
        return "the beam is wider than the vocabulary"
    table = getattr(getattr(getattr(model.decoder, "stack", None), "positions", None), "embedding", None)
    if table is None:
        return None
    needed = int(longest.max()) if describe(model) is not None else bucket(int(longest.max()), LEAST_WORDS)
    if needed > table.num_embeddings or call.source.shape[1] > _most_words(model):
        return "a sentence is longer than the positions that were learned"
    return None


def _most_words(model: Any) -> int:
    table = getattr(getattr(getattr(model.encoder, "stack", None), "positions", None), "embedding", None)
    return 1 << 30 if table is None else int(table.num_embeddings)


def describe(model: Any) -> Transformer | Recurrent | None:
    """The tensors of a model that the fused kernels support; few rows alone of a recurrent one."""
    from harken.kernels.decoding.cuda import recurrent, step  # imports Triton

    described = getattr(model, "describe_for_decoding", lambda **_: None)(device=None)
    if isinstance(described, Transformer):
        return described if step.TRANSFORMER_STEP.supports(described) else None
    return described if recurrent.RECURRENT_STEP.supports(described, 1) else None


def cache_bytes(model: Any, shape: Shape) -> int:
    """Keys and values of the tokens and the sources, and tables of scores where rules or samples need them."""
    blocks = getattr(getattr(model.decoder, "stack", None), "blocks", ())
    rows = shape.sources * (shape.beam * shape.length + shape.words)
    tables = 8 * shape.sources * shape.beam * len(model.output_weight) if shape.kinds or shape.form.draws else 0
    return int(2 * len(blocks) * rows * model.decoder.width * model.output_weight.element_size()) + tables


class PlainStep:
    """Any decoder with a static state, by its own `step`; hypotheses are moved by `reorder_`."""

    def __init__(self, model: Any, memory: Any, shape: Shape) -> None:
        self.model, self.shape = weakref.ref(model), shape
        self.state = model.decoder.start(memory, shape.beam, shape.length, static=True)

    def load(self, model: Any, memory: Any) -> None:
        """The state before the first token."""
        self.state.load_(model.decoder.start(memory, self.shape.beam, 1))

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Tokens (R,) -> logits (R, V); the state knows the position."""
        model = self.model()
        assert model is not None
        logits: Tensor = model.step(tokens, self.state)
        return logits

    def reorder_(self, rows: Tensor) -> None:
        """See `harken.search.contract`."""
        self.state.reorder_(rows)


class GraphSearch:
    """The search of one shape: its buffers, and on a GPU the captured graphs of the encoder and of STEPS steps.

    Args:
        selection: what follows a step. Default: the kernels.
    """

    def __init__(
        self,
        model: Any,
        described: Transformer | Recurrent | None,
        shape: Shape,
        device: torch.device,
        selection: Selection | None = None,
    ) -> None:
        from harken.kernels.decoding.cuda import attention, recurrent, step  # imports Triton
        from harken.kernels.decoding.cuda import selection as kernels

        self.shape = shape
        self.source = torch.zeros(shape.sources, shape.words, dtype=torch.long, device=device)
        self.lengths = torch.ones(shape.sources, dtype=torch.long, device=device)
        self.selection = selection or kernels
        sizes = shape.sources, shape.beam, shape.length
        self.rules: DeviceRules | None = None
        if shape.kinds:
            self.rules = DeviceRules(*sizes, len(model.output_weight), shape.banned, shape.kinds, device)
        self.search = DeviceSearch(*sizes, device, STEPS, shape.form, self.rules)
        rows, is_fused = shape.sources * shape.beam, attention.is_fused(self.source)
        self.decoder: Any
        if isinstance(described, Transformer):
            self.decoder = step.TRANSFORMER_STEP.run(described, *sizes, shape.words, shape.form.competes)
        elif is_fused and recurrent.RECURRENT_STEP.supports(described, rows):
            self.decoder = recurrent.RECURRENT_STEP.run(described, shape.sources, shape.beam, shape.words)
        else:
            self.decoder = PlainStep(model, pad_memory(model.encode(self.source, self.lengths), shape), shape)
        # whether sources are encoded in a graph, where nothing may wait for the device
        stays = getattr(model.encoder, "stays_on_device", lambda source: False)
        self.encodes = (isinstance(described, Transformer) and described.encoder is not None) or stays(self.source)
        self.is_transformer = isinstance(self.decoder, step.TransformerStep)
        self.is_recurrent = isinstance(self.decoder, recurrent.RecurrentStep)
        self.encoder_graph: torch.cuda.CUDAGraph | None = None
        self.step_graph: torch.cuda.CUDAGraph | None = None
        self.bytes = 0

    def capture(self, model: Any, pool: Any) -> None:
        """Both graphs, after one pass in which kernels are compiled and buffers allocated."""
        new_stream: Callable[[], torch.cuda.Stream] = torch.cuda.Stream  # torch does not annotate the constructors
        new_event: Callable[[], torch.cuda.Event] = torch.cuda.Event
        stream = new_stream()

        def captured(function: Callable[[], None]) -> torch.cuda.CUDAGraph:
            with run_on(stream):
                function()
            return capture(function, stream, pool)[0]

        if self.encodes:
            with device_only():
                self.encoder_graph = captured(lambda: self._encode(model))
        self.step_graph = captured(self._steps)
        self.flags = torch.zeros(2, dtype=torch.int32, pin_memory=True)
        self.events = new_event(), new_event()

    def run(self, model: Any, call: DecodingCall) -> list[list[Hypothesis]]:
        """Decode a call that the shape has room for."""
        options, device = call.options, self.source.device
        most = limits(call.max_lengths, call.rows, device)
        graphs = -(-int(most.max()) // STEPS)  # before the device is busy, since it waits for it
        self._load(model, call)
        self.search.reset(most, call.nbest, options, call.row_numbers)
        if self.rules is not None:
            self.rules.load(options, call.rules)
        should_stop = stopper(options.time_limit, call.cancelled)
        for number in range(graphs):
            live = self._replay(number)
            if call.observe is not None:
                call.observe(self.search.possible())
            if not live:
                break
            if should_stop is not None and should_stop():
                self.search.stop()
                should_stop = None
        return self.search.hypotheses(call.rows, call.nbest, ranking_of(options))

    def _replay(self, number: int) -> bool:
        """STEPS tokens more; whether rows were live, as far as is known without waiting for these tokens."""
        if self.step_graph is None:
            self._steps()
            return bool(self.search.live)
        self.step_graph.replay()
        here, before = number % 2, (number - 1) % 2
        self.flags[here : here + 1].copy_(self.search.live, non_blocking=True)
        self.events[here].record()
        if not number:
            return True
        self.events[before].synchronize()
        return bool(self.flags[before])

    def _steps(self) -> None:
        self.search.run(self.decoder, self.selection)

    def _encode(self, model: Any) -> None:
        self._start(model, model.encode(self.source, self.lengths), self.lengths)

    def _start(self, model: Any, memory: Any, lengths: Tensor | int) -> None:
        """The decoder's state, from the memory of sources of these lengths."""
        if isinstance(self.decoder, PlainStep):
            self.decoder.load(model, memory)
        elif self.is_recurrent:
            self.decoder.load(model.decoder.start(memory), lengths)
        else:
            self.decoder.load(memory.values, lengths)

    def _load(self, model: Any, call: DecodingCall) -> None:
        """Encode the sources into the decoder's state."""
        rows, words = call.source.shape
        if self.is_transformer:
            self.decoder.load_positions()
        lengths = torch.full((rows,), words, device=call.source.device) if call.lengths is None else call.lengths
        if self.encodes:
            self.source[:rows, :words] = call.source
            self.lengths.fill_(1)
            self.lengths[:rows] = lengths
            if self.encoder_graph is not None:
                self.encoder_graph.replay()
            else:
                self._encode(model)
            return
        full = call.lengths is None or int(lengths.min()) == words  # packing would wait for the device
        memory = model.encode(call.source, None if full else lengths)
        sizes = memory.values.shape[1] if memory.mask is None else memory.mask.sum(1)
        self._start(model, pad_memory(memory, self.shape) if isinstance(self.decoder, PlainStep) else memory, sizes)


def pad_memory(memory: Any, shape: Shape) -> Any:
    """The memory of `shape.sources` sources of `shape.words` words: masked words, and copies of the last source."""
    rows, words = memory.values.shape[:2]
    mask = memory.mask if memory.mask is not None else memory.values.new_ones(rows, words, dtype=torch.bool)

    def repeat(values: Tensor) -> Tensor:
        return torch.cat((values, values[-1:].expand(shape.sources - rows, *values.shape[1:])))

    def widen(values: Tensor) -> Tensor:
        return repeat(F.pad(values, (0, 0, 0, shape.words - words)))

    states = None if memory.states is None else [tuple(map(repeat, parts)) for parts in memory.states]
    embedded = None if memory.embedded is None else widen(memory.embedded)
    mask = repeat(F.pad(mask, (0, shape.words - words)))
    return replace(memory, values=widen(memory.values), mask=mask, states=states, embedded=embedded)


class ModelSearches:
    """The captured searches of one model, and its copy in bfloat16."""

    def __init__(self) -> None:
        self.captured: GraphCache[GraphSearch] = GraphCache("searches", SEARCHES, SHARE, uses=1)
        self.low: nn.Module | None = None
        self.snapshot: Snapshot | None = None  # where the model was when its searches were captured
        self.lock = threading.Lock()
        self.pool: Any = None

    def network(self, model: nn.Module, precision: str) -> nn.Module:
        """The model itself, or for "auto" its copy in bfloat16, with the weights of now."""
        if self.snapshot is None or not self.snapshot.is_in_place():
            self.captured.clear()
            self.low, self.snapshot = None, Snapshot(model, contents=False)
        if precision != "auto" or not torch.cuda.is_bf16_supported():
            return model
        if self.low is None:
            self.low = copy.deepcopy(model).to(torch.bfloat16).eval()
            self.weights: tuple[list[Tensor], list[Tensor]] = [*self.low.parameters()], [*model.parameters()]
        elif not is_frozen(model):  # a few kernels; torch does not count all changes of the weights
            torch._foreach_copy_(*self.weights)
        return self.low

    def find(self, model: Any, network: Any, call: DecodingCall) -> GraphSearch | None:
        """The search for a call, captured now if it is the first of its shape."""
        shape, device = shape_of(call), call.source.device
        return self.captured.find((shape, network is model), lambda: self._capture(model, network, shape, device))

    def _capture(self, model: Any, network: Any, shape: Shape, device: torch.device) -> GraphSearch:
        described = describe(network)
        if isinstance(described, Transformer) and network is not model:  # positions are added in float32
            exact = replace(described.decoder, positions=model.decoder.stack.positions)
            described = replace(described, decoder=exact)
        before = torch.cuda.memory_reserved()
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        search = GraphSearch(network, described, shape, device)
        search.capture(network, self.pool)
        search.bytes = max(0, torch.cuda.memory_reserved() - before)
        return search


_SEARCHES: ModelCache[ModelSearches] = ModelCache(ModelSearches)


def release_searches(model: nn.Module) -> None:
    """Free the memory of the searches that were captured for a model, and of its copy in bfloat16."""
    _SEARCHES.forget(model)


@torch.inference_mode()
def run_graphs(call: DecodingCall, reference: Decode) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first; on the reference where nothing could be captured."""
    searches = _SEARCHES.of(call.model)
    with searches.lock, torch.cuda.device(call.source.device), suppress(torch.OutOfMemoryError):
        network = searches.network(call.model, call.options.precision)
        search = searches.find(call.model, network, call)
        if search is not None:
            return search.run(network, call)
    return reference(call)
