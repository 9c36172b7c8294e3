"""Data-parallel training over CPU processes: shared weights, a part of each batch per process, gradients summed.

The weights are in shared memory, so an update by the parent is visible to all; so are the tensors that a task carries
from batch to batch (`harken.training.task`), of which each worker writes its own rows. In a step the parent sends every
worker its examples over a pipe, all compute gradients at once, each worker copies its own into shared memory, and the
parent adds them in the order of the workers. So a run with the same number of workers is reproducible bit for bit.

Workers are forked and inherit task, data and model; they exit when the pipe to the parent closes.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.training.task import Indices, Task, carried_by

DIED = "a training worker died; is the machine out of memory?"


def seed_step(seed: int, step: int, worker: int) -> None:
    """Seed torch by (seed, step, worker), so that a resumed run draws the same random numbers."""
    torch.manual_seed(int(np.random.SeedSequence([seed, step, worker]).generate_state(1, np.uint64)[0] >> 1))


def shared_like(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of the same shapes in anonymous memory shared with forked processes."""
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    starts = np.cumsum([0] + [-(-size // 64) * 64 for size in sizes])
    memory = mmap.mmap(-1, max(int(starts[-1]), 1))
    return [
        torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=int(start)).view(tensor.shape)
        for tensor, start in zip(tensors, starts, strict=False)
    ]


class Workers:
    """The parent's side of the workers; worker 0 is the parent itself."""

    def __init__(self, task: Task, count: int, seed: int, autocast: Callable[[], Any]) -> None:
        self.task, self.count, self.seed, self.autocast = task, count, seed, autocast
        self.parameters = [parameter for parameter in task.model.parameters() if parameter.requires_grad]
        self.pipes: list[Any] = []
        self.gradients: list[list[Tensor]] = []
        self.processes: list[Any] = []
        if count > 1:
            try:
                self._fork(count)
            except BaseException:
                self.close()
                raise

    def _fork(self, count: int) -> None:
        import multiprocessing
        import warnings

        for parameter, shared in zip(self.parameters, shared_like(self.parameters), strict=True):
            shared.copy_(parameter.data)
            parameter.data = shared
        carried = carried_by(self.task)
        for name, shared in zip(list(carried), shared_like(list(carried.values())), strict=True):
            carried[name] = shared.copy_(carried[name])
        context = multiprocessing.get_context("fork")
        for worker in range(1, count):
            here, there = context.Pipe()
            self.gradients.append(shared_like(self.parameters))
            process = context.Process(target=self._serve, args=(worker, there, [*self.pipes, here]), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def backward(self, step: int, batches: list[Indices], num_tokens: int) -> float:
        """Compute gradients of the mean loss over `num_tokens` into `.grad`; returns the summed loss."""
        shares = [self.task.share(indices, self.count) for indices in batches]
        for worker, pipe in enumerate(self.pipes, start=1):
            self._send(pipe, _pack(step, num_tokens, [share[worker] for share in shares]))
        loss = self._compute(0, step, [share[0] for share in shares], num_tokens)
        for pipe, gradients in zip(self.pipes, self.gradients, strict=True):
            loss += self._receive(pipe)
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                if parameter.grad is None:
                    parameter.grad = gradient.clone()
                else:
                    parameter.grad.add_(gradient)
        return loss

    def validate(self) -> dict[str, float]:
        """Validate, each worker on its part of the data, and combine the results."""
        for pipe in self.pipes:
            self._send(pipe, b"validate")
        results = [self._validate(0)]
        results += [self._receive(pipe) for pipe in self.pipes]
        return self.task.score(results)

    def close(self) -> None:
        """Stop the workers."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
        self.pipes, self.processes = [], []

    def _send(self, pipe: Any, message: bytes) -> None:
        try:
            pipe.send_bytes(message)
        except OSError:
            raise RuntimeError(DIED) from None

    def _receive(self, pipe: Any) -> Any:
        try:
            answer = json.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            raise RuntimeError(DIED) from None
        if isinstance(answer, dict) and "failed" in answer:
            raise RuntimeError(f"a training worker failed:\n{answer['failed']}")
        return answer

    def _compute(self, worker: int, step: int, shares: list[Indices], num_tokens: int) -> float:
        seed_step(self.seed, step, worker)
        for parameter in self.parameters:
            parameter.grad = None
        total = 0.0
        for indices in shares:
            if len(indices):
                with self.autocast():
                    loss = self.task.loss(indices)
                (loss / num_tokens).backward()
                total += float(loss.detach())
        return total

    def _validate(self, worker: int) -> Any:
        self.task.model.eval()
        with torch.no_grad(), self.autocast():
            result = self.task.validate(worker, self.count)
        self.task.model.train()
        return result

    def _serve(self, worker: int, pipe: Any, parents: list[Any]) -> None:
        """The loop of a worker: receive a share, compute, reply; exit when the parent does."""
        for number in (signal.SIGINT, signal.SIGTERM):  # the parent handles them
            signal.signal(number, signal.SIG_IGN)
        for other in parents:  # else the pipes of a dead parent would stay open here
            other.close()
        torch.set_num_threads(1)
        own = self.gradients[worker - 1]
        while True:
            try:
                message = pipe.recv_bytes()
            except (EOFError, OSError):
                os._exit(0)
            try:
                if message == b"validate":
                    answer: Any = self._validate(worker)
                else:
                    step, num_tokens, shares = _unpack(message)
                    answer = self._compute(worker, step, shares, num_tokens)
                    for parameter, gradient in zip(self.parameters, own, strict=True):
                        if parameter.grad is None:
                            gradient.zero_()
                        else:
                            gradient.copy_(parameter.grad)
            except Exception:
                answer = {"failed": traceback.format_exc()}
            try:
                pipe.send_bytes(json.dumps(answer).encode())
            except OSError:  # the parent has exited
                os._exit(0)


def _pack(step: int, num_tokens: int, shares: list[Indices]) -> bytes:
    head = np.array([step, num_tokens, len(shares), *(len(share) for share in shares)], dtype=np.int64)
    return head.tobytes() + b"".join(np.ascontiguousarray(share, dtype=np.int64).tobytes() for share in shares)


def _unpack(message: bytes) -> tuple[int, int, list[Indices]]:
    numbers = np.frombuffer(message, dtype=np.int64)
    step, num_tokens, count = (int(number) for number in numbers[:3])
    ends = 3 + count + np.cumsum(numbers[3 : 3 + count])
    starts = np.concatenate(([3 + count], ends[:-1]))
    return step, num_tokens, [numbers[a:b] for a, b in zip(starts, ends, strict=True)]
