"""Processes of a sweep: results, errors, kills, and an end with the process that started them."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.errors import UserError
from harken.sweeps.processes import Outcome, run_each


def test_slots_and_results() -> None:
    outcomes = dict(run_each(lambda item, slot: (item, slot), [5, 6, 7], jobs=2))
    assert sorted(outcomes) == [0, 1, 2] and {outcome.value[0] for outcome in outcomes.values()} == {5, 6, 7}
    assert {outcome.value[1] for outcome in outcomes.values()} == {0, 1}
    assert list(run_each(lambda item, slot: item, [])) == []


def test_items_that_depend_on_outcomes_and_an_end(tmp_path: Path) -> None:
    seen: list[int] = []

    def items() -> Iterator[int | None]:
        yield 1
        while not seen:
            yield None  # depends on the outcome of 1
        yield 2

    for index, outcome in run_each(lambda item, slot: 10 * item, items(), jobs=2):
        seen.append(outcome.value)
        assert index == len(seen) - 1
    assert seen == [10, 20]

    def work(item: int, slot: int) -> int:
        time.sleep(300 * item)
        return 1

    assert list(run_each(work, [1, 1], jobs=2, until=time.monotonic())) == []


def test_one_failure_leaves_the_others(capfd: pytest.CaptureFixture[str]) -> None:
    def work(item: str, slot: int) -> str:
        if item == "user":
            raise UserError("the file is missing; give another")
        if item == "crash":
            raise ZeroDivisionError("by zero")
        if item == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "left":
            os._exit(3)
        return item

    items = ["user", "crash", "killed", "left", "good"]
    outcomes = dict(run_each(work, items, jobs=3))
    assert outcomes[0] == Outcome(None, "the file is missing; give another")
    assert outcomes[1].error == "internal error: ZeroDivisionError: by zero"
    assert outcomes[2].error.startswith("the process was ended by SIGKILL")
    assert outcomes[3].error == "the process ended without a result" and outcomes[4] == Outcome("good")
    assert "ZeroDivisionError" in capfd.readouterr().err  # the traceback, for a report


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_one_that_started_them(tmp_path: Path, number: int) -> None:
    def work(item: int, slot: int) -> int:
        (tmp_path / f"{item}.part").write_text(str(os.getpid()))
        (tmp_path / f"{item}.part").rename(tmp_path / f"{item}.pid")
        time.sleep(300)
        return item

    starter = os.fork()
    if starter == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            list(run_each(work, [1, 2], jobs=2))
        finally:
            os._exit(1)
    until = time.monotonic() + 120
    while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    pids = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
    assert len(pids) == 2 and all(map(is_alive, pids))
    os.kill(starter, number)
    os.waitpid(starter, 0)
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(is_alive, pids))
