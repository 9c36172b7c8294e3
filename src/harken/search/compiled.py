"""The compiled backend of `harken.search.dispatch`: greedy and beam search of encoder-decoders on a CPU.

Decoders are Transformers or recurrent, in float32 or int8. The kernels are in `harken.kernels.decoding`; the reference,
whose tokens they give, is that of `harken.search.dispatch`. They support the options of `SUPPORTED` and a shortlist.

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
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from harken.errors import UserError
from harken.kernels.decoding.description import Recurrent, Transformer
from harken.kernels.settings import kernels_enabled
from harken.kernels.weights import ModelCache, Snapshot, has_hooks, is_frozen
from harken.machine import CAN_FORK
from harken.search.config import SearchOptions
from harken.search.hypotheses import SPECIAL_TOKENS, Hypothesis
from harken.search.rules.penalties import Shortlist
from harken.search.rules.prefix import ForcedFirst

if TYPE_CHECKING:
    from harken.kernels.decoding.recurrent import CompiledRecurrent
    from harken.kernels.decoding.search import SearchResult
    from harken.kernels.decoding.transformer import CompiledTransformer
    from harken.search.dispatch import Decode, DecodingCall

SUPPORTED = {"beam", "length_penalty", "length_rule", "stopping", "patience", "min_length", "precision"} | {
    *("seed", "diversity"),  # without effect in these searches
}
MAX_CACHE = 2**28  # numbers in the cache of a part, 1 GiB; a larger batch is decoded in parts
WATCHED = 1024  # tokens: with more to decode, Ctrl-C is watched for
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
    if not _NUMBA or not isinstance(model, nn.Module) or model.training or torch.is_autocast_enabled("cpu"):
        return None
    if has_hooks(model):
        return None
    with _lock:
        packed = _MODELS.of(model)
        if packed.snapshot is None or not packed.snapshot.is_in_place():
            packed.describe(model, contents=False)
        return packed.described


def packed_weights(model: nn.Module, precision: str) -> CompiledTransformer | CompiledRecurrent:
    """The packed weights of a model that is supported, packed again where they have changed."""
    from harken.kernels.decoding.recurrent import CompiledRecurrent
    from harken.kernels.decoding.transformer import CompiledTransformer

    with _lock:
        packed = _MODELS.of(model)
        is_known = packed.weights is not None and is_frozen(model)
        if packed.snapshot is None or not (is_known or packed.snapshot.is_current()):
            packed.describe(model, contents=True)
        if packed.weights is None or packed.weights.precision != precision:
            kind = CompiledRecurrent if isinstance(packed.described, Recurrent) else CompiledTransformer
            packed.weights = kind(packed.described, precision)  # type: ignore[arg-type]
        return packed.weights


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


def why_not_compiled(call: DecodingCall) -> str | None:
    """The reason for which the compiled search does not run a call; None: it does."""
    options, fields = call.options, SearchOptions.model_fields
    if call.cancelled or call.observe or call.keep_beam:
        return "the search is watched or may be cancelled"
    if call.distances is not None or call.source.dim() != 2 or call.source.is_floating_point():
        return "the source is not a row of tokens"
    if call.source.device.type != "cpu":
        return "the model is not on a CPU"
    lists = [rule for rule in call.rules if isinstance(rule, Shortlist)]
    if len(lists) > 1 or not all(isinstance(rule, Shortlist | ForcedFirst) for rule in call.rules):
        return "there are rules for the next token, such as a prefix or a glossary"
    changed = [name for name in fields.keys() - SUPPORTED if getattr(options, name) != fields[name].default]
    if changed or options.stopping == "first":
        return f"search.{min(changed, default='stopping')} is set"
    described = describe(call.model)
    if described is None:
        return "the model is of a kind without kernels, is not in float32, is in training, or has hooks"
    least = min([len(described.target_embedding), *(int(rule.allowed.sum(-1).min()) for rule in lists)])
    if not 1 <= call.nbest <= options.beam or least < 2 * options.beam + 3:
        return "the beam is wider than the vocabulary or narrower than the n-best list"
    limits = torch.as_tensor(call.max_lengths)
    if int(limits.min()) < 1 + (len(call.rules) > len(lists)) or (
        call.lengths is not None and int(call.lengths.min()) < 1
    ):
        return "a source or a limit is empty"
    sides = () if isinstance(described, Recurrent) else (described.encoder, described.decoder)
    for side, length in zip(sides, (call.source.shape[1], int(limits.max())), strict=False):
        if side is not None and side.max_length is not None and length > side.max_length:
            return "a sentence is longer than the positions that were learned"
    return None


def run_compiled(call: DecodingCall, reference: Decode) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first; on the reference while loading the kernels costs more."""
    precision = "int8" if call.options.precision == "auto" else call.options.precision
    kernels = KERNELS[type(_MODELS.of(call.model).described or describe(call.model))]
    if precision == "float32" and not kernels.is_ready():
        started = time.perf_counter()
        try:
            return reference(call)
        finally:
            kernels.spent += time.perf_counter() - started
    return [hypotheses for part in _decode(call, precision) for hypotheses in _hypotheses(part)]


def _decode(call: DecodingCall, precision: str) -> list[SearchResult]:
    """The results of consecutive parts of the batch, at least one for each thread of torch."""
    from harken.kernels.decoding.search import Rules
    from harken.kernels.recurrent.cpu.runtime import run_all

    options, source, lengths = call.options, call.source, call.lengths
    compiled = packed_weights(call.model, precision)
    rules_of = {type(rule): rule for rule in call.rules}
    allowed = rules_of[Shortlist].allowed.expand(call.rows, -1).numpy() if Shortlist in rules_of else None
    limits = torch.as_tensor(call.max_lengths).expand(call.rows).numpy().astype(np.int64)
    sizes = np.full(call.rows, source.shape[1]) if lengths is None else lengths.numpy()
    rules = Rules(
        special=SPECIAL_TOKENS,
        beam=options.beam,
        nbest=call.nbest,
        penalty=float(options.length_penalty),
        gnmt=options.length_rule == "gnmt",
        forced=rules_of[ForcedFirst].token if ForcedFirst in rules_of else -1,
        max_finished=float(options.beam * options.patience) if options.stopping == "count" else math.inf,
    )
    minimums = np.full(call.rows, options.min_length + 1, np.int64)  # EOS included
    numbers = compiled.cache_numbers(options.beam * call.rows, int(limits.max()))
    parts = min(call.rows, max(torch.get_num_threads(), -(-numbers // MAX_CACHE)))
    stop = np.zeros(1, np.int64)
    results: list[SearchResult | None] = [None] * parts

    def decode(part: int, rows: slice) -> None:
        memory = compiled.read(call.model, source[rows], None if lengths is None else lengths[rows], sizes[rows])
        shortlist = None if allowed is None else allowed[rows]
        results[part] = compiled.search(memory, sizes[rows], limits[rows], minimums[rows], rules, stop, shortlist)

    edges = [call.rows * part // parts for part in range(parts + 1)]
    tasks = [
        lambda part=part, rows=slice(low, high): decode(part, rows) for part, (low, high) in enumerate(pairwise(edges))
    ]
    if int(limits.sum()) * options.beam < WATCHED:
        run_all(tasks)
    else:
        _interruptible(lambda: run_all(tasks), stop)
    finite = [result for result in results if result is not None]
    if len(finite) < parts:
        raise UserError("The model's logits are not finite numbers; its training has diverged.")
    return finite


def _interruptible(work: Callable[[], object], stop: Any) -> None:
    """Runs compiled code in a thread of its own, so that Ctrl-C ends it within a step and not after the batch."""
    errors: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=watched, daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        stop[0] = 1
        raise
    if errors:
        raise errors[0]


def _hypotheses(result: SearchResult) -> list[list[Hypothesis]]:
    rows = []
    for row, lengths in enumerate(result.lengths):
        best = []
        for slot in np.flatnonzero(lengths >= 0):
            length, finished = int(lengths[slot]), bool(result.finished[row, slot])
            best.append(
                Hypothesis(
                    tokens=result.tokens[row, slot, :length].tolist(),
                    score=float(result.scores[row, slot]),
                    normalised=float(result.normalised[row, slot]),
                    finished=finished,
                    token_scores=result.logs[row, slot, : length + finished].tolist(),
                )
            )
        rows.append(best)
    return rows
