"""The compiled backend of `harken.search.dispatch`: greedy and beam search and sampling of encoder-decoders on a CPU.

Decoders are Transformers or recurrent, in float32 or int8. The kernels are in `harken.kernels.decoding`; the reference,
whose tokens they give, is that of `harken.search.dispatch`. All options of a search are compiled with its loop
(`harken.search.program`). Where something outside the loop has a say in every step (several models, a language model, a
reader of the stream), the loop is left and entered again at each of them.

Loading numba and the kernels takes most of a second, compiling them on a machine's first use some twenty; a short text
is translated faster without. So calls run on the reference until that has taken as long as loading (`LOAD_SECONDS`) or
compiling (`COMPILE_SECONDS`) the kernels would: whatever follows, nobody waits more than twice as long as with the
better of the two. Once compiled, the code is on disk for every later process on the same kind of CPU. `prepare` does
not wait. int8 has no reference, so it is loaded or compiled at its first call.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.errors import UserError
from harken.kernels.decoding.description import Recurrent, Transformer
from harken.kernels.settings import kernels_enabled
from harken.kernels.weights import ModelCache, Session, Snapshot, has_hooks, is_frozen
from harken.lazy_torch import num_threads, torch
from harken.machine import CAN_FORK
from harken.search.ensemble import Ensemble
from harken.search.hypotheses import Hypothesis, added_by_rules, refuse_empty
from harken.search.program import rules_for_kernels, rules_of, stopper, why_not_rules
from harken.search.rules.base import SoFar
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.rules.penalties import Shortlist
from harken.search.rules.prefix import ForcedFirst
from harken.search.stored import StoredModel
from harken.search.streaming import CertainPrefix

if TYPE_CHECKING:
    from torch import nn

    from harken.kernels.decoding.recurrent import CompiledRecurrent
    from harken.kernels.decoding.search import Rules, Search, SearchResult
    from harken.kernels.decoding.transformer import CompiledTransformer
    from harken.search.dispatch import Decode, DecodingCall

MAX_CACHE = 2**28  # numbers in the cache of a part, 1 GiB; a larger batch is decoded in parts
WATCHED = 1024  # tokens: with more to decode, Ctrl-C is watched for
ABORTED, ENDED = 1, 2  # what `stop` says to the kernels: leave the result, end with what there is
POLL_SECONDS = 0.01  # between two questions whether to stop
LOAD_SECONDS, COMPILE_SECONDS = 0.8, 20.0

_NUMBA = find_spec("numba") is not None


@dataclass
class Kernels:
    """The compiled search with one kind of decoder."""

    module: str  # with `compile_ahead` and `is_compiled`
    spent: float = 0.0  # seconds on the reference that the kernels might have saved
    is_loaded: bool = False

    def load(self) -> None:
        """Load or compile the kernels now; a warning where that fails, as for a CPU that the compiler does not know."""
        try:
            import_module(self.module).compile_ahead()
            self.is_loaded = True
        except Exception as error:  # the reference still works
            self.spent = -math.inf
            warnings.warn(f"the compiled decoder is not available, decoding is slower: {error}", stacklevel=3)

    def is_ready(self) -> bool:
        """Whether the kernels are loaded, after loading or compiling them if the reference has taken long enough."""
        if self.is_loaded or self.spent == -math.inf or (self.spent < LOAD_SECONDS and "numba" not in sys.modules):
            return self.is_loaded
        if self.spent >= COMPILE_SECONDS or import_module(self.module).is_compiled():
            self.load()
        return self.is_loaded


KERNELS = {
    Transformer: Kernels("harken.kernels.decoding.transformer"),
    Recurrent: Kernels("harken.kernels.decoding.recurrent"),
}


@dataclass
class _Packed:
    """The description and the packed weights of a model, valid while it stays the same."""

    snapshot: Snapshot | None = None  # with contents from the first packing on
    described: Transformer | Recurrent | None = None
    weights: CompiledTransformer | CompiledRecurrent | None = None  # in one precision: they are as large as the model
    session: Session = field(default_factory=Session)

    def describe(self, model: nn.Module, contents: bool) -> None:
        """Read a model anew."""
        described = getattr(model, "describe_for_decoding", lambda: None)()
        self.described = described if _has_kernels(described) else None
        self.snapshot, self.weights = Snapshot(model, contents), None


_MODELS: ModelCache[_Packed] = ModelCache(_Packed)
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # its owner may be a thread that the child does not have


if CAN_FORK:
    os.register_at_fork(after_in_child=_after_fork)


def _has_kernels(described: Transformer | Recurrent | None) -> bool:
    """Whether there are kernels for the cells and connections of a recurrent decoder; for Transformers all."""
    return not isinstance(described, Recurrent) or (
        described.connections.kind in (None, "residual")
        and not any(cell.coupled or cell.peephole is not None for cell in described.cells)
        and all(cell.nonlinearity == "tanh" for cell in described.cells)
    )


def describe(model: Any) -> Transformer | Recurrent | None:
    """The tensors of a model that is supported: in float32 on a CPU, not in training, without hooks."""
    if isinstance(model, StoredModel):
        return model.described
    if not _NUMBA or not isinstance(model, torch.nn.Module) or model.training or torch.is_autocast_enabled("cpu"):
        return None
    if has_hooks(model):
        return None
    with _lock:
        packed = _MODELS.of(model)
        if packed.snapshot is None or not packed.snapshot.is_in_place():
            packed.describe(model, contents=False)
        return packed.described


def packed_weights(model: Any, precision: str, session: Any = None) -> CompiledTransformer | CompiledRecurrent:
    """The packed weights of a model that is supported, packed again where they have changed since the last session."""
    from harken.kernels.decoding.recurrent import CompiledRecurrent
    from harken.kernels.decoding.transformer import CompiledTransformer

    with _lock:
        packed = _MODELS.of(model)
        if isinstance(model, StoredModel):
            packed.described = model.described
        else:
            is_known = packed.session.goes_on(session) or is_frozen(model)
            if packed.snapshot is None or not ((packed.weights and is_known) or packed.snapshot.is_current()):
                packed.describe(model, contents=True)
            packed.session.begin(session)
        if packed.weights is None or packed.weights.precision != precision:
            kind = CompiledRecurrent if isinstance(packed.described, Recurrent) else CompiledTransformer
            packed.weights = kind(packed.described, precision)  # type: ignore[arg-type]
        return packed.weights


def are_compiled(described: Transformer | Recurrent) -> bool:
    """Whether the kernels that decode a description are on disk for this CPU, so that they need not be compiled."""
    is_compiled: bool = import_module(KERNELS[type(described)].module).is_compiled()
    return is_compiled


def compile_kernels() -> Iterator[tuple[str, bool, float]]:
    """Compile all kernels of the search for this CPU, or load them from disk: for each their name, whether they were on
    disk, and the seconds that it took."""
    modules = {"Transformer decoder": Transformer, "recurrent decoder": Recurrent}
    named = {name: KERNELS[kind].module for name, kind in modules.items()}
    for name, module in {**named, "digest of weights": "harken.kernels.digest"}.items():
        started = time.perf_counter()
        kernels = import_module(module)
        is_known = kernels.is_compiled()
        kernels.compile_ahead()
        yield name, is_known, time.perf_counter() - started


def prepare(model: Any, wait: bool = True) -> None:
    """Load or compile the kernels now where they support the model, instead of once that is worth it.

    Args:
        wait: otherwise they are compiled in a thread of their own, where they are not on disk.
    """
    described = describe(model) if kernels_enabled() else None
    kernels = None if described is None else KERNELS[type(described)]
    if kernels is None or kernels.is_loaded:
        return
    if wait or import_module(kernels.module).is_compiled():
        kernels.load()
    else:
        threading.Thread(target=kernels.load, daemon=True).start()


def why_not_installed() -> str | None:
    """The reason for which there is no compiled search here at all; None: there is."""
    if not kernels_enabled():
        return "HARKEN_KERNELS=off is set"
    return None if _NUMBA else "numba is not installed"


def _models_of(call: DecodingCall) -> list[Any]:
    """The models that take part in every step."""
    return call.model.models if type(call.model) is Ensemble else [call.model]


def why_not_compiled(call: DecodingCall) -> str | None:
    """The reason for which the compiled search does not run a call; None: it does."""
    if not kernels_enabled():
        return "HARKEN_KERNELS=off is set"  # before the model is described
    options, rules = call.options, call.rules
    if call.keep_beam or not isinstance(call.observe, CertainPrefix | None):
        return "the whole beam is observed"
    if getattr(call.source, "is_cuda", False):
        return "the model is not on a CPU"
    if call.distances is not None or call.source.ndim != 2 or "int" not in str(call.source.dtype):
        return "the source is not a row of tokens"
    if reason := why_not_rules(rules):
        return reason
    models = [describe(model) for model in _models_of(call)]
    described = [model for model in models if model is not None]
    if len(described) < len(models):
        return "the model is of a kind without kernels, is not in float32, is in training, or has hooks"
    sizes = {len(model.target_embedding) for model in described}
    lists = [rule for rule in rules if isinstance(rule, Shortlist)]
    if len(models) > 1 and (lists or options.coverage_penalty or len(sizes) > 1):
        return "several models have a shortlist, a coverage penalty or unequal vocabularies"
    if options.coverage_penalty and any(isinstance(model, Recurrent) and not model.score for model in described):
        return "the model has no attention to the source"
    least = min([*sizes, *(int(rule.allowed.sum(-1).min()) for rule in lists)])
    if not options.sample and (not 1 <= call.nbest <= options.beam or least < 2 * options.beam + 3):
        return "the beam is wider than the vocabulary or narrower than the n-best list"
    limits = np.asarray(call.max_lengths)
    is_forced = any(isinstance(rule, ForcedFirst) for rule in rules)
    if int(limits.min()) < 1 + is_forced or (call.lengths is not None and int(call.lengths.min()) < 1):
        return "a source or a limit is empty"
    for model in described:
        sides = () if isinstance(model, Recurrent) else (model.encoder, model.decoder)
        for side, length in zip(sides, (call.source.shape[1], int(limits.max())), strict=False):
            if side is not None and side.max_length is not None and length > side.max_length:
                return "a sentence is longer than the positions that were learned or stored"
    return None


def run_compiled(call: DecodingCall, reference: Decode) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first; on the reference while loading the kernels costs more."""
    precision = "int8" if call.options.precision == "auto" else call.options.precision
    kernels = [KERNELS[type(_MODELS.of(model).described or describe(model))] for model in _models_of(call)]
    if (
        precision == "float32"
        and not isinstance(call.model, StoredModel)
        and any(not search.is_ready() for search in kernels)
    ):
        started = time.perf_counter()
        try:
            return reference(call)
        finally:
            for search in kernels:
                search.spent += time.perf_counter() - started
    return [hypotheses for part in _decode(call, precision) for hypotheses in _hypotheses(part, call)]


def _decode(call: DecodingCall, precision: str) -> list[SearchResult]:
    """The results of consecutive parts of the batch, at least one for each thread of torch.

    Raises:
        UserError: the model's logits are not finite numbers.
    """
    from harken.kernels.decoding.search import new_search
    from harken.kernels.recurrent.cpu.runtime import run_all

    options, source, lengths, models = call.options, call.source, call.lengths, _models_of(call)
    packed = [packed_weights(model, precision, call.session) for model in models]
    shares = [math.log(weight) for weight in call.model.weights] if len(models) > 1 else [0.0]
    score_rules = [*rules_of(options), *call.rules]
    rules = rules_for_kernels(options, call.nbest, score_rules)
    allowed = next((rule for rule in call.rules if isinstance(rule, Shortlist)), None)
    fusion = next((rule for rule in call.rules if isinstance(rule, LanguageModelFusion)), None)
    lists = None if allowed is None else np.broadcast_to(allowed.allowed, (call.rows, allowed.allowed.shape[-1]))
    limits = np.broadcast_to(np.asarray(call.max_lengths, np.int64), call.rows).copy()
    sizes = np.full(call.rows, source.shape[1]) if lengths is None else np.asarray(lengths)
    numbers = np.arange(call.rows) if call.row_numbers is None else np.asarray(call.row_numbers, np.int64)
    minimums = np.full(call.rows, options.min_length + 1, np.int64)  # EOS included
    vocabulary, longest = packed[0].vocabulary, int(limits.max())
    most = sum(each.cache_numbers(rules.beam * call.rows, longest) for each in packed)
    fused = None if fusion is None else _Fused(fusion, call.rows, rules)
    is_watched = call.cancelled is not None or call.observe is not None
    is_alone = fused is not None or is_watched  # one part, in this thread
    threads = num_threads()
    parts = 1 if is_alone else min(call.rows, max(threads, -(-most // MAX_CACHE)))
    should_stop = stopper(options.time_limit, call.cancelled)
    stop = np.zeros(1, np.int64)
    results: list[SearchResult | None] = [None] * parts

    def decode(part: int, rows: slice) -> None:
        given = sizes[rows], limits[rows], minimums[rows], rules, stop, None if lists is None else lists[rows]
        decodings = []
        for model, each in zip(models, packed, strict=True):
            network = None if isinstance(model, StoredModel) else model
            memory = each.read(network, source[rows], None if lengths is None else lengths[rows], sizes[rows])
            decodings.append(each.begin(memory, *given))
        last, several = decodings[-1], len(decodings) > 1
        about = vocabulary, last.columns, rows.start, numbers[rows], several, fused is not None
        search = new_search(rules, sizes[rows], int(limits[rows].max()), *about)
        is_stepped = several or is_alone
        is_finite = is_stepped or last.run(search)
        while is_stepped and is_finite and search.rows and stop[0] != ABORTED:
            if is_alone and should_stop is not None and should_stop():
                stop[0] = ENDED
            if fused is not None:
                fused.fill(search, vocabulary)
            for place, (decoding, share) in enumerate(zip(decodings, shares, strict=True)):
                turn = 0 if not several else 1 if place == 0 else 3 if decoding is last else 2
                is_finite = is_finite and decoding.run(search, 1, turn, share)
            if call.observe is not None and is_finite:
                call.observe(_possible(search, last.result))
        for decoding in decodings:
            decoding.release()
        results[part] = last.result if is_finite else None

    edges = [call.rows * part // parts for part in range(parts + 1)]
    tasks = [
        lambda part=part, rows=slice(low, high): decode(part, rows) for part, (low, high) in enumerate(pairwise(edges))
    ]
    if is_alone or (int(limits.sum()) * rules.beam < WATCHED and should_stop is None):
        run_all(tasks, threads)
    else:
        _interruptible(lambda: run_all(tasks, threads), stop, should_stop)
    finite = [result for result in results if result is not None]
    if len(finite) < parts:
        raise UserError("The model's logits are not finite numbers; its training has diverged.")
    return finite


class _Fused:
    """A language model whose rows are those of a search, one for each hypothesis."""

    def __init__(self, rule: LanguageModelFusion, sources: int, rules: Rules) -> None:
        self.rule, self.beam, self.independent = rule, rules.beam, rules.independent
        self.alive = np.arange(sources)
        self.is_expanded = False

    def fill(self, search: Search, vocabulary: int) -> None:
        """The log-probabilities of the next tokens of all live rows."""
        rows, live, time, *_ = search.cursor.tolist()
        now = time % 2
        sources = search.sources[now, :rows]
        state_rows = sources * (self.beam if self.independent else 1) + search.samples[now, :rows]
        if self.independent and self.beam > 1 and not self.is_expanded:
            self.rule.expand_(self.beam)
            self.is_expanded = True
        if not self.independent:
            state_rows = np.arange(rows)
            if time > 0:
                self._follow(sources[:: max(live, 1)], search.ancestors[now, :rows, time - 1] % self.beam)
        count = len(self.alive) * (self.beam if self.is_expanded else 1)
        tokens = torch.zeros(count, min(time, 1), dtype=torch.long)
        if time > 0:
            tokens[torch.from_numpy(state_rows), 0] = torch.from_numpy(search.tokens[time, :rows].astype(np.int64))
        so_far = SoFar(tokens, torch.zeros(count, dtype=torch.long), torch.zeros(count, dtype=torch.long))
        with torch.inference_mode():
            table = self.rule(torch.zeros(count, vocabulary), so_far)
        search.fused[:rows, :vocabulary] = table.numpy()[state_rows]

    def _follow(self, sources: Any, parents: Any) -> None:
        """Bring the state to the survivors of the last step: some sources, and the parents of their rows."""
        if len(sources) < len(self.alive):
            self.rule.keep_(torch.from_numpy(np.flatnonzero(np.isin(self.alive, sources))))
            self.alive = sources.copy()
        if not self.is_expanded:
            self.rule.expand_(self.beam)
            self.is_expanded = True
        elif self.beam > 1:
            first = np.arange(len(parents)) // self.beam * self.beam
            self.rule.reorder_(torch.from_numpy(first + parents))


def _possible(search: Search, result: SearchResult) -> list[list[int]]:
    """The tokens of all that the result for the first source may begin with."""
    rows, _, time, *_ = search.cursor.tolist()
    now = time % 2
    possible = [
        [int(search.tokens[step, search.ancestors[now, row, step]]) for step in range(1, time)]
        + [int(search.tokens[time, row])]
        for row in range(rows)
        if search.scores[now, row] > -math.inf
    ]
    if result.lengths[0, 0] >= 0:
        possible.append(result.tokens[0, 0, : result.lengths[0, 0]].tolist())
    return possible


def _interruptible(work: Callable[[], object], stop: Any, should_stop: Callable[[], bool] | None) -> None:
    """Runs compiled code in a thread of its own, so that Ctrl-C and `should_stop` end it within a step."""
    errors: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=watched, daemon=True)
    thread.start()
    try:
        while should_stop is not None and thread.is_alive():
            thread.join(POLL_SECONDS)
            if should_stop():
                stop[0], should_stop = ENDED, None
        thread.join()
    except BaseException:
        stop[0] = ABORTED
        raise
    if errors:
        raise errors[0]


def _hypotheses(result: SearchResult, call: DecodingCall) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first.

    Raises:
        UserError: a source has none.
    """
    rows = []
    refuse_empty(np.flatnonzero((result.lengths < 0).all(1)))
    refuse_empty(np.flatnonzero(((result.lengths >= 0) & ~(result.scores > -math.inf)).any(1)))
    for row, lengths in enumerate(result.lengths):
        best = []
        for slot in np.flatnonzero(lengths >= 0):
            length, finished = int(lengths[slot]), bool(result.finished[row, slot])
            token_scores = result.logs[row, slot, : length + finished].tolist()
            total = float(sum(token_scores))
            best.append(
                Hypothesis(
                    tokens=result.tokens[row, slot, :length].tolist(),
                    score=total,
                    normalised=float(result.normalised[row, slot]),
                    finished=finished,
                    token_scores=token_scores,
                    added=added_by_rules(float(result.scores[row, slot]), total),
                    coverage=float(result.covered[row, slot]),
                )
            )
        rows.append(sorted(best, key=lambda one: (not one.finished, -one.normalised)) if call.options.sample else best)
    return rows
