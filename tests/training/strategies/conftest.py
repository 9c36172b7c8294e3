"""Ranks of a job as forked processes that talk by gloo, as torchrun would start them; a test is one process."""

import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from harken.training.strategies.group import Group, joined

Outcome = dict[str, Any]  # "value", or "error" and "message"; {} of a process that was killed


def run_ranks(
    world_size: int, body: Callable[[Group], Any], device: str = "cpu", timeout: float = 120
) -> list[Outcome]:
    """What `body` returns or raises in each of some forked processes; kills them after `timeout` seconds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pipes, processes = [], []
    for rank in range(world_size):
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reads)
            _be_rank(rank, world_size, port, body, writes)
        os.close(writes)
        pipes.append(reads)
        processes.append(child)
    signal.signal(signal.SIGALRM, lambda *_: [os.kill(child, signal.SIGKILL) for child in processes])
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        found = [json.loads(_read(reads) or "{}") for reads in pipes]
        for child in processes:
            os.waitpid(child, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return found


def _be_rank(rank: int, world_size: int, port: int, body: Callable[[Group], Any], writes: int) -> None:
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "False",
    }  # fmt: skip
    outcome: Outcome
    try:
        with joined() as group:
            assert group is not None
            group.connect("cpu")
            outcome = {"value": body(group)}
    except BaseException as problem:
        if os.environ.get("HARKEN_DEBUG"):
            traceback.print_exc(file=sys.__stderr__)
        outcome = {"error": type(problem).__name__, "message": str(problem)}
    if rank == 0:
        time.sleep(0.2)  # it has the store that the others may still read the reason from
    os.write(writes, json.dumps(outcome).encode())
    os._exit(0)


def _read(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as lines:
        return lines.read()


@pytest.fixture
def ranks() -> Callable[..., list[Outcome]]:
    return run_ranks
