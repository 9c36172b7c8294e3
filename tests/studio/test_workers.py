"""Worker processes of the studio: how many, for whom, for how long, and how they end."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from harken.serving.errors import ApiError, DeadlinePassed, QueueFull
from harken.studio.library import Library
from harken.studio.workers import PoolLimits, WorkerPool

STUB = """
import os, subprocess, time
from harken.studio import worker

class Tasks(worker.Tasks):
    def echo(self, **fields):
        return {**fields, "pid": os.getpid()}

    def wait(self):  # until it is cancelled
        self.emit({"pid": os.getpid()})
        while not self.cancelled():
            time.sleep(0.005)
        return {}

    def hang(self):  # cancelled or not
        child = subprocess.Popen(["sleep", "1000"])
        self.emit({"pid": os.getpid(), "child": child.pid})
        child.wait()

    def die(self):
        os._exit(3)

    def fail(self, text):
        raise ValueError(text)

    def infinite(self):
        return float("inf")

worker.Tasks = Tasks
worker.main(worker.Library())
"""


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stub.py").write_text(STUB)
    monkeypatch.setattr("harken.studio.workers.COMMAND", [sys.executable, str(tmp_path / "stub.py")])


def in_pool(work: Callable[[WorkerPool], Awaitable[Any]], **limits: Any) -> Any:
    """The result of work with a pool, which is closed afterwards."""

    async def main() -> Any:
        pool = WorkerPool(Library(), PoolLimits(**limits))
        try:
            return await work(pool)
        finally:
            await pool.close()
            assert pool._workers == set() or all(is_gone(worker.process.pid) for worker in pool._workers)

    return asyncio.run(main())


def is_gone(pid: int) -> bool:
    """Whether a process has ended, within ten seconds."""
    for _ in range(1000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


async def echo(pool: WorkerPool, client: str = "a", **fields: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(await pool.run(client, "echo", fields))
    return result


def test_one_process_does_one_task_after_the_other() -> None:
    async def work(pool: WorkerPool) -> Any:
        return await asyncio.gather(*(echo(pool, str(number), text="ü\n") for number in range(8)))

    results = in_pool(work)
    assert len({result["pid"] for result in results}) == 1 and results[0]["pid"] != os.getpid()
    assert results[0]["text"] == "ü\n"


def test_a_client_has_so_many_tasks_and_all_clients_so_many() -> None:
    async def work(pool: WorkerPool) -> None:
        async with aclosing(pool.stream("a", "wait", {})) as running:
            await anext(running)
            waiting = [asyncio.create_task(echo(pool, "a")), asyncio.create_task(echo(pool, "b"))]
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await echo(pool, "a")  # the third of one client
            await asyncio.sleep(0)
            waiting.append(asyncio.create_task(echo(pool, "b")))
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await echo(pool, "c")  # the fifth of all
        await asyncio.gather(*waiting)
        assert await echo(pool, "c")

    in_pool(work, waiting=3, per_client=2)


def test_a_task_whose_client_has_left_stops_and_its_process_goes_on() -> None:
    async def work(pool: WorkerPool) -> tuple[int, int]:
        async with aclosing(pool.stream("a", "wait", {})) as running:
            before = json.loads((await anext(running)).value)["pid"]
        return before, (await echo(pool))["pid"]

    before, after = in_pool(work)
    assert before == after


def test_a_cancelled_request_stops_its_task() -> None:
    async def work(pool: WorkerPool) -> None:
        task = asyncio.create_task(pool.run("a", "wait", {}))
        while not pool._workers or not next(iter(pool._workers)).is_busy:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await echo(pool))["pid"] == next(iter(pool._workers)).process.pid

    in_pool(work)


def test_a_task_that_does_not_stop_ends_with_its_process_and_its_children() -> None:
    async def work(pool: WorkerPool) -> dict[str, int]:
        async with aclosing(pool.stream("a", "hang", {})) as running:
            event: dict[str, int] = json.loads((await anext(running)).value)
        assert (await echo(pool))["pid"] != event["pid"]
        return event

    event = in_pool(work, stop_seconds=0.2)
    assert is_gone(event["pid"]) and is_gone(event["child"])


def test_a_task_past_its_deadline_ends_with_its_process() -> None:
    async def work(pool: WorkerPool) -> None:
        first = (await echo(pool))["pid"]
        object.__setattr__(pool.limits, "seconds", 1.0)
        with pytest.raises(DeadlinePassed):
            await pool.run("a", "hang", {})
        object.__setattr__(pool.limits, "seconds", 60.0)
        assert (await echo(pool))["pid"] != first and is_gone(first)

    in_pool(work)


def test_a_stopped_process_is_replaced_at_the_deadline() -> None:
    async def work(pool: WorkerPool) -> None:
        first = (await echo(pool))["pid"]
        os.kill(first, signal.SIGSTOP)
        object.__setattr__(pool.limits, "seconds", 1.0)
        with pytest.raises(DeadlinePassed):
            await echo(pool)
        object.__setattr__(pool.limits, "seconds", 60.0)
        assert (await echo(pool))["pid"] != first and is_gone(first)

    in_pool(work)


def test_a_process_that_dies_is_replaced() -> None:
    async def work(pool: WorkerPool) -> None:
        with pytest.raises(ApiError, match="the worker process"):
            await pool.run("a", "die", {})
        assert await echo(pool)

    in_pool(work)


def test_an_error_of_a_task_is_told_and_logged_without_its_text(capfd: pytest.CaptureFixture[str]) -> None:
    async def work(pool: WorkerPool) -> None:
        for task, fields in (("fail", {"text": "squirrel"}), ("infinite", {})):
            with pytest.raises(ApiError, match="internal error: ValueError") as caught:
                await pool.run("a", task, fields)
            assert caught.value.status == 500
        assert await echo(pool)

    in_pool(work)
    logged = "".join(capfd.readouterr())
    assert "internal error: ValueError" in logged and "squirrel" not in logged


def test_whoever_waits_is_told_so() -> None:
    async def work(pool: WorkerPool) -> str:
        async with aclosing(pool.stream("a", "wait", {})) as running:
            await anext(running)
            async with aclosing(pool.stream("b", "wait", {})) as second:
                return (await anext(second)).value

    assert in_pool(work, waiting_event='{"say": "waiting"}') == '{"say": "waiting"}'
