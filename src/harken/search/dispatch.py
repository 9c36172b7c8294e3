"""Which implementation decodes a batch: the list of backends in order of preference, and the rule of each.

    graphs       `harken.search.graphs`: Transformers and recurrent decoders on a GPU, plain calls, as CUDA graphs
    compiled     `harken.search.compiled`: Transformers and recurrent decoders on a CPU, most options, float32 or int8
    reference    `harken.search.reference`: any model with a `step`, every option, any device

`decode` asks the backends in order, and the reference is the last. A faster backend gives the tokens of the reference
and its scores up to rounding. It is asked with the sources, not with a state, so that it may encode them, lay out its
caches and run its own loop. `HARKEN_KERNELS=off` leaves the reference, and refuses int8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from harken.errors import UserError
from harken.kernels.settings import kernels_enabled
from harken.search.compiled import run_compiled, why_not_compiled
from harken.search.config import SearchOptions
from harken.search.graphs import run_graphs, why_not_graphs
from harken.search.hypotheses import Hypothesis
from harken.search.reference import run_reference


@dataclass(frozen=True)
class DecodingCall:
    """One batch to decode: a model, its sources, and how to search."""

    model: Any  # with `start` and `step` (`harken.search.contract`)
    source: Tensor  # (B, S) ids with EOS, padded; or whatever else `model.start` reads, one row for each source
    lengths: Tensor | None  # (B,) of the sources; None: no padding
    max_lengths: Tensor | int  # (B,) the most tokens of each output, EOS included
    options: SearchOptions
    nbest: int = 1
    distances: Tensor | None = None  # (B, S, S) for models that read trees
    rules: tuple[Any, ...] = ()  # rules that hold data of this batch (`harken.search.rules`): prefixes, constraints ...
    row_numbers: Tensor | None = None  # (B,) what the random numbers of each source depend on, such as its line
    cancelled: Callable[[], bool] | None = None  # asked at every step; True ends the search with what it has
    observe: Callable[[Any], None] | None = None  # called after every step (`harken.search.streaming`, `.tree`)
    keep_beam: bool = False  # search with a beam of 1 by beam search, so that there is a tree to observe

    @property
    def rows(self) -> int:
        """B."""
        return len(self.source)

    @property
    def is_plain(self) -> bool:
        """Greedy or beam search by log-probability and length alone: `beam`, `length_penalty`, `stopping`, `nbest`."""
        return not self.rules and self.cancelled is None and self.observe is None and self.options.is_plain


@dataclass(frozen=True)
class SearchBackend:
    """One implementation of decoding.

    `why_not(call)` is the reason for which it cannot run a call, or None where it can, and is the fastest of those that
    follow; `run(call)` decodes it.
    """

    name: str
    why_not: Callable[[DecodingCall], str | None]
    run: Callable[[DecodingCall], list[list[Hypothesis]]]
    is_kernel: bool = True  # switched off by HARKEN_KERNELS=off

    def supports(self, call: DecodingCall) -> bool:
        """Whether it can run a call now."""
        return (not self.is_kernel or kernels_enabled()) and self.why_not(call) is None


GRAPHS = SearchBackend("graphs", why_not_graphs, run_graphs)
COMPILED = SearchBackend("compiled", why_not_compiled, run_compiled)
REFERENCE = SearchBackend("reference", lambda call: None, run_reference, is_kernel=False)
BACKENDS = (GRAPHS, COMPILED, REFERENCE)


def choose(call: DecodingCall) -> SearchBackend:
    """The first backend that supports the call.

    Raises:
        UserError: int8 is demanded of a call that only other backends support.
    """
    chosen = next(backend for backend in BACKENDS if backend.supports(call))
    if call.options.precision == "int8" and chosen is not COMPILED:
        reason = COMPILED.why_not(call) if kernels_enabled() else "HARKEN_KERNELS=off is set"
        raise UserError(
            f'search.precision is "int8", but {reason}. int8 needs a Transformer or recurrent decoder of the kinds in '
            "docs/decoding.md on a CPU, and greedy or beam search without further options; "
            'choose "auto" for int8 where it is supported, or "float32".'
        )
    return chosen


def decode(call: DecodingCall) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first."""
    return choose(call).run(call) if call.rows else []
