"""Captured CUDA graphs: capturing, keys, eviction, and the random generator, for all that is replayed.

    capture            the kernels of a function as a graph, after `warm_up` compiled them
    CapturedFunction   such a graph with the tensors that it reads and writes
    replay             a differentiable function of tensors and of a module's parameters, such as a decoder's loop
    GraphCache         the graphs of one owner by what they depend on, such as shapes; bounded
    addresses_of       keys: a graph reads tensors at their addresses, and holds the modes and dropout rates of modules
    settings_of

Users are whole updates (`harken.training.strategies.captured`), the loops of recurrent decoders
(`harken.models.recurrent.captured`) and searches (`harken.search.graphs`). A graph draws random numbers from the
generator that torch had when it was captured. A capture that fails leaves that generator unusable, so it is replaced by
one in the same state, and all graphs of the process are captured again.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from harken.kernels.autograd import first_order
from harken.kernels.settings import is_device_only, kernels_enabled
from harken.kernels.weights import ModelCache, has_hooks

SEEN_KEYS = 4096  # keys that a cache remembers as seen once
SHAPES, SHARE = 64, 0.1  # of the functions of one module: captured graphs, and their part of the device's memory
WARM_UPS = 2  # passes of such a function before a capture

Result = TypeVar("Result")


def can_capture(device: torch.device) -> bool:
    """Whether a graph can be captured on this device now; not within another capture, or where one is prepared."""
    if device.type != "cuda" or not kernels_enabled() or torch.compiler.is_compiling():
        return False
    return not (is_device_only() or torch.cuda.is_current_stream_capturing())


@contextmanager
def run_on(stream: torch.cuda.Stream) -> Iterator[None]:
    """Inside the block kernels run on this stream, after those of the current one, which waits for them afterwards."""
    current = torch.cuda.current_stream(stream.device)
    stream.wait_stream(current)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        current.wait_stream(stream)


def _generator() -> torch.Generator:
    return torch.cuda.default_generators[torch.cuda.current_device()]


def warm_up(function: Callable[[], object], stream: torch.cuda.Stream) -> None:
    """Run what is captured next, to compile kernels and allocate buffers; random numbers are drawn as if it had not."""
    generator = _generator()
    random_state = generator.get_state()
    try:
        with run_on(stream):
            function()
    finally:
        generator.set_state(random_state)


def capture(
    function: Callable[[], Result], stream: torch.cuda.Stream, pool: Any = None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """The kernels of a function as a graph, and its result, into which every replay writes; nothing is computed.

    The function has run on the stream before (`warm_up`).
    """
    graph, generator = torch.cuda.CUDAGraph(), _generator()
    random_state = generator.get_state()
    try:
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            result = function()
    except BaseException:
        fresh = torch.Generator(device=generator.device)  # the captured one waits for the end of the capture
        fresh.set_state(random_state)
        generator.graphsafe_set_state(fresh.graphsafe_get_state())
        raise
    return graph, result


class CapturedFunction(Generic[Result]):
    """A captured function with its inputs and its result, which stay where they are.

    Args:
        function, stream, pool: see `capture`.
        inputs: the tensors that the function reads, into which every replay copies its own.
    """

    def __init__(
        self,
        function: Callable[[], Result],
        inputs: Sequence[Tensor | None],
        stream: torch.cuda.Stream,
        pool: Any = None,
    ) -> None:
        before = torch.cuda.memory_reserved()  # a graph's memory is not returned, so reserved is what counts
        self.inputs = inputs
        self.graph, self.result = capture(function, stream, pool)
        self.bytes = torch.cuda.memory_reserved() - before

    @torch.no_grad()
    def replay(self, inputs: Sequence[Tensor | None]) -> Result:
        """The result for these inputs, which the next replay overwrites."""
        for static, new in zip(self.inputs, inputs, strict=True):
            if static is not None and new is not None:
                static.copy_(new, non_blocking=True)
        self.graph.replay()
        return self.result


class Sized(Protocol):
    """A captured graph that knows its memory on the device."""

    bytes: int


Captured = TypeVar("Captured", bound=Sized)
_failures = 0  # captures of this process that failed


class GraphCache(Generic[Captured]):
    """The captured graphs of one owner, the least recently used first; None for what cannot be captured.

    Args:
        label: what is captured, for the warning where that fails.
        max_graphs: the most graphs.
        memory_share: the most of the device's memory that they hold.
        uses: how often a key comes before it is captured.
        evicts: whether the least recently used graph is dropped for a new one; otherwise no more are captured.
        raises: errors of a capture that are left to the caller.

    Always one graph may stay, whatever its memory.
    """

    def __init__(
        self,
        label: str,
        max_graphs: int,
        memory_share: float = 1.0,
        *,
        uses: int = 2,
        evicts: bool = True,
        raises: tuple[type[Exception], ...] = (),
    ) -> None:
        self.label, self.max_graphs, self.memory_share = label, max_graphs, memory_share
        self.uses, self.evicts, self.raises = uses, evicts, raises
        self._graphs: OrderedDict[Hashable, Captured | None] = OrderedDict()
        self._seen: set[Hashable] = set()
        self._failures = _failures

    def __len__(self) -> int:
        return len(self.captured())

    def captured(self) -> list[Captured]:
        """The graphs, the least recently used first."""
        return [graph for graph in self._graphs.values() if graph is not None]

    def clear(self) -> None:
        """Drop all graphs and their memory."""
        self._graphs.clear()

    def find(self, key: Hashable, capture: Callable[[], Captured]) -> Captured | None:
        """The graph of this key, captured now where the key came often enough; None: run without one."""
        global _failures
        if self._failures != _failures:  # graphs draw from a generator that was replaced
            self._graphs = OrderedDict((key, graph) for key, graph in self._graphs.items() if graph is None)
            self._failures = _failures
        if key in self._graphs:
            self._graphs.move_to_end(key)
            return self._graphs[key]
        if self.uses > 1 and key not in self._seen:
            if len(self._seen) >= SEEN_KEYS:
                self._seen.clear()
            self._seen.add(key)
            return None
        if not self.evicts and len(self) >= self.max_graphs:
            return None
        try:
            self._graphs[key] = capture()
        except (RuntimeError, TypeError) as problem:  # out of memory, a function that waits for the device, ...
            _failures += 1
            if isinstance(problem, self.raises):
                raise
            warnings.warn(f"{self.label} could not be captured and run kernel by kernel: {problem}", stacklevel=4)
            self._graphs[key] = None
        if self.evicts:
            self._evict()
        return self._graphs[key]

    def _evict(self) -> None:
        while len(self._graphs) > 1:
            held = sum(graph.bytes for graph in self.captured())
            if len(self._graphs) <= self.max_graphs and (not held or held <= self.memory_share * _device_memory()):
                return
            oldest, _ = self._graphs.popitem(last=False)
            self._seen.discard(oldest)


def _device_memory() -> int:
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)


def settings_of(owner: nn.Module) -> Hashable:
    """The settings that a captured graph depends on: modes and rates of all submodules, and autocast."""
    low = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return low, modes, tuple((part.training, getattr(part, "p", None)) for part in owner.modules())


def addresses_of(owner: nn.Module) -> Hashable:
    """Where all parameters and buffers lie, frozen ones too, and which require gradients: a graph reads them there."""
    tensors = (*owner.parameters(), *owner.buffers())
    return tuple((part.data_ptr(), part.requires_grad) for part in tensors)


class _Pending:
    """A forward pass whose backward pass has not run yet."""

    done = False


@contextmanager
def aliased_parameters(owner: nn.Module) -> Iterator[list[Tensor]]:
    """The module with aliases of the same memory in place of its parameters; yields those that require gradients.

    Autograd ties a parameter to the stream on which it first used it, and to any graph that is still alive; a captured
    graph needs leaves of its own.
    """
    tables = [
        (module._parameters, name, part) for module in owner.modules() for name, part in module._parameters.items()
    ]
    slots = [(table, name, part) for table, name, part in tables if part is not None]
    aliases = {part: nn.Parameter(part.detach(), part.requires_grad) for part in owner.parameters()}
    for table, name, part in slots:
        table[name] = aliases[part]
    try:
        yield [alias for alias in aliases.values() if alias.requires_grad]
    finally:
        for table, name, part in slots:
            table[name] = part


class DifferentiableGraph:
    """A function for inputs of one shape: a graph of its output, and one of the gradients."""

    def __init__(self, owner: nn.Module, function: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> None:
        inputs = [
            None if part is None else part.detach().clone().requires_grad_(part.requires_grad) for part in tensors
        ]
        self.generation = 0
        self.pending: weakref.ref[_Pending] | None = None
        stream = torch.cuda.Stream()  # one for all of it, as autograd runs backward on the stream of the forward pass
        torch.clear_autocast_cache()  # weights that were cast before would keep their values of now
        try:
            with aliased_parameters(owner) as parameters:
                given = [static for static in inputs if static is not None]
                leaves = [part for part in (*given, *parameters) if part.requires_grad and torch.is_grad_enabled()]

                def gradients(output: Tensor, grad_output: Tensor) -> tuple[Tensor | None, ...]:
                    return torch.autograd.grad(output, leaves, grad_output, allow_unused=True) if leaves else ()

                def passes() -> None:
                    for _ in range(WARM_UPS):
                        output = function(*inputs)
                        gradients(output, torch.zeros_like(output))
                        torch.clear_autocast_cache()

                warm_up(passes, stream)
                self.forward = CapturedFunction(lambda: function(*inputs), inputs, stream)
                output, self.bytes = self.forward.result, self.forward.bytes
                self.forward.result = output.detach()
                self.backward: CapturedFunction[tuple[Tensor | None, ...]] | None = None
                if leaves:
                    grad_output, pool = torch.empty_like(output), self.forward.graph.pool()
                    self.backward = CapturedFunction(
                        lambda: gradients(output, grad_output), [grad_output], stream, pool
                    )
                    self.bytes += self.backward.bytes
        finally:
            torch.clear_autocast_cache()

    def is_busy(self) -> bool:
        """Whether a forward pass still waits for its backward pass."""
        waiting = self.pending() if self.pending is not None else None
        return waiting is not None and not waiting.done

    def replay(self, tensors: Sequence[Tensor | None]) -> Tensor:
        """A copy of the output for these inputs."""
        self.generation += 1
        return self.forward.replay(tensors).clone()


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: DifferentiableGraph, inputs: Sequence[Tensor | None], *leaves: Tensor) -> Tensor:
        output = graph.replay(inputs)
        ctx.graph, ctx.generation, ctx.pending = graph, graph.generation, _Pending()
        graph.pending = weakref.ref(ctx.pending)
        return output

    @staticmethod
    @first_order("a captured CUDA graph")
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        if ctx.graph.generation != ctx.generation:
            raise RuntimeError("this forward pass was replaced by a later one: run backward before the next forward")
        gradients = ctx.graph.backward.replay(grad_outputs)
        ctx.pending.done = True
        return None, None, *(None if part is None else part.clone() for part in gradients)


_FUNCTIONS: ModelCache[GraphCache[DifferentiableGraph]] = ModelCache(
    lambda: GraphCache("a decoder's loops", SHAPES, SHARE)
)


def replay(owner: nn.Module, function: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> Tensor:
    """`function(*tensors)`, which reads only tensors of `owner` beside them, by a captured graph where there is one.

    The first call with tensors of some shapes runs the function; the second captures it, forward and backward. Output
    and gradients are copies. A second forward pass before the backward pass of the first runs the function, as do
    owners with hooks and whatever cannot be captured. Second derivatives are refused.
    """
    first = next(part for part in tensors if part is not None)
    if not can_capture(first.device) or has_hooks(owner):
        return function(*tensors)
    shapes = tuple(None if part is None else (part.shape, part.dtype, part.requires_grad) for part in tensors)
    key = (first.device, shapes, addresses_of(owner), settings_of(owner))
    with torch.cuda.device(first.device):
        graph = _FUNCTIONS.of(owner).find(key, lambda: DifferentiableGraph(owner, function, tensors))
    if graph is None or graph.is_busy():
        return function(*tensors)
    if graph.backward is None:
        return graph.replay(tensors)
    parameters = [part for part in owner.parameters() if part.requires_grad]
    given = [part for part in tensors if part is not None and part.requires_grad]
    return _Replay.apply(graph, [None if part is None else part.detach() for part in tensors], *given, *parameters)
