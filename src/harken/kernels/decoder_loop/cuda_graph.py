"""Replays a decoder's loop as a CUDA graph, forward and backward, where Python would launch its kernels one by one.

A recurrent decoder under teacher forcing runs a few small kernels a step and waits for Python between them. Here the
loop of one shape is captured when the shape is seen for the second time, and replayed from then on.

memory        a captured graph keeps its activations; the least recently used one is dropped where SHAPES or SHARE of
              the device's memory is exceeded
results       outputs and gradients are copied, so the next replay does not change them
two at once   a second forward pass of the same shape before the first one's backward runs the plain loop
parameters    and buffers are read at their addresses, which are part of the key: where one was moved or frozen, the
              loop is captured again
dropout       draws from torch's generator at each replay, the numbers the plain loop would have drawn
settings      modes and dropout rates of all submodules are part of the key; submodules with hooks run the plain loop

Anything else (no GPU, `HARKEN_KERNELS=off`, under `torch.compile`, inside another capture, a function that cannot be
captured) runs the plain loop. Second derivatives are refused.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from harken.kernels.settings import is_device_only, kernels_enabled

SHAPES = 64  # captured graphs of one module
SHARE = 0.1  # of the device's memory for the captured graphs of one module
SEEN_SHAPES = 4096  # shapes remembered as seen once
WARM_UP = 2  # passes before a capture, in which kernels are compiled and buffers allocated


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


class CapturedGraph:
    """The loop of one shape: static inputs, a forward and a backward CUDA graph, static outputs."""

    def __init__(self, owner: nn.Module, function: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> None:
        self.inputs = [None if part is None else part.detach().clone() for part in tensors]
        for static, part in zip(self.inputs, tensors, strict=True):
            if static is not None and part is not None and part.requires_grad:
                static.requires_grad_()
        self.generation = 0
        self.pending: weakref.ref[_Pending] | None = None
        self.forward_graph, self.backward_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()  # one for all of it, as autograd runs backward on the stream of the forward pass
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        random_state = generator.get_state()
        torch.clear_autocast_cache()  # weights that were cast before would keep their values of now
        try:
            with aliased_parameters(owner) as parameters:
                given = [static for static in self.inputs if static is not None]
                leaves = [part for part in (*given, *parameters) if part.requires_grad]
                self.leaves = leaves if torch.is_grad_enabled() else []
                self._warm_up(function, stream)
                generator.set_state(random_state)
                before = torch.cuda.memory_reserved()  # a graph's memory is not returned, so reserved is what counts
                self._capture(function, stream)
                self.bytes = torch.cuda.memory_reserved() - before
        except BaseException:
            fresh = torch.Generator(device=generator.device)  # the captured one waits for the end of the capture
            fresh.set_state(random_state)
            generator.graphsafe_set_state(fresh.graphsafe_get_state())
            raise
        finally:
            torch.clear_autocast_cache()

    def _warm_up(self, function: Callable[..., Tensor], stream: torch.cuda.Stream) -> None:
        """Runs the loop as it will be captured: compiles kernels, allocates buffers."""
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                output = function(*self.inputs)
                if self.leaves:
                    torch.autograd.grad(output, self.leaves, torch.zeros_like(output), allow_unused=True)
                torch.clear_autocast_cache()
        torch.cuda.current_stream().wait_stream(stream)

    def _capture(self, function: Callable[..., Tensor], stream: torch.cuda.Stream) -> None:
        with torch.cuda.graph(self.forward_graph, stream=stream, capture_error_mode="thread_local"):
            output = function(*self.inputs)
        self.grad_output, self.output = torch.empty_like(output), output.detach()
        self.gradients: tuple[Tensor | None, ...] = ()
        if self.leaves:
            pool = self.forward_graph.pool()
            with torch.cuda.graph(self.backward_graph, pool, stream, capture_error_mode="thread_local"):
                self.gradients = torch.autograd.grad(output, self.leaves, self.grad_output, allow_unused=True)

    def is_busy(self) -> bool:
        """Whether a forward pass still waits for its backward pass."""
        waiting = self.pending() if self.pending is not None else None
        return waiting is not None and not waiting.done

    def replay(self, tensors: Sequence[Tensor | None]) -> Tensor:
        """The output for these inputs."""
        with torch.no_grad():
            for static, part in zip(self.inputs, tensors, strict=True):
                if static is not None and part is not None:
                    static.copy_(part)
        self.generation += 1
        self.forward_graph.replay()
        return self.output.clone()


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: CapturedGraph, inputs: Sequence[Tensor | None], *leaves: Tensor) -> Tensor:
        output = graph.replay(inputs)
        ctx.graph, ctx.generation, ctx.pending = graph, graph.generation, _Pending()
        graph.pending = weakref.ref(ctx.pending)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        graph = ctx.graph
        if graph.generation != ctx.generation:
            raise RuntimeError("this forward pass was replaced by a later one: run backward before the next forward")
        graph.grad_output.copy_(grad_outputs[0])
        graph.backward_graph.replay()
        ctx.pending.done = True
        return None, None, *(None if part is None else part.clone() for part in graph.gradients)


class _GraphCache:
    """The captured graphs of one module, the least recently used first."""

    def __init__(self) -> None:
        self.graphs: OrderedDict[Hashable, CapturedGraph | None] = OrderedDict()  # None: cannot be captured
        self.seen: set[Hashable] = set()

    def find(
        self,
        key: Hashable,
        function: Callable[..., Tensor],
        tensors: Sequence[Tensor | None],
        owner: nn.Module,
    ) -> CapturedGraph | None:
        """The graph of this key, captured now if the key was seen before."""
        if key in self.graphs:
            self.graphs.move_to_end(key)
            return self.graphs[key]
        if key not in self.seen:
            if len(self.seen) >= SEEN_SHAPES:
                self.seen.clear()
            self.seen.add(key)
            return None
        try:
            self.graphs[key] = CapturedGraph(owner, function, tensors)
        except (RuntimeError, TypeError) as problem:  # out of memory, a step that waits for the device, ...
            warnings.warn(f"the decoder's loop could not be captured and runs step by step: {problem}", stacklevel=4)
            self.graphs[key] = None
        self._evict()
        return self.graphs[key]

    def _evict(self) -> None:
        limit = SHARE * torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        while len(self.graphs) > 1:
            held = sum(graph.bytes for graph in self.graphs.values() if graph is not None)
            if len(self.graphs) <= SHAPES and held <= limit:
                return
            oldest, _ = self.graphs.popitem(last=False)
            self.seen.discard(oldest)


_CACHES: weakref.WeakKeyDictionary[nn.Module, _GraphCache] = weakref.WeakKeyDictionary()


def is_available(device: torch.device) -> bool:
    """Whether the kernels of a decoder's loop may run on this device now."""
    return device.type == "cuda" and kernels_enabled() and not torch.compiler.is_compiling()


def is_supported(device: torch.device) -> bool:
    """Whether loops on this device are captured now; not within another capture, or where one is prepared."""
    return is_available(device) and not (is_device_only() or torch.cuda.is_current_stream_capturing())


def captured_graphs(owner: nn.Module) -> int:
    """How many shapes of this module are captured."""
    cache = _CACHES.get(owner)
    return 0 if cache is None else sum(graph is not None for graph in cache.graphs.values())


def settings_of(owner: nn.Module) -> Hashable:
    """What a captured graph depends on beside shapes: modes and rates of all submodules, and autocast."""
    low = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return low, modes, tuple((part.training, getattr(part, "p", None)) for part in owner.modules())


def addresses_of(owner: nn.Module) -> Hashable:
    """Where all parameters and buffers lie, frozen ones too, and which require gradients: a graph reads them there."""
    tensors = (*owner.parameters(), *owner.buffers())
    return tuple((part.data_ptr(), part.requires_grad) for part in tensors)


def has_hooks(owner: nn.Module) -> bool:
    """Whether a submodule has hooks, which a replay would not call."""
    left = [*owner._modules.values()]  # `modules()` takes three times as long
    while left:
        part = left.pop()
        if part is None:
            continue
        if part._forward_hooks or part._forward_pre_hooks or part._backward_hooks:
            return True
        left += part._modules.values()
    return False


def replay(owner: nn.Module, function: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> Tensor:
    """`function(*tensors)`, which reads only tensors of `owner` beside them, by a captured graph where there is one."""
    first = next(part for part in tensors if part is not None)
    if not is_supported(first.device) or has_hooks(owner):
        return function(*tensors)
    shapes = tuple(None if part is None else (part.shape, part.dtype, part.requires_grad) for part in tensors)
    key = (first.device, shapes, addresses_of(owner), settings_of(owner))
    with torch.cuda.device(first.device):
        graph = _CACHES.setdefault(owner, _GraphCache()).find(key, function, tensors, owner)
    if graph is None or graph.is_busy():
        return function(*tensors)
    if not graph.leaves:
        return graph.replay(tensors)
    parameters = [part for part in owner.parameters() if part.requires_grad]
    given = [part for part in tensors if part is not None and part.requires_grad]
    return _Replay.apply(graph, [None if part is None else part.detach() for part in tensors], *given, *parameters)
