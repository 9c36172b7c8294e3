"""Data-parallel training in processes that `torchrun` started, on one machine or several.

Every rank computes the gradient of its share of each global batch, divided by the tokens of the whole batch; the sum
over the ranks is the gradient of the mean loss. Gradients lie in buckets of some megabytes. In the backward pass of the
last accumulated batch a bucket is summed over the ranks as soon as it is complete, while the layers below it are still
computed; earlier accumulated batches are not communicated. All buckets are summed in the same order on every rank, so a
rank with an empty share takes part with zeros.

Weights, optimizer and average are the same on every rank (`train.sharding = "none"`); `sharded.py` divides them.
Decisions that depend on a clock or a signal are taken by rank 0 and sent to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from harken.training.config import TrainConfig
from harken.training.prefetch import Prefetcher
from harken.training.strategies.base import Strategy
from harken.training.strategies.group import Group, broadcast_tensors
from harken.training.task import Indices, Task, copy_persistent_state, persistent_state
from harken.training.weights import state_of

T = TypeVar("T")
BUCKET = 25 * 2**20  # bytes


class Distributed(Strategy):
    """The base of strategies over the ranks of a group. See `harken.training.strategies.base.Strategy`."""

    def __init__(self, task: Task, config: TrainConfig, group: Group, prefetcher: Prefetcher | None = None) -> None:
        self.group, self.rank, self.world_size = group, group.rank, group.world_size
        super().__init__(task, config, group.device, prefetcher)

    def validate(self) -> dict[str, float]:
        """Every rank evaluates its part; rank 0 puts them together."""
        broadcast_tensors(
            [value for value in state_of(self.task.model).values() if not isinstance(value, nn.Parameter)]
        )
        results = self.group.gather(self.validate_share(self.rank))
        return self.broadcast(self.task.score(results) if self.is_main else {})

    def broadcast(self, value: T) -> T:
        """The value of rank 0."""
        return self.group.broadcast(value)

    def maximum(self, values: list[float]) -> list[float]:
        """The element-wise maximum over all ranks."""
        return self.group.maximum(values)

    def state(self) -> dict[str, Tensor]:
        """With the carried states of all ranks."""
        self.gather_carried()
        return super().state()

    def gather_carried(self) -> None:
        """Give every rank all carried states: a row comes from the rank that changed it since the last call."""
        for name, value in persistent_state(self.task).items():
            changed = value.ne(self.carried_before[name])
            rows = torch.stack([changed.to(value.dtype), torch.where(changed, value, torch.zeros_like(value))])
            dist.all_reduce(rows)
            value.copy_(torch.where(rows[0] > 0, rows[1], value))
        self._keep_carried()

    def restore(self, tensors: dict[str, Tensor], folder: Path) -> None:
        """Every rank has all rows of the carried states, whichever it will use."""
        super().restore(tensors, folder)
        self._keep_carried()

    def _keep_carried(self) -> None:
        self.carried_before = copy_persistent_state(self.task)


class Replicated(Distributed):
    """Replicas of the model on all ranks."""

    def place(self) -> None:
        """Give every rank the weights of rank 0, and their gradients a place in buckets."""
        super().place()
        broadcast_tensors(list((state_of(self.task.model) | state_of(self.trained)).values()))
        self.buckets = Buckets([value for value in self.task.model.parameters() if value.requires_grad])
        self._keep_carried()

    def backward(self, step: int, batches: list[Indices], num_tokens: int) -> float:
        """The gradient of the own shares, summed over the ranks."""
        shares = [self.task.share(indices, self.world_size)[self.rank] for indices in batches]
        loss = self.share_gradients(self.rank, step, shares, num_tokens)
        total, pieces = self.buckets.finish(loss, self.pieces - 1, self.device)
        self.pieces = 1 + pieces
        return total

    def diagnose(self, step: int, batches: list[Indices]) -> list[tuple[str, list[int]]]:
        """Every rank computes its own shares again."""
        shares = [self.task.share(indices, self.world_size)[self.rank] for indices in batches]
        own = self._diagnose_shares(self.rank, step, [share for share in shares if len(share)])
        return [
            (f"rank {rank}: {place}", indices)
            for rank, diagnoses in enumerate(self.group.gather(own))
            for place, indices in diagnoses
        ]

    def zero_gradients(self) -> None:
        """Empty the buckets."""
        self.buckets.start()

    def before_last_backward(self) -> None:
        """Send buckets from now on: no gradient will be added to them after this backward pass."""
        self.buckets.sending = True

    def close(self) -> None:
        """Leave the gradients to autograd again."""
        if hasattr(self, "buckets"):
            self.buckets.close()


class Buckets:
    """Gradients as views of a few flat tensors, which are summed over the ranks.

    Buckets are filled from the last parameter to the first, about as the backward pass computes them.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)[::-1]
        self.flat: list[Tensor] = []
        self.views: list[Tensor] = []
        self.bucket_of: list[int] = []  # of each parameter
        for group in _groups(self.parameters):
            flat = group[0].new_zeros(sum(value.numel() for value in group))
            self.views += [part.view_as(value) for part, value in zip(
                flat.split([value.numel() for value in group]), group, strict=True
            )]  # fmt: skip
            self.bucket_of += [len(self.flat)] * len(group)
            self.flat.append(flat)
        self.hooks = [
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._ready(index))
            for index, parameter in enumerate(self.parameters)
        ]
        self.sent: list[Any] = []
        self.sending = False

    def start(self) -> None:
        """A new step: gradients are 0. What was sent already, before memory ran out, stays as it is."""
        self.sending = False
        self.used = [False] * len(self.parameters)
        self.missing = [self.bucket_of.count(bucket) for bucket in range(len(self.flat))]
        for bucket in range(len(self.sent), len(self.flat)):
            self.flat[bucket].zero_()
        for parameter, view, bucket in zip(self.parameters, self.views, self.bucket_of, strict=True):
            parameter.grad = None if bucket < len(self.sent) else view

    def _ready(self, index: int) -> None:
        """A hook of a parameter: its gradient is complete in this backward pass."""
        self.used[index] = True
        if not self.sending:
            return
        self.missing[self.bucket_of[index]] -= 1
        while len(self.sent) < len(self.flat) and self.missing[len(self.sent)] == 0:
            self._send()

    def _send(self) -> None:
        """Sum the next bucket; gradients of a repeated backward pass must not change it."""
        bucket = len(self.sent)
        for parameter, its_bucket in zip(self.parameters, self.bucket_of, strict=True):
            if its_bucket == bucket:
                parameter.grad = None
        self.sent.append(dist.all_reduce(self.flat[bucket], async_op=True))

    def finish(self, loss: float, more: int, device: torch.device) -> tuple[float, int]:
        """Sum what is left and put the sums into `.grad`, None for what no rank used; returns summed `loss`, `more`."""
        facts = torch.tensor([loss, more, *self.used], dtype=torch.float64, device=device)
        self._sum_rest(facts)
        total, more, *used = facts.tolist()
        self.put_gradients(used)
        return float(total), int(more)

    def finish_on_device(self, loss: Tensor) -> Tensor:
        """`finish` without waiting for the device, where every rank has a share and uses the same parameters."""
        facts = torch.zeros(2 + len(self.parameters), dtype=torch.float64, device=loss.device)  # as in `finish`
        facts[0] = loss
        self._sum_rest(facts)
        self.put_gradients(self.used)
        return facts[0].float()

    def _sum_rest(self, facts: Tensor) -> None:
        """Sum the buckets that are left, and `facts`."""
        while len(self.sent) < len(self.flat):
            self._send()
        dist.all_reduce(facts)
        for work in self.sent:
            work.wait()
        self.sent, self.sending = [], False

    def put_gradients(self, used: Sequence[float]) -> None:
        """Put the buckets into `.grad`, None for parameters that were not used."""
        for parameter, view, count in zip(self.parameters, self.views, used, strict=True):
            parameter.grad = view if count else None

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self.hooks:
            hook.remove()


def _groups(parameters: Sequence[Tensor]) -> list[list[Tensor]]:
    """Parameters of one dtype and device side by side, in groups of about `BUCKET` bytes."""
    groups: list[list[Tensor]] = []
    size = 0
    for value in parameters:
        same = groups and (groups[-1][0].dtype, groups[-1][0].device) == (value.dtype, value.device)
        if not same or size >= BUCKET:
            groups.append([])
            size = 0
        groups[-1].append(value)
        size += value.numel() * value.element_size()
    return groups
