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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.cuda_graphs import GraphCache, capture, run_on
from harken.kernels.decoding.description import Recurrent, Transformer
from harken.kernels.settings import device_only, has_triton
from harken.kernels.weights import ModelCache, Session, Snapshot, is_frozen
from harken.search.contract import limits
from harken.search.device_rules import (
    BEFORE_SOFTMAX,
    LEAST_SEQUENCES,
    LEAST_TOKENS,
    ON_SCORES,
    DeviceRules,
    is_captured,
    why_not_device_rules,
)
from harken.search.device_search import DeviceSearch, Form, Selection
from harken.search.ensemble import Ensemble
from harken.search.hypotheses import Hypothesis
from harken.search.program import is_independent, rules_of, stopper
from harken.search.ranking import ranking_of
from harken.search.rules.base import ScoreRule
from harken.search.rules.fusion import LanguageModelFusion
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
    shares: tuple[float, ...] = ()  # of the models of an ensemble


def shape_of(call: DecodingCall) -> Shape:
    """The bucket of a call."""
    options, rules = call.options, [*rules_of(call.options), *call.rules]
    words, longest = call.source.shape[1], int(torch.as_tensor(call.max_lengths).max())
    padded = max(words, min([bucket(words, LEAST_WORDS), *map(_most_words, models_of(call.model))]))
    groups = 1 if options.sample else options.diversity_groups
    competes = not is_independent(options, call.nbest, rules)
    form = Form(competes, options.sample, groups, bool(options.coverage_penalty))
    beam = call.nbest if options.sample else options.beam
    kinds = frozenset(ON_SCORES[0] if type(rule) in ON_SCORES else type(rule) for rule in rules)
    sequences = [row for rule in rules if isinstance(rule, Banned) for row in rule.sequences()]
    banned = bucket(len(sequences), LEAST_SEQUENCES), bucket(max(map(len, sequences), default=0), LEAST_TOKENS)
    changed = kinds - set(BEFORE_SOFTMAX)
    shares = tuple(call.model.weights) if isinstance(call.model, Ensemble) else ()
    length = bucket(longest, LEAST_WORDS)
    return Shape(bucket(call.rows), beam, padded, length, form, kinds, banned if changed else (0, 0), shares)


def models_of(model: Any) -> list[Any]:
    """The members of an ensemble, or the model itself."""
    return model.models if type(model) is Ensemble else [model]


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
        needed = sum(cache_bytes(model, shape_of(call)) for model in models_of(call.model))
        reason = "its caches are too large" if needed > SHARE * total else None
    return reason


def why_not_static(call: DecodingCall) -> str | None:
    """The reason for which a search cannot have fixed shapes, on any device."""
    from harken.kernels.decoding.cuda import choosing  # imports Triton

    options = call.options
    if options.precision == "int8" or call.keep_beam or not isinstance(call.observe, CertainPrefix | None):
        return "int8 was asked for, or the whole beam is observed"
    if call.distances is not None or call.source.dim() != 2 or call.source.is_floating_point():
        return "the source is not a row of tokens"
    if reason := why_not_device_rules(options, call.rules):
        return reason
    if not options.sample and not 1 <= call.nbest <= options.beam <= choosing.MOST // 2:
        return f"the beam is narrower than the n-best list or wider than {choosing.MOST // 2}"
    longest = torch.as_tensor(call.max_lengths)
    if int(longest.min()) < 1 or (call.lengths is not None and int(call.lengths.min()) < 1):
        return "a source or a limit is empty"
    return next(
        filter(None, (_why_not_model(model, call, int(longest.max())) for model in models_of(call.model))), None
    )


def _why_not_model(model: Any, call: DecodingCall, longest: int) -> str | None:
    options = call.options
    if not is_captured(model):
        return "the model is in training or has hooks"
    if not getattr(getattr(model, "decoder", None), "is_static", False) or not hasattr(model, "encode"):
        return "the decoder has no state of fixed shapes"
    if options.coverage_penalty and not getattr(model.decoder, "attends", True):
        return "the model has no attention to the source"
    vocabulary = len(model.output_weight)
    if vocabulary != len(models_of(call.model)[0].output_weight):
        return "the models write different vocabularies"
    if not options.sample and vocabulary < 2 * options.beam + 3:
        return "the beam is wider than the vocabulary"
    table = getattr(getattr(getattr(model.decoder, "stack", None), "positions", None), "embedding", None)
    if table is None:
        return None
    needed = longest if describe(model) is not None else bucket(longest, LEAST_WORDS)
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
    """Keys and values of the tokens and the sources, and tables of scores where several models have a say."""
    blocks = getattr(getattr(model.decoder, "stack", None), "blocks", ())
    rows = shape.sources * (shape.beam * shape.length + shape.words)
    fused = LanguageModelFusion in shape.kinds or shape.shares
    tables = 8 * shape.sources * shape.beam * len(model.output_weight) if fused else 0
    return int(2 * len(blocks) * rows * model.decoder.width * model.output_weight.element_size()) + tables


def language_models(call: DecodingCall) -> list[Any]:
    """The model of `LanguageModelFusion`, if there is one."""
    return [rule.model for rule in call.rules if isinstance(rule, LanguageModelFusion)]


class PlainStep:
    """Any decoder with a static state, by its own `step`; hypotheses are moved by `reorder_`."""

    def __init__(self, model: Any, memory: Any, shape: Shape) -> None:
        self.model, self.shape = weakref.ref(model), shape
        self.state = model.decoder.start(memory, shape.beam, shape.length, static=True)

    @property
    def attention(self) -> Tensor | None:
        """(R, S) of the last step."""
        weights: Tensor | None = self.state.attention
        return weights

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


class MixedStep:
    """The decoders of an ensemble as one: the weighted mean of their distributions (`harken.search.ensemble`)."""

    def __init__(self, decoders: list[Any], shares: tuple[float, ...], device: torch.device) -> None:
        self.decoders, self.shares = decoders, torch.tensor(shares, device=device).log()

    @property
    def attention(self) -> Tensor:
        """(R, S): the mean over the models."""
        return torch.stack([decoder.attention.float() for decoder in self.decoders]).mean(0)

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Tokens (R,) at position (1,) -> log-probabilities (R, V)."""
        from harken.kernels.decoding.cuda.mixture import mix  # imports Triton

        table = torch.empty(0)
        for number, decoder in enumerate(self.decoders):
            logits = decoder.step(tokens, position)
            table = torch.empty_like(logits, dtype=torch.float32) if number == 0 else table
            mix(table, logits, self.shares[number], "mix" if number else "put")
        return table

    def reorder_(self, rows: Tensor) -> None:
        """See `harken.search.contract`."""
        for decoder in self.decoders:
            decoder.reorder_(rows)


class Member:
    """A model of a search: the state of its decoder, and the encoder that fills it."""

    def __init__(
        self, model: Any, described: Transformer | Recurrent | None, shape: Shape, source: Tensor, lengths: Tensor
    ) -> None:
        from harken.kernels.decoding.cuda import attention, recurrent, step  # imports Triton

        self.decoder: Any
        self.shape, self.source, self.lengths = shape, source, lengths
        rows, is_fused = shape.sources * shape.beam, attention.is_fused(source)
        sizes, reads = (shape.sources, shape.beam, shape.length, shape.words), shape.form.covers
        if isinstance(described, Transformer):
            self.decoder = step.TRANSFORMER_STEP.run(described, *sizes, shape.form.competes)
            self.decoder.need_weights = reads
        elif is_fused and recurrent.RECURRENT_STEP.supports(described, rows):
            self.decoder = recurrent.RECURRENT_STEP.run(described, shape.sources, shape.beam, shape.words)
            self.decoder.need_weights = reads
        else:
            self.decoder = PlainStep(model, pad_memory(model.encode(source, lengths), shape), shape)
            self.decoder.state.need_weights = reads
        # whether sources are encoded in a graph, where nothing may wait for the device
        stays = getattr(model.encoder, "stays_on_device", lambda source: False)
        self.encodes = (isinstance(described, Transformer) and described.encoder is not None) or stays(source)
        self.is_transformer = isinstance(self.decoder, step.TransformerStep)
        self.is_recurrent = isinstance(self.decoder, recurrent.RecurrentStep)
        self.graph: torch.cuda.CUDAGraph | None = None  # of the encoder

    def encode(self, model: Any) -> None:
        """From the sources in the buffers to the decoder's state."""
        self._start(model, model.encode(self.source, self.lengths), self.lengths)

    def load(self, model: Any, call: DecodingCall) -> None:
        """Encode the sources of a call, which are in the buffers, into the decoder's state."""
        if self.is_transformer:
            self.decoder.load_positions()
        if self.graph is not None:
            self.graph.replay()
            return
        if self.encodes:
            self.encode(model)
            return
        words = call.source.shape[1]
        full = call.lengths is None or int(call.lengths.min()) == words  # packing would wait for the device
        memory = model.encode(call.source, None if full else call.lengths)
        sizes = memory.values.shape[1] if memory.mask is None else memory.mask.sum(1)
        self._start(model, pad_memory(memory, self.shape) if isinstance(self.decoder, PlainStep) else memory, sizes)

    def _start(self, model: Any, memory: Any, lengths: Tensor | int) -> None:
        """The decoder's state, from the memory of sources of these lengths."""
        if isinstance(self.decoder, PlainStep):
            self.decoder.load(model, memory)
        elif self.is_recurrent:
            self.decoder.load(model.decoder.start(memory), lengths)
        else:
            self.decoder.load(memory.values, lengths)


class GraphSearch:
    """The search of one shape: its buffers, and on a GPU the captured graphs of the encoders and of STEPS steps.

    Args:
        models: one, or those of an ensemble, whose descriptions follow.
        language: the model of `LanguageModelFusion`.
        selection: what follows a step. Default: the kernels.
    """

    def __init__(
        self,
        models: Sequence[Any],
        described: Sequence[Transformer | Recurrent | None],
        shape: Shape,
        device: torch.device,
        language: Any = None,
        selection: Selection | None = None,
    ) -> None:
        from harken.kernels.decoding.cuda import selection as kernels  # imports Triton

        self.shape = shape
        self.source = torch.zeros(shape.sources, shape.words, dtype=torch.long, device=device)
        self.lengths = torch.ones(shape.sources, dtype=torch.long, device=device)
        self.selection = selection or kernels
        sizes, vocabulary = (shape.sources, shape.beam, shape.length), len(models[0].output_weight)
        self.rules: DeviceRules | None = None
        if shape.kinds:
            self.rules = DeviceRules(*sizes, vocabulary, shape.banned, shape.kinds, device, language)
        self.search = DeviceSearch(*sizes, device, STEPS, shape.form, self.rules, shape.words)
        self.members = [
            Member(model, description, shape, self.source, self.lengths)
            for model, description in zip(models, described, strict=True)
        ]
        decoders = [member.decoder for member in self.members]
        self.decoder: Any = MixedStep(decoders, shape.shares, device) if shape.shares else decoders[0]
        self.step_graph: torch.cuda.CUDAGraph | None = None
        self.bytes = 0

    def capture(self, models: Sequence[Any], pool: Any) -> None:
        """All graphs, after one pass in which kernels are compiled and buffers allocated."""
        new_stream: Callable[[], torch.cuda.Stream] = torch.cuda.Stream  # torch does not annotate the constructors
        new_event: Callable[[], torch.cuda.Event] = torch.cuda.Event
        stream = new_stream()

        def captured(function: Callable[[], None]) -> torch.cuda.CUDAGraph:
            with run_on(stream):
                function()
            return capture(function, stream, pool)[0]

        with device_only():
            for member, model in zip(self.members, models, strict=True):
                if member.encodes:
                    member.graph = captured(partial(member.encode, model))
        self.step_graph = captured(self._steps)
        self.flags = torch.zeros(2, dtype=torch.int32, pin_memory=True)
        self.events = new_event(), new_event()

    def run(self, models: Sequence[Any], call: DecodingCall) -> list[list[Hypothesis]]:
        """Decode a call that the shape has room for."""
        options, device = call.options, self.source.device
        most = limits(call.max_lengths, call.rows, device)
        graphs = -(-int(most.max()) // STEPS)  # before the device is busy, since it waits for it
        self._load(models, call)
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

    def _load(self, models: Sequence[Any], call: DecodingCall) -> None:
        """Encode the sources into the states of the decoders."""
        rows, words = call.source.shape
        lengths = torch.full((rows,), words, device=call.source.device) if call.lengths is None else call.lengths
        self.source[:rows, :words] = call.source
        self.lengths.fill_(1)
        self.lengths[:rows] = lengths
        if self.search.coverage is not None:
            self.search.coverage.load(call.options.coverage_penalty, lengths)
        for member, model in zip(self.members, models, strict=True):
            member.load(model, call)


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
    """The captured searches of one model, alone or as the first of an ensemble, and its copy in bfloat16."""

    def __init__(self) -> None:
        self.captured: GraphCache[GraphSearch] = GraphCache("searches", SEARCHES, SHARE, uses=1)
        self.low: nn.Module | None = None
        self.snapshot: Snapshot | None = None  # where the model was when its copy was made
        # where all models were when searches were captured
        self.snapshots = WeakKeyDictionary[nn.Module, Snapshot]()
        self.session = Session()  # in which the copy was last made like the model
        self.lock = threading.Lock()
        self.pool: Any = None

    def network(self, model: nn.Module, precision: str, session: Any = None) -> nn.Module:
        """The model itself, or for "auto" its copy in bfloat16, with the weights of now."""
        with self.lock:
            if self.snapshot is None or not self.snapshot.is_in_place():
                self.low, self.snapshot = None, Snapshot(model, contents=False)
            if precision != "auto" or not torch.cuda.is_bf16_supported():
                return model
            if self.low is None:
                self.low = copy.deepcopy(model).to(torch.bfloat16).eval()
                self.weights: tuple[list[Tensor], list[Tensor]] = [*self.low.parameters()], [*model.parameters()]
            elif not (self.session.goes_on(session) or is_frozen(model)):
                torch._foreach_copy_(*self.weights)  # a few kernels; torch does not count all changes of the weights
            self.session.begin(session)
            return self.low

    def find(self, call: DecodingCall, networks: list[Any], language: Any) -> GraphSearch | None:
        """The search for a call, captured now if it is the first of its shape."""
        models = models_of(call.model)
        parts = [*models, *language_models(call)]
        for part in parts:
            snapshot = self.snapshots.get(part)
            if snapshot is not None and not snapshot.is_in_place():
                self.captured.clear()
                self.snapshots.clear()
        for part in parts:
            if part not in self.snapshots:
                self.snapshots[part] = Snapshot(part, contents=False)
        read = [*networks, *([] if language is None else [language])]
        key = shape_of(call), tuple(weakref.ref(part) for part in read)
        return self.captured.find(key, lambda: self._capture(call, networks, language))

    def _capture(self, call: DecodingCall, networks: list[Any], language: Any) -> GraphSearch:
        described = []
        for model, network in zip(models_of(call.model), networks, strict=True):
            description = describe(network)
            if isinstance(description, Transformer) and network is not model:  # positions are added in float32
                exact = replace(description.decoder, positions=model.decoder.stack.positions)
                description = replace(description, decoder=exact)
            described.append(description)
        before = torch.cuda.memory_reserved()
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        search = GraphSearch(networks, described, shape_of(call), call.source.device, language)
        search.capture(networks, self.pool)
        search.bytes = max(0, torch.cuda.memory_reserved() - before)
        return search


_SEARCHES: ModelCache[ModelSearches] = ModelCache(ModelSearches)


def release_searches(model: nn.Module) -> None:
    """Free the memory of the searches that were captured for a model, and of its copy in bfloat16."""
    _SEARCHES.forget(model)


@torch.inference_mode()
def run_graphs(call: DecodingCall, reference: Decode) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first; on the reference where nothing could be captured."""
    models, precision = models_of(call.model), call.options.precision
    with torch.cuda.device(call.source.device), suppress(torch.OutOfMemoryError):
        networks = [_SEARCHES.of(model).network(model, precision, call.session) for model in models]
        language = next((_SEARCHES.of(model).network(model, precision) for model in language_models(call)), None)
        searches = _SEARCHES.of(models[0])
        with searches.lock:
            search = searches.find(call, networks, language)
            if search is not None:
                return search.run(networks, call)
    return reference(call)
