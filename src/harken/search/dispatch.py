"""Which implementation decodes a batch: the list of backends in order of preference, and the rule of each.

    graphs       `harken.search.graphs`: Transformers and recurrent decoders on a GPU, most options, as CUDA graphs
    compiled     `harken.search.compiled`: Transformers and recurrent decoders on a CPU, all options, float32 or int8
    reference    `harken.search.beam` and `harken.search.greedy`: any model with a `step`, every option, any device

`decode` asks the backends in order, and the reference is the last. A faster backend gives the tokens of the reference
and its scores up to rounding. It is asked with the sources, not with a state, so that it may encode them, lay out its
caches and run its own loop. `HARKEN_KERNELS=off` leaves the reference, and refuses int8.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harken.errors import UserError
from harken.kernels.backend import Backend, always
from harken.kernels.backend import choose as choose_backend
from harken.lazy_torch import torch
from harken.search.compiled import run_compiled, why_not_compiled
from harken.search.config import SearchOptions
from harken.search.conflicts import OF_CALLS, conflict_of
from harken.search.hypotheses import Hypothesis
from harken.search.program import is_independent, rules_of, stopper
from harken.search.ranking import ranking_of
from harken.search.stored import StoredModel

if TYPE_CHECKING:
    from torch import Tensor

Decode = Callable[["DecodingCall"], list[list[Hypothesis]]]


@dataclass(frozen=True)
class DecodingCall:
    """One batch to decode: a model, its sources, and how to search; with a `StoredModel`, of arrays."""

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
    session: Any = None  # batches of one session, in which no weight changes: contents are compared for the first alone

    @property
    def rows(self) -> int:
        """B."""
        return len(self.source)

    def on_network(self) -> DecodingCall:
        """The call of a stored model on its network."""
        arrays = ("source", "lengths", "max_lengths", "row_numbers")
        tensors: dict[str, Any] = {
            name: torch.as_tensor(value) for name in arrays if (value := getattr(self, name)) is not None
        }
        return replace(self, model=self.model.network, **tensors)


def run_reference(call: DecodingCall) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first."""
    from harken.search.beam import beam_search  # they import torch
    from harken.search.greedy import independent_search
    from harken.search.sampling import Sampling

    options, given = call.options, () if call.distances is None else (call.distances,)
    longest = int(torch.as_tensor(call.max_lengths).max())
    state = call.model.start(call.source, call.lengths, *given, max_length=longest)
    visible = None
    if call.lengths is not None and options.coverage_penalty:
        visible = torch.arange(call.source.shape[1], device=call.lengths.device) < call.lengths[:, None]
    rules = [*rules_of(options), *call.rules]
    shared: dict[str, Any] = {
        "max_lengths": call.max_lengths,
        "ranking": ranking_of(options),
        "rules": rules,
        "visible": visible,
        "should_stop": stopper(options.time_limit, call.cancelled),
        "observe": call.observe,
        "device": call.source.device,
    }
    if options.sample:
        kind = options.temperature, options.top_k, options.top_p, options.min_p, options.seed
        sampling = Sampling(*kind, call.row_numbers)
        return independent_search(call.model, state, call.rows, sampling=sampling, samples=call.nbest, **shared)
    if is_independent(options, call.nbest, rules) and not call.keep_beam:
        return independent_search(call.model, state, call.rows, **shared)
    is_greedy = options.beam == 1 and call.nbest == 1
    return beam_search(
        call.model,
        state,
        call.rows,
        beam=options.beam,
        nbest=call.nbest,
        stopping="count" if is_greedy else options.stopping,  # greedy search ends with its first EOS
        patience=1.0 if is_greedy else options.patience,
        groups=options.diversity_groups,
        diversity=options.diversity,
        **shared,
    )


def why_not_graphs(call: DecodingCall) -> str | None:
    """The reason for which captured searches do not run a call; None: they do."""
    if not getattr(call.source, "is_cuda", False):
        return "the model is not on a GPU"
    from harken.search import graphs  # imports torch

    return graphs.why_not_graphs(call)


def run_graphs(call: DecodingCall, reference: Decode) -> list[list[Hypothesis]]:
    """See `harken.search.graphs`."""
    from harken.search import graphs

    return graphs.run_graphs(call, reference)


class SearchBackend(Backend[list[list[Hypothesis]]]):
    """One implementation of decoding: `run(call, reference)` decodes a call, or leaves it to the reference."""

    def decode(self, call: DecodingCall) -> list[list[Hypothesis]]:
        """Up to `nbest` hypotheses for each source, best first."""
        return self.run(call, run_reference)


GRAPHS = SearchBackend("graphs", why_not_graphs, run_graphs)
COMPILED = SearchBackend("compiled", why_not_compiled, run_compiled)
REFERENCE = SearchBackend("reference", always, lambda call, reference: reference(call), is_kernel=False)
BACKENDS = (GRAPHS, COMPILED, REFERENCE)


def choose(call: DecodingCall) -> SearchBackend:
    """The first backend that supports the call.

    Raises:
        UserError: int8 is demanded of a call that only other backends support.
    """
    chosen = choose_backend(BACKENDS, call)
    if call.options.precision == "int8" and chosen is not COMPILED:
        raise UserError(
            f'search.precision is "int8", but {COMPILED.why_not(call)}. int8 needs a Transformer or recurrent decoder '
            'of the kinds in docs/explanation/decoding.md on a CPU; choose "auto" for int8 where it is supported, or '
            '"float32".'
        )
    return chosen


def decode(call: DecodingCall) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first.

    Raises:
        UserError: options and rules that cannot be combined (`harken.search.conflicts`), or int8 that is not supported.
    """
    if reason := conflict_of(call, OF_CALLS):
        raise UserError(reason)
    if not call.rows:
        return []
    if isinstance(call.model, StoredModel) and (reason := COMPILED.why_not(call)):
        if _report is not None:
            _report_once(f"the network is built, with torch: {reason}", _report)
        call = call.on_network()
    backend = choose(call)
    with nullcontext() if isinstance(call.model, StoredModel) else torch.no_grad():
        return backend.decode(call) if _report is None else _reported(backend, call, _report)


_report: Callable[[str], None] | None = None
_lines = set[str]()  # that were reported


def report_backends(report: Callable[[str], None] | None) -> None:
    """Have a line reported for every backend that decodes from now on, with the reasons against faster ones; once."""
    global _report
    _report = report
    _lines.clear()


def _reported(backend: SearchBackend, call: DecodingCall, report: Callable[[str], None]) -> list[list[Hypothesis]]:
    names, reasons = [backend.name], [(other.name, other.why_not(call)) for other in BACKENDS]

    def reference(call: DecodingCall) -> list[list[Hypothesis]]:
        names.append(REFERENCE.name)
        return run_reference(call)

    hypotheses = backend.run(call, reference)
    faster = [f"{name}: {reason}" for name, reason in reasons[: BACKENDS.index(backend)]]
    if names[-1] != backend.name:
        faster.append(f"{backend.name}: its kernels are not loaded yet")
    without = ", without torch" if isinstance(call.model, StoredModel) else ""
    _report_once(f"search by {names[-1]}{without}" + (f" ({'; '.join(faster)})" if faster else ""), report)
    return hypotheses


def _report_once(line: str, report: Callable[[str], None]) -> None:
    if line not in _lines:
        _lines.add(line)
        report(line)
