"""The processes of a job that `torchrun` started: rank 0 decides and writes, the others follow.

Values travel as JSON, never as pickle. Every rank has a thread that counts in torchrun's key-value store as a sign of
life and looks there for the reason why another rank ended; so when a rank fails or is killed, every rank ends with the
reason, also one that waits in a collective which will never complete.

    torchrun --nproc-per-node 4 -m harken train recipe.toml --out runs/model
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from harken.errors import MachineError, UserError, printable
from harken.training.folder import is_launched

T = TypeVar("T")
BEAT = 1.0  # seconds between two signs of life
LOST = 4.0  # seconds without one after which a rank is taken for dead
TIMEOUT = timedelta(hours=2)  # of a collective: some ranks may read their data for long, or decode long validations
GRACE = 10.0  # seconds in which a rank may end by itself after another one failed
LOST_RANK = (
    "{} killed or lost, usually because the machine ran out of memory; lower train.batch_tokens and continue with "
    "resume=True"
)


class Group:
    """All ranks of a job; made once in a process by `joined`."""

    rank: int
    world_size: int

    def __init__(self) -> None:
        store, self.rank, self.world_size = next(iter(dist.rendezvous("env://")))
        attempt = [os.environ.get(name, "0") for name in ("TORCHELASTIC_RESTART_COUNT", "MASTER_PORT", "WORLD_SIZE")]
        self.store = dist.PrefixStore("/".join(attempt), store)  # torchrun keeps the keys of the attempts before
        self.lasting = store
        self.device = torch.device("cpu")
        self.beats: dist.Store = self.store.clone()  # type: ignore[attr-defined]  # a connection that does not block
        self.closed = threading.Event()
        self.failed = False
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def connect(self, device: str) -> None:
        """Open the connections between the ranks; waits for all of them.

        Args:
            device: "cpu", or "cuda" for the GPU with the number of the rank on its machine.

        Raises:
            UserError: this machine has fewer GPUs than ranks.
        """
        backend, options = "gloo", dict[str, Any]()
        if device.startswith("cuda"):
            local = int(os.environ.get("LOCAL_RANK", "0"))
            if local >= torch.cuda.device_count():
                raise UserError(
                    f"rank {self.rank} needs GPU number {local}, and this machine has {torch.cuda.device_count()}; "
                    "start torchrun with --nproc-per-node of at most that number"
                )
            self.device = torch.device("cuda", local)
            torch.cuda.set_device(self.device)
            backend, options = "cpu:gloo,cuda:nccl", {"device_id": self.device}
        store = dist.PrefixStore("connections", self.store)
        dist.init_process_group(
            backend, store=store, rank=self.rank, world_size=self.world_size, timeout=TIMEOUT, **options
        )

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def announce(self, key: str, value: Any) -> None:
        """As rank 0, publish a value for `await_announced`: it may come hours later, before `connect`."""
        self.store.set(key, json.dumps(value))

    def await_announced(self, key: str) -> Any:
        """Wait for what rank 0 announces.

        Raises:
            UserError: rank 0 failed.
        """
        while not self.beats.check([key]):
            if (reason := self._failure()) is not None:
                raise reason
            time.sleep(0.2)
        return json.loads(self.beats.get(key))

    def remember(self, key: str, value: int) -> None:
        """Keep a number for the ranks that torchrun starts after this job failed (`--max-restarts`)."""
        self.lasting.set(key, str(value))

    def recall(self, key: str, default: int) -> int:
        """The number that a rank of an earlier attempt remembered, or the default; the same on all ranks."""
        return self.broadcast(int(self.lasting.get(key)) if self.is_main and self.lasting.check([key]) else default)

    def broadcast(self, value: T) -> T:
        """The value of rank 0."""
        packed = _packed(value) if self.is_main else torch.empty(0, dtype=torch.uint8)
        size = torch.tensor([len(packed)])
        dist.broadcast(size, 0)
        if not self.is_main:
            packed = torch.empty(int(size), dtype=torch.uint8)
        dist.broadcast(packed, 0)
        received: T = _unpacked(packed)
        return received

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks in their order, on every rank."""
        packed = _packed(value)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([len(packed)]))
        padded = torch.zeros(int(max(sizes)), dtype=torch.uint8)
        padded[: len(packed)] = packed
        gathered = [torch.empty_like(padded) for _ in range(self.world_size)]
        dist.all_gather(gathered, padded)
        return [_unpacked(message[: int(size)]) for message, size in zip(gathered, sizes, strict=True)]

    def maximum(self, values: list[float]) -> list[float]:
        """The element-wise maximum over all ranks."""
        maximum = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(maximum, dist.ReduceOp.MAX)
        return maximum.tolist()

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.maximum([0.0])

    def close(self) -> None:
        """Leave the job."""
        self.closed.set()
        self.watcher.join()
        if dist.is_initialized():
            dist.destroy_process_group()
        if self.failed and self.is_main and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            time.sleep(LOST)  # this process has the store that the others read the reason from

    def report(self, problem: BaseException) -> None:
        """Tell the other ranks why this one ends; the first reason stays."""
        known = isinstance(problem, UserError)
        reason = f"rank {self.rank}: {problem}" if known else f"rank {self.rank}: {type(problem).__name__}: {problem}"
        kind = "machine" if isinstance(problem, MachineError) or not known else "user"
        self.failed = True
        with suppress(RuntimeError):
            self.store.compare_set("failed", "", json.dumps({"kind": kind, "reason": reason, "rank": self.rank}))

    def reason(self) -> UserError:
        """Why a collective failed here: what another rank reported, or which ranks are gone."""
        try:
            before, start = self._counts(), time.monotonic()
            while time.monotonic() - start < LOST:
                if (reason := self._failure()) is not None:
                    return reason
                time.sleep(0.2)
            now = self._counts()
        except RuntimeError:  # the store is gone, and rank 0 or its torchrun with it
            return MachineError(LOST_RANK.format("rank 0 was"))
        gone = [rank for rank in range(self.world_size) if now[rank] == before[rank] and rank != self.rank]
        names = ", ".join(map(str, gone))
        return MachineError(LOST_RANK.format(f"rank {names} was" if len(gone) == 1 else f"ranks {names or '?'} were"))

    def _counts(self) -> list[int]:
        return [self.beats.add(f"alive/{rank}", 0) for rank in range(self.world_size)]

    def _failure(self) -> UserError | None:
        if not self.beats.check(["failed"]):
            return None
        failure = json.loads(self.beats.get("failed"))
        return None if failure["rank"] == self.rank else _ERRORS[failure["kind"]](failure["reason"])

    def _watch(self) -> None:
        """Give signs of life; end this process where it does not end by itself after another one failed."""
        noticed_at: float | None = None
        store = self.store.clone()  # type: ignore[attr-defined]  # missing in the stubs
        while not self.closed.wait(BEAT):
            try:
                store.add(f"alive/{self.rank}", 1)
                failed = json.loads(store.get("failed")) if store.check(["failed"]) else None
            except RuntimeError:  # torchrun or rank 0 is gone
                failed = {"rank": 0, "reason": LOST_RANK.format("rank 0 was")}
            if failed is None or failed["rank"] == self.rank:
                continue
            noticed_at = noticed_at or time.monotonic()
            if time.monotonic() - noticed_at > GRACE:
                print(f"error: {printable(failed['reason'])}", file=sys.stderr, flush=True)
                os._exit(1)


_ERRORS: dict[str, type[UserError]] = {"user": UserError, "machine": MachineError}


@contextmanager
def joined() -> Iterator[Group | None]:
    """The group of this process inside the block, None where torchrun did not start it.

    An exception that leaves the block ends all ranks with its reason. An exception that was caused by another rank is
    replaced by that rank's reason.
    """
    if not is_launched():
        yield None
        return
    group = Group()
    try:
        yield group
    except KeyboardInterrupt:
        if (reason := _quietly(group)) is not None:  # torchrun stops the others when a rank has failed
            raise reason from None
        raise
    except UserError as problem:
        group.report(problem)
        raise
    except (RuntimeError, dist.DistError) as problem:
        if not is_lost_connection(problem):
            group.report(problem)
            raise
        with _ignored_signals():
            reason = group.reason()
        raise reason from problem
    except Exception as problem:
        group.report(problem)
        raise
    finally:
        group.close()


def is_lost_connection(problem: BaseException) -> bool:
    """Whether a collective failed because another rank is gone, as gloo, NCCL and the store say it."""
    if isinstance(problem, dist.DistError):
        return True
    said = str(problem).lower()
    return any(
        word in said for word in ("connection closed", "connection reset", "broken pipe", "gloo", "nccl", "timed out")
    )


def broadcast_tensors(tensors: list[Tensor]) -> None:
    """Overwrite tensors by those of rank 0."""
    for tensor in tensors:
        dist.broadcast(tensor.detach(), 0)


@contextmanager
def _ignored_signals() -> Iterator[None]:
    """Inside the block SIGTERM and SIGINT do nothing: torchrun stops all ranks when one was killed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _quietly(group: Group) -> UserError | None:
    try:
        return group._failure()
    except RuntimeError:
        return None


def _packed(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(value).encode() or b" "), dtype=torch.uint8)


def _unpacked(packed: Tensor) -> Any:
    return json.loads(packed.numpy().tobytes())
