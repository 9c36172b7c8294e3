"""Claims in a process of their own."""

import asyncio
import os
from typing import Any

import pytest

from harken.errors import UserError
from harken.lab.registry import experiment_names
from harken.studio.explorations import EXPLORATIONS
from harken.studio.laboratory import list_claims, run_claim


def test_every_claim_is_listed_and_sliders_belong_to_claims() -> None:
    assert [one["name"] for one in list_claims()] == experiment_names()
    assert set(EXPLORATIONS) <= set(experiment_names())


def test_refuses_a_claim_that_does_not_exist() -> None:
    async def ask() -> None:
        async for _ in run_claim("vanihsing", 1, True):
            pass

    with pytest.raises(UserError, match="did you mean 'vanishing'"):
        asyncio.run(ask())


@pytest.mark.slow
def test_a_quick_run_reports_progress_then_a_verdict_with_a_figure() -> None:
    async def ask() -> list[dict[str, object]]:
        return [message async for message in run_claim("cell-memory", 1, True)]

    *steps, last = asyncio.run(ask())
    report = last["report"]
    assert isinstance(report, dict) and report["answer"] in ("holds", "does not hold", "holds in part")
    assert report["figures"][0]["panels"] and len(report["rows"][0]) == len(report["columns"])
    assert all(0 <= float(str(one["done"])) <= 1 for one in steps)


@pytest.mark.slow
def test_leaving_ends_the_process_and_its_workers() -> None:
    async def ask() -> list[int]:
        before = children()
        messages = run_claim("vanishing", 1, False)
        await anext(messages)
        during = children() - before
        await messages.aclose()  # type: ignore[attr-defined]
        return [pid for pid in during if os.path.exists(f"/proc/{pid}") and "Z" not in state(pid)]

    assert asyncio.run(ask()) == []


def children() -> set[int]:
    """Every process below this one."""
    found, waiting = set[int](), [os.getpid()]
    while waiting:
        for task in os.listdir(f"/proc/{(parent := waiting.pop())}/task"):
            with open(f"/proc/{parent}/task/{task}/children") as file:
                below = set(map(int, file.read().split())) - found
            found |= below
            waiting += below
    return found


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def test_one_experiment_runs_at_a_time() -> None:
    from harken.studio.routes import alone

    async def messages(closed: list[bool]) -> Any:
        try:
            for number in range(3):
                yield {"done": number}
        finally:
            closed.append(True)

    async def main() -> None:
        lock, closed = asyncio.Lock(), list[bool]()
        first = alone(lock, messages(closed))
        assert await anext(first) == {"done": 0}
        refused = [message async for message in alone(lock, messages([]))]
        assert [list(message) for message in refused] == [["error"]] and "another experiment" in refused[0]["error"]
        await first.aclose()
        assert closed == [True] and not lock.locked()
        assert len([message async for message in alone(lock, messages([]))]) == 3

    asyncio.run(main())
