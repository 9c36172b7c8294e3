"""A whole update as one CUDA graph: forward and backward pass, clipping, and the optimizer.

A graph is replayed by one call, so the GPU does not wait for Python between kernels, and an update never waits for the
host: the loss is copied to the host while the next update runs, and an update whose loss or gradient is not finite is
skipped inside the graph, by the `found_inf` flag of torch's fused optimizers.

A graph belongs to the shapes of its batches. The first update with new shapes runs without one; where they come again,
forward and backward pass run once more to compile kernels, and the update is captured. What a task has for it:

static_shapes    how many shapes get a graph each; 0: the task is not captured
is_static        whether batches of this shape come again
static_collate   examples as a batch on the CPU, in one of few shapes, where `collate` has many
static_loss      the loss of such a batch on the device, computed without waiting for the GPU

All graphs share one pool of memory, since they never run at once. Each keeps its gradients, which count for
`MEMORY_SHARE`; those of ranks are the same buckets for all graphs.

On the ranks of torchrun the graph ends after the backward pass. NCCL demands that all ranks capture a sum or none, but
here each decides alone: with a graph, without one, or by a plain update after it ran out of memory, it sums the same
tensors in the same order (`harken.training.strategies.distributed.Buckets`). Batches of which some rank has no share
are plain updates on all ranks.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.cuda_graphs import CapturedFunction, GraphCache, run_on, warm_up
from harken.training.config import TrainConfig
from harken.training.optimizers import use_device_rate
from harken.training.strategies.base import Single, StepResult, Strategy, seed_step
from harken.training.strategies.distributed import Replicated
from harken.training.task import Indices, Task, tensors_of, to_device

MEMORY_SHARE = 0.1  # of the GPU's memory for the gradients of all graphs
FEW_SHAPES = 4  # up to which also the shapes of accumulated batches come again together

Shapes = tuple[Any, ...]
Graph = CapturedFunction[tuple[Tensor, list[Tensor | None]]]  # the numbers of an update, and its gradients


def why_not_captured(task: Task, config: TrainConfig) -> str | None:
    """The reason for which updates of a task are not captured."""
    if not config.device.startswith("cuda"):
        return "the run is not on a GPU"
    if not 0 < getattr(task, "static_shapes", 0) <= (FEW_SHAPES if config.accumulate > 1 else math.inf):
        return "the task has no batches of few shapes"
    return None


class CapturedUpdates(Strategy):
    """Mixin for strategies that capture updates as CUDA graphs; the plain strategy is the other base class."""

    settles_after = 2  # one without a graph, and one that is captured

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parameters = [parameter for parameter in self.task.model.parameters() if parameter.requires_grad]
        self.rate, self.inverse = torch.zeros(2, device=self.device).unbind()  # learning rate, 1 / number of tokens
        use_device_rate(self.optimizer, self.rate)
        self.captures = True
        self.prefetcher.collate = getattr(self.task, "static_collate", self.task.collate)
        self.is_finishing = False  # whether the gradients of the current update are complete, and may have been used
        self.pool: Any = None
        self.graphs = self.graph_cache(0)
        self.prepare_device()

    def prepare_device(self) -> None:
        """Create what captures need of the GPU."""
        self.stream = torch.cuda.Stream(self.device)
        self.graphs = self.graph_cache(self.graphs_that_fit())

    def graph_cache(self, max_graphs: int) -> GraphCache[Graph]:
        """No graphs yet, and never more than so many: capturing one of them again would cost more than it saves."""
        return GraphCache("updates", max_graphs, evicts=False, raises=(torch.OutOfMemoryError, MemoryError))

    def graphs_that_fit(self) -> int:
        """How many graphs may be captured."""
        gradients = sum(parameter.numel() * parameter.element_size() for parameter in self.parameters)
        memory = torch.cuda.get_device_properties(self.device).total_memory
        shapes: int = self.task.static_shapes  # type: ignore[attr-defined]
        return min(shapes, max(1, int(MEMORY_SHARE * memory / gradients)))

    def update(self, step: int, batches: list[Indices], num_tokens: int, rate: float) -> StepResult:
        """See `Strategy.update`; nothing here waits for the GPU once a graph is captured."""
        shares = [self.task.share(indices, self.world_size) for indices in batches]
        self.is_finishing = False
        if self.captures and all(len(part) for share in shares for part in share):
            try:
                return self.asynchronous_update(step, [share[self.rank] for share in shares], num_tokens, rate)
            except torch.OutOfMemoryError:  # graphs keep their memory; the plain update can compute a batch in parts
                if self.is_finishing:
                    raise
            warnings.warn("memory ran out, so updates are not captured any more and are slower", stacklevel=2)
            self.captures, self.prefetcher.collate = False, self.task.collate
            self.graphs.clear()  # after the except block, which would keep the tensors of the failed attempt alive
            self.zero_gradients()
            torch.cuda.empty_cache()
        return super().update(step, batches, num_tokens, rate)

    def apply_gradients(self, step: int, loss: float | Tensor, rate: float) -> StepResult:
        """The end of a plain update, as that of the others: replicas on other ranks stay the same to the bit."""
        self.rate.fill_(rate)
        numbers = self.apply(torch.as_tensor(loss, dtype=torch.float32, device=self.device))
        self.average.update(step)
        return self.result(numbers)

    def asynchronous_update(self, step: int, shares: list[Indices], num_tokens: int, rate: float) -> StepResult:
        """An update by a captured graph, or for new shapes without one."""
        collated = [self.collate(indices) for indices in shares]
        self.rate.fill_(rate)
        self.inverse.fill_(1 / max(num_tokens, 1))
        graph = self.graph_of(collated)
        seed_step(self.config.seed, step, self.rank)
        numbers = self.on_stream(collated) if graph is None else self.after_replay(self.replay(graph, collated))
        self.average.update(step)
        return self.result(numbers)

    def graph_of(self, collated: list[Any]) -> Graph | None:
        """The graph for batches of these shapes, captured now where they were seen before."""
        if not all(self.task.is_static(batch) for batch in collated):  # type: ignore[attr-defined]
            return None
        shapes = tuple(shapes_of(batch) for batch in collated)
        return self.graphs.find(shapes, lambda: self.capture(collated))

    def collate(self, share: Indices) -> Any:
        """The batch on the CPU."""
        return self.prefetcher.take(share)

    def close(self) -> None:
        """Free the graphs and their memory."""
        if hasattr(self, "graphs"):
            self.graphs.clear()
        super().close()

    def on_stream(self, collated: list[Any]) -> Tensor:
        """An update without a graph, on the stream that graphs are captured on."""
        moved = [to_device(batch, self.device) for batch in collated]
        with run_on(self.stream):
            return self.compute(moved)

    def capture(self, collated: list[Any]) -> Graph:
        """The update as a graph on inputs of these shapes; it is not executed."""
        inputs = [to_device(batch, self.device) for batch in collated]
        warm_up(lambda: self.gradients(inputs, static=True, sends=False), self.stream)
        self.zero_gradients()
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()  # a capture has a pool of its own, and cannot free what others keep
        self.pool = self.pool or torch.cuda.graph_pool_handle()

        def update() -> tuple[Tensor, list[Tensor | None]]:
            return self.captured_part(inputs), [parameter.grad for parameter in self.parameters]

        try:
            return CapturedFunction(update, tensors_of(inputs), self.stream, self.pool)
        finally:
            self.is_finishing = False  # nothing was executed

    def replay(self, graph: Graph, collated: list[Any]) -> Tensor:
        """What `captured_part` gives for batches on the CPU, with the gradients in `.grad`."""
        numbers, gradients = graph.replay([tensor.pin_memory() for tensor in tensors_of(collated)])
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        return numbers

    def gradients(self, batches: list[Any], static: bool, sends: bool) -> Tensor:
        """Leave the gradient of this rank's part of the mean loss in `.grad`; returns the summed loss ()."""
        self.zero_gradients()
        losses = []
        for place, batch in enumerate(batches, start=1):
            with self.autocast():
                if static:
                    loss = self.task.static_loss(self.task.model, batch)  # type: ignore[attr-defined]
                else:
                    loss, _ = self.task.loss(self.task.model, batch)
            if sends and place == len(batches):
                self.before_last_backward()
            (loss * self.inverse).backward()
            losses.append(loss.detach().float())
        return torch.stack(losses).sum()

    def captured_part(self, batches: list[Any]) -> Tensor:
        """Compute the part of an update that is captured: here all of it."""
        return self.compute(batches, static=True)

    def after_replay(self, captured: Tensor) -> Tensor:
        """The rest of an update, from what `captured_part` gave."""
        return captured

    def compute(self, batches: list[Any], static: bool = False) -> Tensor:
        """One update -> (3,): loss, norm of the gradient before clipping, 1 where the update was skipped."""
        return self.apply(self.over_ranks(self.gradients(batches, static, sends=True)))

    def apply(self, loss: Tensor) -> Tensor:
        """Clip the gradients in `.grad` and update the parameters -> (3,), see `compute`."""
        self.is_finishing = True
        self.before_clipping()
        grads = [parameter.grad for parameter in self.names if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads)
        skipped = (~(torch.isfinite(norm) & torch.isfinite(loss))).float()
        limit = self.config.clip_norm
        # The optimizer divides gradients by the scale: clipping costs no pass over them.
        scale = torch.ones_like(norm) if limit is None else ((norm + 1e-6) / limit).clamp(min=1.0)
        self.optimizer.grad_scale, self.optimizer.found_inf = scale, skipped  # type: ignore[attr-defined]
        self.optimizer.step()
        self.merge()
        return torch.stack((loss, norm.float(), skipped))

    def over_ranks(self, loss: Tensor) -> Tensor:
        """Make gradients and summed loss those of the global batch."""
        return loss

    def result(self, numbers: Tensor) -> StepResult:
        """The numbers on their way to the host, and the event after which they are there."""
        host = torch.empty(3, pin_memory=True).copy_(numbers, non_blocking=True)
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(self.device))
        return StepResult(host[0], host[1], host[2], ready)


class Captured(CapturedUpdates, Single):
    """One process. See `harken.training.strategies.base.Strategy`."""


class CapturedReplicas(CapturedUpdates, Replicated):
    """Replicas on the ranks of torchrun; a graph holds forward and backward pass."""

    def captured_part(self, batches: list[Any]) -> Tensor:
        """The gradients of this rank, in the buckets."""
        loss = self.gradients(batches, static=True, sends=False)
        self.buckets.put_gradients(self.buckets.used)
        return loss

    def after_replay(self, captured: Tensor) -> Tensor:
        """Sum the buckets and update the parameters."""
        self.buckets.used = [parameter.grad is not None for parameter in self.buckets.parameters]
        return self.apply(self.over_ranks(captured))

    def over_ranks(self, loss: Tensor) -> Tensor:
        """Sum what the backward pass has not sent yet."""
        self.is_finishing = True
        return self.buckets.finish_on_device(loss)


def shapes_of(batch: Any) -> Shapes:
    """The key of the graph of a batch: its type, and the shape and dtype of each of its tensors."""
    return (type(batch), *((tensor.shape, tensor.dtype) for tensor in tensors_of(batch)))


CAPTURED = Backend("captured", why_not_captured, Captured, is_kernel=False)
CAPTURED_REPLICAS = Backend("captured", why_not_captured, CapturedReplicas, is_kernel=False)
