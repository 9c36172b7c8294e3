"""Captured CUDA graphs: capturing, keys, eviction, and the random generator, for all that is replayed.

    capture            the kernels of a function as a graph
    GraphCache         the graphs of one owner by what they depend on, such as shapes; bounded
    addresses_of       keys: a graph reads tensors at their addresses, and holds the modes and dropout rates of modules
    settings_of

Users are whole updates (`harken.training.strategies.captured`), the loops of decoders (`decoder_loop.cuda_graph`) and
searches (`harken.search.graphs`). A graph draws random numbers from the generator that torch had when it was captured.
A capture that fails leaves that generator unusable, so it is replaced by one in the same state, and all graphs of the
process are captured again.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import nn

from harken.kernels.settings import is_device_only, kernels_enabled

SEEN_KEYS = 4096  # keys that a cache remembers as seen once

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


@contextmanager
def restored_generator() -> Iterator[Callable[[], object]]:
    """Restore torch's random generator of the current device where the block fails; yields what restores it inside."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    random_state = generator.get_state()
    try:
        yield lambda: generator.set_state(random_state)
    except BaseException:
        fresh = torch.Generator(device=generator.device)  # the captured one waits for the end of the capture
        fresh.set_state(random_state)
        generator.graphsafe_set_state(fresh.graphsafe_get_state())
        raise


def capture(
    function: Callable[[], Result], stream: torch.cuda.Stream, pool: Any = None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """The kernels of a function as a graph, and its result, into which every replay writes; nothing is computed.

    The function has run on the stream before, so that kernels are compiled.
    """
    graph = torch.cuda.CUDAGraph()
    with (
        restored_generator(),
        torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
    ):
        result = function()
    return graph, result


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
