"""Which implementation decodes a batch: the list of backends in order of preference, and the rule of each.

    graphs       `harken.search.graphs`: Transformers and recurrent decoders on a GPU, plain calls, as CUDA graphs
    compiled     `harken.search.compiled`: Transformers and recurrent decoders on a CPU, most options, float32 or int8
    reference    `harken.search.reference`: any model with a `step`, every option, any device

A backend has `supports(call) -> bool` and `run(call) -> hypotheses`; `decode` asks them in order, and the reference is
the last entry. A faster backend gives the tokens of the reference and its scores up to rounding. It is asked with the
sources, not with a state, so that it may encode them, lay out its caches and run its own loop. Most backends support
plain calls alone (`DecodingCall.is_plain`): greedy or beam search with the simple length normalisation.
`HARKEN_KERNELS=off` leaves the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from harken.kernels.settings import kernels_enabled
from harken.search.compiled import run_compiled, supports_compiled
from harken.search.config import SearchOptions
from harken.search.graphs import run_graphs, supports_graphs
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
class Backend:
    """`supports(call)`: whether it can run the call and is the fastest of those left; `run(call)` decodes it."""

    name: str
    supports: Callable[[DecodingCall], bool]
    run: Callable[[DecodingCall], list[list[Hypothesis]]]
    is_kernel: bool = True  # switched off by HARKEN_KERNELS=off


def choose(call: DecodingCall) -> Backend:
    """The first backend that supports the call."""
    enabled = kernels_enabled()
    return next(one for one in BACKENDS if (enabled or not one.is_kernel) and one.supports(call))


def decode(call: DecodingCall) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first."""
    return choose(call).run(call) if call.rows else []


BACKENDS = [
    Backend("graphs", supports_graphs, run_graphs),
    Backend("compiled", supports_compiled, run_compiled),
    Backend("reference", lambda call: True, run_reference, is_kernel=False),
]
