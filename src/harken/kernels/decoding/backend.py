"""When the compiled decoder is used, and how a batch gets there.

numba takes half a second to import, and on a machine's first use its compiler some fifteen seconds; a short text is
translated faster without it. So calls run on the reference until that has taken as long as loading (`LOAD_SECONDS`) or
compiling (`COMPILE_SECONDS`) the kernels would: whatever follows, nobody waits more than twice as long as with the
better of the two. Once compiled, the code is on disk for every later process on the same kind of CPU. `prepare()` does
not wait. int8 has no reference, so it is loaded or compiled at its first call.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from harken.kernels.decoding.description import Transformer

if TYPE_CHECKING:
    from harken.kernels.decoding.search import Found
    from harken.kernels.decoding.transformer import CompiledTransformer

LOAD_SECONDS, COMPILE_SECONDS = 0.5, 20.0
Result = TypeVar("Result")

_NUMBA = find_spec("numba") is not None
_lock = threading.Lock()
_spent = 0.0  # seconds on the reference that the kernels might have saved
_ready = False
_packed: WeakKeyDictionary[Any, dict[str, CompiledTransformer]] = WeakKeyDictionary()


def describe(model: Any) -> Transformer | None:
    """The tensors of a model that is supported: a Transformer decoder in float32 on a CPU, not in training."""
    if not _NUMBA or getattr(model, "training", True) or torch.is_autocast_enabled("cpu"):
        return None
    found: Transformer | None = getattr(model, "describe_for_decoding", lambda: None)()
    return found


def is_short_enough(model: Transformer, source: int, target: int) -> bool:
    """Whether learned positions suffice for sources and targets of these lengths."""
    sides = ((model.encoder, source), (model.decoder, target))
    return all(side is None or side.max_length is None or length <= side.max_length for side, length in sides)


def prepare() -> None:
    """Loads the kernels, or compiles them."""
    global _ready
    from harken.kernels.decoding.transformer import compile_ahead

    compile_ahead()
    _ready = True


def is_ready() -> bool:
    """Whether the kernels are loaded, after loading or compiling them if the reference has taken long enough."""
    if _ready:
        return True
    if _spent < LOAD_SECONDS and "numba" not in sys.modules:
        return False
    from harken.kernels.decoding.transformer import is_compiled

    if _spent >= COMPILE_SECONDS or is_compiled():
        prepare()
    return _ready


def timed(run: Callable[[], Result]) -> Result:
    """A call on the reference, whose time counts towards loading the kernels."""
    global _spent
    started = time.perf_counter()
    try:
        return run()
    finally:
        _spent += time.perf_counter() - started


def packed(model: Any, described: Transformer, precision: str) -> CompiledTransformer:
    """The packed weights of a model, packed again where they have changed."""
    from harken.kernels.decoding.transformer import CompiledTransformer

    with _lock:
        of_model = _packed.setdefault(model, {})
        found = of_model.get(precision)
        if found is None or found.versions != described.versions():
            of_model.clear()  # one precision at a time: a packed model is as large as the model
            found = of_model[precision] = CompiledTransformer(described, precision)
        return found


def run(
    model: Any,
    described: Transformer,
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
) -> list[Found] | None:
    """Decodes a batch; None where the model's outputs are not finite numbers.

    Args:
        source: (B, S) ids, padded behind `lengths`.
        limits: (B,) most tokens of each output, EOS included.
        penalty, gnmt, enough: see `search.Rules`.
        min_length: fewest tokens, without EOS.

    Returns:
        The results of consecutive parts of the batch, one for each thread of torch.
    """
    from harken.kernels.decoding.search import Rules
    from harken.kernels.recurrent.cpu.runtime import run_all

    compiled = packed(model, described, precision)
    sizes = np.full(len(source), source.shape[1]) if lengths is None else lengths.numpy()
    rules = Rules(beam, nbest, float(penalty), gnmt, float(enough))
    parts = min(torch.get_num_threads(), len(source))
    edges = [len(source) * part // parts for part in range(parts + 1)]
    results: list[Found | None] = [None] * parts

    def decode(part: int, low: int, high: int) -> None:
        mine = sizes[low:high]
        starts = np.concatenate([[0], np.cumsum(mine)]).astype(np.int64)
        if compiled.encoder is None:
            with torch.inference_mode():
                memory = model.encode(source[low:high], None if lengths is None else lengths[low:high]).values
            values = compiled.without_padding(memory, mine)
        else:
            inside = np.arange(source.shape[1])[None] < mine[:, None]
            values = compiled.encode(source[low:high].numpy()[inside].astype(np.int64), starts)
        fewest = np.full(high - low, min_length + 1, np.int64)
        results[part] = compiled.search(values, starts, limits[low:high].astype(np.int64), rules, fewest)

    tasks = [
        lambda part=part, low=low, high=high: decode(part, low, high)  # type: ignore[misc]
        for part, (low, high) in enumerate(pairwise(edges))
    ]
    run_all(tasks)
    return [one for one in results if one is not None] if None not in results else None
