"""Replays a decoder's loop as a CUDA graph, forward and backward, where Python launches its kernels one by one.

A recurrent decoder under teacher forcing runs a few small kernels a step and waits for Python between them. Here the
loop of one shape is recorded when the shape is met for the second time, and replayed from then on. What may go wrong
with recorded loops, and what is done about it:

memory        a recording keeps its activations; the oldest goes where SHAPES or SHARE of the device's memory is passed
results       outputs and gradients are copied out, so the next replay does not change them
two at once   a second forward pass of the same shape before the first one's backward runs the plain loop
parameters    are read where they lie; where one has moved (or learns no more), the loop is recorded again
dropout       draws from torch's generator anew at each replay, the numbers the plain loop would have drawn
settings      modes and dropout rates of all parts belong to the shape; parts with hooks run the plain loop

Anything else (no GPU, `HARKEN_KERNELS=off`, under `torch.compile`, inside another recording, a function that cannot be
recorded) runs the plain loop. Second derivatives are refused.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SHAPES = 32  # recordings of one module
SHARE = 0.1  # of the device's memory for the recordings of one module
SIGHTINGS = 4096  # shapes remembered as met once
WARM = 2  # passes before a recording, in which kernels are compiled and buffers made


class _Pending:
    """A forward pass whose backward pass has not come yet."""

    done = False


@contextmanager
def standing_in(owner: nn.Module) -> Iterator[list[Tensor]]:
    """The module with new names for the same numbers in the place of its parameters; those that learn are handed over.

    Autograd ties a parameter to the stream on which it first met it, and to whatever graph is still alive; a recording
    has to have leaves of its own.
    """
    tables = [
        (module._parameters, name, part) for module in owner.modules() for name, part in module._parameters.items()
    ]
    places = [(table, name, part) for table, name, part in tables if part is not None]
    aliases = {part: nn.Parameter(part.detach(), part.requires_grad) for part in owner.parameters()}
    for table, name, part in places:
        table[name] = aliases[part]
    try:
        yield [alias for alias in aliases.values() if alias.requires_grad]
    finally:
        for table, name, part in places:
            table[name] = part


class Recording:
    """One shape's loop: its inputs' places, its graphs, its results' places."""

    def __init__(self, owner: nn.Module, function: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> None:
        self.inputs = [None if part is None else part.detach().clone() for part in tensors]
        for place, part in zip(self.inputs, tensors, strict=True):
            if place is not None and part is not None and part.requires_grad:
                place.requires_grad_()
        self.generation = 0
        self.pending: weakref.ref[_Pending] | None = None
        self.forward_graph, self.backward_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()  # one for all of it, as autograd goes back on the stream it came by
        random = torch.cuda.default_generators[torch.cuda.current_device()]
        drawn = random.get_state()
        torch.clear_autocast_cache()  # weights cast before would be read as they are now for ever
        try:
            with standing_in(owner) as parameters:
                given = [place for place in self.inputs if place is not None]
                learns = [part for part in (*given, *parameters) if part.requires_grad]
                self.wanted = learns if torch.is_grad_enabled() else []
                self._warm(function, stream)
                random.set_state(drawn)
                before = torch.cuda.memory_reserved()  # what a graph holds is never given back: reserved is what counts
                self._record(function, stream)
                self.bytes = torch.cuda.memory_reserved() - before
        except BaseException:
            fresh = torch.Generator(device=random.device)  # the one that was recorded waits for the recording's end
            fresh.set_state(drawn)
            random.graphsafe_set_state(fresh.graphsafe_get_state())
            raise
        finally:
            torch.clear_autocast_cache()

    def _warm(self, function: Callable[..., Tensor], stream: torch.cuda.Stream) -> None:
        """Runs the loop as it will be recorded: compiles kernels, makes buffers."""
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM):
                output = function(*self.inputs)
                if self.wanted:
                    torch.autograd.grad(output, self.wanted, torch.zeros_like(output), allow_unused=True)
                torch.clear_autocast_cache()
        torch.cuda.current_stream().wait_stream(stream)

    def _record(self, function: Callable[..., Tensor], stream: torch.cuda.Stream) -> None:
        with torch.cuda.graph(self.forward_graph, stream=stream, capture_error_mode="thread_local"):
            output = function(*self.inputs)
        self.pull, self.output = torch.empty_like(output), output.detach()
        self.gradients: tuple[Tensor | None, ...] = ()
        if self.wanted:
            pool = self.forward_graph.pool()
            with torch.cuda.graph(self.backward_graph, pool, stream, capture_error_mode="thread_local"):
                self.gradients = torch.autograd.grad(output, self.wanted, self.pull, allow_unused=True)

    def is_busy(self) -> bool:
        """Whether a forward pass still waits for its backward pass."""
        waiting = self.pending() if self.pending is not None else None
        return waiting is not None and not waiting.done

    def replay(self, tensors: Sequence[Tensor | None]) -> Tensor:
        """The output for these inputs."""
        with torch.no_grad():
            for place, part in zip(self.inputs, tensors, strict=True):
                if place is not None and part is not None:
                    place.copy_(part)
        self.generation += 1
        self.forward_graph.replay()
        return self.output.clone()


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, recording: Recording, inputs: Sequence[Tensor | None], *wanted: Tensor) -> Tensor:
        output = recording.replay(inputs)
        ctx.recording, ctx.generation, ctx.pending = recording, recording.generation, _Pending()
        recording.pending = weakref.ref(ctx.pending)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *pulls: Tensor) -> Any:
        recording = ctx.recording
        if recording.generation != ctx.generation:
            raise RuntimeError("this forward pass was replaced by a later one: run backward before the next forward")
        recording.pull.copy_(pulls[0])
        recording.backward_graph.replay()
        ctx.pending.done = True
        return None, None, *(None if part is None else part.clone() for part in recording.gradients)


class _Recordings:
    """Those of one module, the last used last."""

    def __init__(self) -> None:
        self.made: OrderedDict[Hashable, Recording | None] = OrderedDict()  # None: cannot be recorded
        self.met: set[Hashable] = set()

    def find(
        self,
        key: Hashable,
        function: Callable[..., Tensor],
        tensors: Sequence[Tensor | None],
        owner: nn.Module,
    ) -> Recording | None:
        """The recording of this shape, made now if it was met before."""
        if key in self.made:
            self.made.move_to_end(key)
            return self.made[key]
        if key not in self.met:
            if len(self.met) >= SIGHTINGS:
                self.met.clear()
            self.met.add(key)
            return None
        try:
            self.made[key] = Recording(owner, function, tensors)
        except (RuntimeError, TypeError) as problem:  # out of memory, a step that waits for the device, ...
            warnings.warn(f"the decoder's loop could not be recorded and runs step by step: {problem}", stacklevel=4)
            self.made[key] = None
        self._make_room()
        return self.made[key]

    def _make_room(self) -> None:
        limit = SHARE * torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        while len(self.made) > 1:
            held = sum(one.bytes for one in self.made.values() if one is not None)
            if len(self.made) <= SHAPES and held <= limit:
                return
            oldest, _ = self.made.popitem(last=False)
            self.met.discard(oldest)


_RECORDINGS: weakref.WeakKeyDictionary[nn.Module, _Recordings] = weakref.WeakKeyDictionary()


def allows(device: torch.device) -> bool:
    """Whether kernels of our own may run on this device now."""
    off = os.environ.get("HARKEN_KERNELS") == "off"
    return device.type == "cuda" and not off and not torch.compiler.is_compiling()


def serves(device: torch.device) -> bool:
    """Whether loops on this device are recorded now; not within another recording."""
    return allows(device) and not torch.cuda.is_current_stream_capturing()


def recordings_of(owner: nn.Module) -> int:
    """How many shapes of this module are recorded."""
    kept = _RECORDINGS.get(owner)
    return 0 if kept is None else sum(one is not None for one in kept.made.values())


def settings_of(owner: nn.Module) -> Hashable:
    """What a recording takes for granted beside shapes: modes and rates of all parts, and how numbers are cast."""
    low = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return low, modes, tuple((part.training, getattr(part, "p", None)) for part in owner.modules())


def has_hooks(owner: nn.Module) -> bool:
    """Whether anybody listens to a part inside, whom a replay would not call."""
    inside = (part for part in owner.modules() if part is not owner)
    return any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in inside)


def replay(owner: nn.Module, function: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> Tensor:
    """`function(*tensors)`, whose parameters are all of `owner`'s, from a recording where there is one."""
    first = next(part for part in tensors if part is not None)
    if not serves(first.device) or has_hooks(owner):
        return function(*tensors)
    parameters = [part for part in owner.parameters() if part.requires_grad]
    shapes = tuple(None if part is None else (part.shape, part.dtype, part.requires_grad) for part in tensors)
    places = tuple(part.data_ptr() for part in parameters)
    key = (first.device, shapes, places, settings_of(owner))
    with torch.cuda.device(first.device):
        recording = _RECORDINGS.setdefault(owner, _Recordings()).find(key, function, tensors, owner)
    if recording is None or recording.is_busy():
        return function(*tensors)
    if not recording.wanted:
        return recording.replay(tensors)
    given = [part for part in tensors if part is not None and part.requires_grad]
    return _Replay.apply(recording, [None if part is None else part.detach() for part in tensors], *given, *parameters)
