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

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from harken.kernels.autograd import first_order
from harken.kernels.cuda_graphs import (
    GraphCache,
    addresses_of,
    can_capture,
    capture,
    restored_generator,
    run_on,
    settings_of,
)
from harken.kernels.weights import ModelCache, has_hooks

SHAPES = 64  # captured graphs of one module
SHARE = 0.1  # of the device's memory for the captured graphs of one module
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


class CapturedLoop:
    """The loop of one shape: static inputs, a forward and a backward CUDA graph, static outputs."""

    def __init__(self, owner: nn.Module, function: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> None:
        self.inputs = [None if part is None else part.detach().clone() for part in tensors]
        for static, part in zip(self.inputs, tensors, strict=True):
            if static is not None and part is not None and part.requires_grad:
                static.requires_grad_()
        self.generation = 0
        self.pending: weakref.ref[_Pending] | None = None
        stream = torch.cuda.Stream()  # one for all of it, as autograd runs backward on the stream of the forward pass
        torch.clear_autocast_cache()  # weights that were cast before would keep their values of now
        try:
            with restored_generator() as restore, aliased_parameters(owner) as parameters:
                given = [static for static in self.inputs if static is not None]
                leaves = [part for part in (*given, *parameters) if part.requires_grad]
                self.leaves = leaves if torch.is_grad_enabled() else []
                self._warm_up(function, stream)
                restore()
                before = torch.cuda.memory_reserved()  # a graph's memory is not returned, so reserved is what counts
                self._capture(function, stream)
                self.bytes = torch.cuda.memory_reserved() - before
        finally:
            torch.clear_autocast_cache()

    def _warm_up(self, function: Callable[..., Tensor], stream: torch.cuda.Stream) -> None:
        """Runs the loop as it will be captured: compiles kernels, allocates buffers."""
        with run_on(stream):
            for _ in range(WARM_UP):
                output = function(*self.inputs)
                if self.leaves:
                    torch.autograd.grad(output, self.leaves, torch.zeros_like(output), allow_unused=True)
                torch.clear_autocast_cache()

    def _capture(self, function: Callable[..., Tensor], stream: torch.cuda.Stream) -> None:
        self.forward_graph, output = capture(lambda: function(*self.inputs), stream)
        self.grad_output, self.output = torch.empty_like(output), output.detach()
        self.gradients: tuple[Tensor | None, ...] = ()
        if self.leaves:
            self.backward_graph, self.gradients = capture(
                lambda: torch.autograd.grad(output, self.leaves, self.grad_output, allow_unused=True),
                stream,
                self.forward_graph.pool(),
            )

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
    def forward(ctx: Any, graph: CapturedLoop, inputs: Sequence[Tensor | None], *leaves: Tensor) -> Tensor:
        output = graph.replay(inputs)
        ctx.graph, ctx.generation, ctx.pending = graph, graph.generation, _Pending()
        graph.pending = weakref.ref(ctx.pending)
        return output

    @staticmethod
    @first_order("a captured CUDA graph")
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        graph = ctx.graph
        if graph.generation != ctx.generation:
            raise RuntimeError("this forward pass was replaced by a later one: run backward before the next forward")
        graph.grad_output.copy_(grad_outputs[0])
        graph.backward_graph.replay()
        ctx.pending.done = True
        return None, None, *(None if part is None else part.clone() for part in graph.gradients)


_LOOPS: ModelCache[GraphCache[CapturedLoop]] = ModelCache(lambda: GraphCache("a decoder's loops", SHAPES, SHARE))


def captured_graphs(owner: nn.Module) -> int:
    """How many shapes of this module are captured."""
    loops = _LOOPS.get(owner)
    return 0 if loops is None else len(loops)


def replay(owner: nn.Module, function: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> Tensor:
    """`function(*tensors)`, which reads only tensors of `owner` beside them, by a captured graph where there is one."""
    first = next(part for part in tensors if part is not None)
    if not can_capture(first.device) or has_hooks(owner):
        return function(*tensors)
    shapes = tuple(None if part is None else (part.shape, part.dtype, part.requires_grad) for part in tensors)
    key = (first.device, shapes, addresses_of(owner), settings_of(owner))
    with torch.cuda.device(first.device):
        graph = _LOOPS.of(owner).find(key, lambda: CapturedLoop(owner, function, tensors))
    if graph is None or graph.is_busy():
        return function(*tensors)
    if not graph.leaves:
        return graph.replay(tensors)
    parameters = [part for part in owner.parameters() if part.requires_grad]
    given = [part for part in tensors if part is not None and part.requires_grad]
    return _Replay.apply(graph, [None if part is None else part.detach() for part in tensors], *given, *parameters)
