"""Data-parallel training on CPU cores: forked processes share the weights and sum their gradients.

Parameters lie in shared memory, so an update made by the parent is seen by all workers; so do the states a task carries
from batch to batch (`harken.training.task`), each worker writing rows of its own. In one step the parent sends every
worker its share of the batch over a pipe, all compute gradients at once, each worker copies its own into shared memory,
and the parent adds them up in the order of the workers. The order of the sum is fixed, so a run with the same number of
workers is repeatable to the bit. A parameter that no worker used has no gradient, whatever their number.

Workers are forked and thus inherit task, data and model; they exit when the pipe to the parent closes.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.errors import MachineError
from harken.training.checkpoints import state_of
from harken.training.prefetch import Prefetcher
from harken.training.strategies.base import Strategy, is_out_of_memory
from harken.training.task import Indices, carried_by

DIED = (
    "a training worker was killed, usually because the machine ran out of memory; lower train.batch_tokens or "
    "train.workers and continue with resume=True"
)
OUT_OF_MEMORY = (
    "a training worker ran out of memory; lower train.batch_tokens or train.workers and continue with resume=True"
)
POLL = 1.0  # seconds between checks that a worker is alive while its answer is awaited


def shared_like(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of the same shapes in anonymous memory shared with forked processes."""
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    starts = np.cumsum([0] + [-(-size // 64) * 64 for size in sizes])
    memory = mmap.mmap(-1, max(int(starts[-1]), 1))
    return [
        torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=int(start)).view(tensor.shape)
        for tensor, start in zip(tensors, starts, strict=False)
    ]


class Forked(Strategy):
    """The parent's side of the workers; worker 0 is the parent itself. See `Strategy`."""

    def place(self) -> None:
        """Move the parameters to shared memory and fork `train.workers` - 1 processes."""
        self.world_size = self.config.workers or 1
        self.parameters = [parameter for parameter in self.task.model.parameters() if parameter.requires_grad]
        self.pipes: list[Any] = []
        self.gradients: list[list[Tensor]] = []  # of each worker but the parent
        self.used: list[Tensor] = []  # which parameters each of these workers has a gradient for
        self.buffers: list[Tensor] = []  # the parent's, for validation in all workers
        self.processes: list[Any] = []
        self.prefetchers: list[Prefetcher] = []  # of each worker but the parent
        super().place()
        self._fork()

    def _fork(self) -> None:
        import multiprocessing
        import warnings

        for parameter, shared in zip(self.parameters, shared_like(self.parameters), strict=True):
            shared.copy_(parameter.data)
            parameter.data = shared
        carried = carried_by(self.task)
        for name, shared in zip(list(carried), shared_like(list(carried.values())), strict=True):
            carried[name] = shared.copy_(carried[name])
        self.buffers = shared_like(self._own_buffers())
        self.prefetchers = [self.prefetcher.for_worker(worker) for worker in range(1, self.world_size)]
        context = multiprocessing.get_context("fork")
        for worker in range(1, self.world_size):
            here, there = context.Pipe()
            self.gradients.append(shared_like(self.parameters))
            self.used.extend(shared_like([torch.zeros(len(self.parameters), dtype=torch.uint8)]))
            process = context.Process(target=self._serve, args=(worker, there, [*self.pipes, here]), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def _own_buffers(self) -> list[Tensor]:
        return [value for value in state_of(self.task.model).values() if not isinstance(value, torch.nn.Parameter)]

    def backward(self, step: int, batches: list[Indices], num_tokens: int) -> float:
        """Every worker computes its share; the parent adds the gradients up in the order of the workers."""
        shares = [self.task.share(examples, self.world_size) for examples in batches]
        ahead = self.prefetcher.ahead
        for worker, pipe in enumerate(self.pipes, start=1):
            own, next_ones = ([share[worker] for share in part] for part in (shares, ahead))
            self._send(pipe, _pack(step, num_tokens, own, next_ones))
        loss = self.share_gradients(0, step, [share[0] for share in shares], num_tokens)
        for worker, (gradients, used) in enumerate(zip(self.gradients, self.used, strict=True)):
            own_loss, pieces = self._receive(worker)
            loss, self.pieces = loss + own_loss, max(self.pieces, pieces)
            for parameter, gradient, present in zip(self.parameters, gradients, used.tolist(), strict=True):
                if not present:
                    continue
                if parameter.grad is None:
                    parameter.grad = gradient.clone()
                else:
                    parameter.grad.add_(gradient)
        return loss

    def validate(self) -> dict[str, float]:
        """Share the validation data out and put the results together."""
        for shared, own in zip(self.buffers, self._own_buffers() if self.buffers else [], strict=True):
            shared.copy_(own)
        for pipe in self.pipes:
            self._send(pipe, b"validate")
        results = [self.validate_share(0)]
        results += [self._receive(worker) for worker in range(len(self.pipes))]
        return self.task.score(results)

    def close(self) -> None:
        """Stop the workers."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()
        for prefetcher in self.prefetchers:
            prefetcher.close()
        self.pipes, self.processes, self.prefetchers = [], [], []

    def _send(self, pipe: Any, message: bytes) -> None:
        try:
            pipe.send_bytes(message)
        except OSError:
            raise MachineError(DIED) from None

    def _receive(self, worker: int) -> Any:
        pipe, process = self.pipes[worker], self.processes[worker]
        try:
            while not pipe.poll(POLL):
                if not process.is_alive() and not pipe.poll(0):
                    raise MachineError(DIED)
            answer = json.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            raise MachineError(DIED) from None
        if isinstance(answer, dict) and "out of memory" in answer:
            raise MachineError(OUT_OF_MEMORY)
        if isinstance(answer, dict) and "failed" in answer:
            raise RuntimeError(f"a training worker failed:\n{answer['failed']}")
        return answer

    def _serve(self, worker: int, pipe: Any, parents: list[Any]) -> None:
        """A worker's life: wait for a share, compute, answer; end when the parent goes."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the parent decides what they mean
            signal.signal(number, signal.SIG_IGN)
        for other in parents:  # else the pipes of a dead parent would stay open here
            other.close()
        torch.set_num_threads(self.config.threads or 1)
        self.prefetcher = self.prefetchers[worker - 1]
        own, used = self.gradients[worker - 1], self.used[worker - 1]
        while True:
            try:
                message = pipe.recv_bytes()
            except (EOFError, OSError):
                os._exit(0)
            try:
                if message == b"validate":
                    for own_buffer, shared in zip(self._own_buffers(), self.buffers, strict=True):
                        own_buffer.copy_(shared)
                    answer: Any = self.validate_share(worker)
                else:
                    step, num_tokens, shares, ahead = _unpack(message)
                    self.prefetcher.announce(ahead)
                    answer = [self.share_gradients(worker, step, shares, num_tokens), self.pieces]
                    used.copy_(torch.tensor([parameter.grad is not None for parameter in self.parameters]))
                    for parameter, gradient in zip(self.parameters, own, strict=True):
                        if parameter.grad is not None:
                            gradient.copy_(parameter.grad)
            except Exception as problem:
                out = is_out_of_memory(problem)
                answer = {"out of memory": True} if out else {"failed": traceback.format_exc()}
            try:
                pipe.send_bytes(json.dumps(answer).encode())
            except OSError:  # the parent has exited
                os._exit(0)


def _pack(step: int, num_tokens: int, shares: list[Indices], ahead: list[Indices]) -> bytes:
    """A message to a worker: its shares of this update, and of the batches after it."""
    parts = [*shares, *ahead]
    head = np.array([step, num_tokens, len(shares), len(parts), *map(len, parts)], dtype=np.int64)
    return head.tobytes() + b"".join(np.ascontiguousarray(part, dtype=np.int64).tobytes() for part in parts)


def _unpack(message: bytes) -> tuple[int, int, list[Indices], list[Indices]]:
    numbers = np.frombuffer(message, dtype=np.int64).copy()  # torch warns of arrays that it may not write to
    step, num_tokens, now, count = (int(number) for number in numbers[:4])
    ends = 4 + count + np.cumsum(numbers[4 : 4 + count])
    starts = np.concatenate(([4 + count], ends[:-1]))
    parts = [numbers[a:b] for a, b in zip(starts, ends, strict=True)]
    return step, num_tokens, parts[:now], parts[now:]
