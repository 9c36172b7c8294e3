"""When the compiled decoder is used, and how a batch gets there.

Loading numba and the kernels takes most of a second, compiling them on a machine's first use some twenty; a short text
is translated faster without. So calls run on the reference until that has taken as long as loading (`LOAD_SECONDS`) or
compiling (`COMPILE_SECONDS`) the kernels would: whatever follows, nobody waits more than twice as long as with the
better of the two. Once compiled, the code is on disk for every later process on the same kind of CPU. `prepare()` does
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
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from harken.kernels.decoding.description import Recurrent, Transformer
from harken.kernels.weights import ModelCache, Snapshot, has_hooks, is_frozen

if TYPE_CHECKING:
    from harken.kernels.decoding.recurrent import CompiledRecurrent
    from harken.kernels.decoding.search import Found
    from harken.kernels.decoding.transformer import CompiledTransformer

MAX_CACHE = 2**28  # numbers in the cache of a part, 1 GiB; a larger batch is decoded in parts
WATCHED = 1024  # tokens to decode from which on Ctrl-C is watched for
LOAD_SECONDS, COMPILE_SECONDS = 0.8, 20.0
Result = TypeVar("Result")

_NUMBA = find_spec("numba") is not None
_lock = threading.Lock()


@dataclass
class _Kernels:
    """Of one kind of decoder."""

    module: str  # with `compile_ahead` and `is_compiled`
    spent: float = 0.0  # seconds on the reference that the kernels might have saved
    is_ready: bool = False


_kernels = {
    "transformer": _Kernels("harken.kernels.decoding.transformer"),
    "recurrent": _Kernels("harken.kernels.decoding.recurrent"),
}


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # its owner may be a thread that the child does not have


os.register_at_fork(after_in_child=_after_fork)


@dataclass
class _Known:
    """What is known of a model while it stays the same."""

    snapshot: Snapshot | None = None  # with contents from the first packing on
    described: Transformer | Recurrent | None = None
    packed: CompiledTransformer | CompiledRecurrent | None = (
        None  # one precision at a time: it is as large as the model
    )


_known: ModelCache[_Known] = ModelCache(_Known)


def _is_supported(described: Transformer | Recurrent | None) -> bool:
    """Whether there are kernels for the cells and connections of a recurrent decoder; for Transformers all."""
    return not isinstance(described, Recurrent) or (
        described.connections.kind in (None, "residual")
        and not any(cell.coupled or cell.peephole is not None for cell in described.cells)
        and all(cell.nonlinearity == "tanh" for cell in described.cells)
    )


def _describe(model: nn.Module, known: _Known, contents: bool) -> None:
    described = getattr(model, "describe_for_decoding", lambda: None)()
    known.described = described if _is_supported(described) else None
    known.snapshot, known.packed = Snapshot(model, contents), None


def describe(model: Any) -> Transformer | Recurrent | None:
    """The tensors of a model that is supported: in float32 on a CPU, not in training, without hooks."""
    if not _NUMBA or not isinstance(model, nn.Module) or model.training or torch.is_autocast_enabled("cpu"):
        return None
    if has_hooks(model):
        return None
    with _lock:
        known = _known.of(model)
        if known.snapshot is None or not known.snapshot.is_in_place():
            _describe(model, known, contents=False)
        return known.described


def is_short_enough(model: Transformer | Recurrent, source: int, target: int) -> bool:
    """Whether learned positions suffice for sources and targets of these lengths."""
    if isinstance(model, Recurrent):
        return True
    sides = ((model.encoder, source), (model.decoder, target))
    return all(side is None or side.max_length is None or length <= side.max_length for side, length in sides)


def kind_of(described: Transformer | Recurrent | None) -> str:
    """The kernels that a model needs."""
    return "recurrent" if isinstance(described, Recurrent) else "transformer"


def prepare(kind: str = "transformer") -> None:
    """Loads the kernels for "transformer" or "recurrent" decoders, or compiles them."""
    import_module(_kernels[kind].module).compile_ahead()
    _kernels[kind].is_ready = True


def is_ready(kind: str) -> bool:
    """Whether the kernels are loaded, after loading or compiling them if the reference has taken long enough."""
    mine = _kernels[kind]
    if mine.is_ready or mine.spent == -math.inf:
        return mine.is_ready
    if mine.spent < LOAD_SECONDS and "numba" not in sys.modules:
        return False
    if mine.spent >= COMPILE_SECONDS or import_module(mine.module).is_compiled():
        try:
            prepare(kind)
        except Exception as error:  # such as a compiler that does not know this CPU: the reference still works
            mine.spent = -math.inf
            warnings.warn(f"the compiled decoder is not available, decoding is slower: {error}", stacklevel=2)
    return mine.is_ready


def timed(run: Callable[[], Result], kind: str) -> Result:
    """A call on the reference, whose time counts towards loading the kernels."""
    started = time.perf_counter()
    try:
        return run()
    finally:
        _kernels[kind].spent += time.perf_counter() - started


def packed(model: nn.Module, precision: str) -> CompiledTransformer | CompiledRecurrent:
    """The packed weights of a model that is supported, packed again where they have changed."""
    from harken.kernels.decoding.recurrent import CompiledRecurrent
    from harken.kernels.decoding.transformer import CompiledTransformer

    with _lock:
        known = _known.of(model)
        snapshot, frozen = known.snapshot, is_frozen(model) and known.packed is not None
        if snapshot is None or not (frozen or snapshot.is_current()):
            _describe(model, known, contents=True)
        described = known.described
        assert described is not None
        if known.packed is None or known.packed.precision != precision:
            if isinstance(described, Recurrent):
                known.packed = CompiledRecurrent(described, precision)
            else:
                known.packed = CompiledTransformer(described, precision)
        return known.packed


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


def run(
    model: Any,
    source: Tensor,
    lengths: Tensor | None,
    limits: Any,
    *,
    beam: int,
    nbest: int,
    penalty: float,
    gnmt: bool = False,
    enough: float = math.inf,
    min_length: int = 0,
    precision: str = "float32",
    allowed: Any = None,
) -> list[Found] | None:
    """Decodes a batch; None where the model's outputs are not finite numbers.

    Args:
        source: (B, S) ids, padded behind `lengths`.
        limits: (B,) most tokens of each output, EOS included.
        penalty, gnmt, enough: see `search.Rules`.
        min_length: fewest tokens, without EOS.
        allowed: (B, V) bool, a shortlist: the tokens that each source may write, EOS among them.

    Returns:
        The results of consecutive parts of the batch, one for each thread of torch.
    """
    from harken.kernels.decoding.search import Rules
    from harken.kernels.decoding.transformer import starts_of
    from harken.kernels.recurrent.cpu.runtime import run_all

    compiled = packed(model, precision)
    sizes = np.full(len(source), source.shape[1]) if lengths is None else lengths.numpy()
    rules = Rules(beam, nbest, float(penalty), gnmt, float(enough))
    numbers = compiled.cache_numbers(beam * len(source), int(limits.max()))
    parts = min(len(source), max(torch.get_num_threads(), -(-numbers // MAX_CACHE)))
    edges = [len(source) * part // parts for part in range(parts + 1)]
    stop = np.zeros(1, np.int64)
    results: list[Found | None] = [None] * parts

    def decode(part: int, low: int, high: int) -> None:
        mine, least = sizes[low:high], np.full(high - low, min_length + 1, np.int64)
        memory = compiled.read(model, source[low:high], None if lengths is None else lengths[low:high], mine)
        most = limits[low:high].astype(np.int64)
        chosen = None if allowed is None else allowed[low:high]
        results[part] = compiled.search(memory, starts_of(mine), most, rules, least, stop, chosen)

    tasks = [
        lambda part=part, low=low, high=high: decode(part, low, high)
        for part, (low, high) in enumerate(pairwise(edges))
    ]
    if int(limits.sum()) * beam < WATCHED:
        run_all(tasks)
    else:
        _interruptible(lambda: run_all(tasks), stop)
    return [one for one in results if one is not None] if None not in results else None
