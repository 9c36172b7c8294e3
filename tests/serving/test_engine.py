"""The engine: dead workers, bad requests among good ones, streams, stopping. Workers are fakes that need no model."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harken.errors import UserError
from harken.serving.engine import engine as module
from harken.serving.engine.batching import Work
from harken.serving.engine.engine import Engine
from harken.serving.engine.worker import Problem
from harken.serving.errors import ApiError, DeadlinePassed, QueueFull, WorkerFailed
from harken.serving.settings import ServerSettings


class FakeWorker:
    """Upper-cases texts; "die" kills it, "bad" is the user's error, "wait" is never answered."""

    batches: ClassVar[list[list[str]]] = []
    refuses = ""
    started = 0

    def __init__(self, device: str, receive: Callable[[Any], None], workers: int = 1) -> None:
        self.receive, self.dead = receive, False
        type(self).started += 1

    def send(self, message: tuple[Any, ...]) -> None:
        if self.dead:
            return
        kind, *rest = message
        if kind == "load":
            self.receive(("refused", rest[0], self.refuses) if self.refuses else ("loaded", rest[0], {}))
        elif kind == "batch":
            number, *_, items = rest
            type(self).batches.append(items)
            if "die" in items:
                self.dead = True
                self.receive(None)
            elif "bad" in items:
                self.receive(("error", number, Problem("it is bad", True)))
            elif "wait" not in items:
                self.receive(("result", number, [item.upper() for item in items]))
        elif kind == "stream":
            number, *_, item = rest
            for word in item["text"].split():
                self.receive(("event", number, {"text": word}))
            if "forever" not in item["text"]:
                self.receive(("end", number))
        elif kind == "cancel":
            type(self).batches.append(["cancelled"])

    def join(self, seconds: float) -> bool:
        return True

    def kill(self) -> None:
        pass


def run(monkeypatch: pytest.MonkeyPatch, call: Callable[[Engine], Awaitable[Any]], **settings: Any) -> Any:
    """Run `call` with a started engine."""
    FakeWorker.batches, FakeWorker.started = [], 0
    monkeypatch.setattr(module, "ThreadWorker", FakeWorker)

    async def main() -> Any:
        engine = Engine({"m": Path("m")}, ServerSettings(workers=0, **settings))
        await engine.start()
        try:
            return await call(engine)
        finally:
            await engine.stop(0.2)

    return asyncio.run(main())


def work(*items: str, client: str = "c") -> Work:
    return Work("m", "upper", {}, list(items), client, [1] * len(items))


async def outcome(engine: Engine, one: Work, seconds: float | None = None) -> Any:
    try:
        return await engine.submit(one, seconds)
    except ApiError as error:
        return error


def test_requests_are_put_together_while_the_worker_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        return await asyncio.gather(*(engine.submit(work(f"t{n}", client=str(n))) for n in range(5)))

    assert run(monkeypatch, call) == [[f"T{n}"] for n in range(5)]
    assert FakeWorker.batches == [["t0"], ["t1", "t2", "t3", "t4"]]


def test_a_worker_gets_its_next_batch_shortly_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        tasks = [asyncio.ensure_future(outcome(engine, work("wait", client=str(number)))) for number in range(3)]
        await asyncio.sleep(0)
        before = list(FakeWorker.batches)
        await asyncio.sleep(0.1)  # a batch of one token is expected to take 5 ms
        for task in tasks:
            task.cancel()
        return before, FakeWorker.batches

    before, after = run(monkeypatch, call)
    assert before == [["wait"]] and after == [["wait"], ["wait", "wait"]]


def test_a_bad_request_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        return await asyncio.gather(*(outcome(engine, work(text)) for text in ("first", "good", "bad", "fine")))

    found = run(monkeypatch, call)
    assert found[:2] == [["FIRST"], ["GOOD"]] and found[3] == ["FINE"]
    assert (found[2].status, found[2].message) == (400, "it is bad")


def test_a_worker_that_dies_is_replaced_and_only_the_cause_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        return await asyncio.gather(*(outcome(engine, work(text)) for text in ("first", "good", "die", "fine")))

    found = run(monkeypatch, call)
    assert found[:2] == [["FIRST"], ["GOOD"]] and found[3] == ["FINE"]
    assert isinstance(found[2], WorkerFailed) and found[2].status == 500
    assert FakeWorker.started == 3  # it died over the batch, and over the cause alone


def test_what_was_accepted_is_finished_before_the_engine_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        waiting = [asyncio.ensure_future(engine.submit(work(f"t{n}"))) for n in range(3)]
        await asyncio.sleep(0)
        await engine.stop(5)
        with pytest.raises(ApiError) as refused:
            await engine.submit(work("late"))
        return await asyncio.gather(*waiting), refused.value.status

    assert run(monkeypatch, call) == ([["T0"], ["T1"], ["T2"]], 503)


def test_a_request_past_its_deadline_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        stuck = [asyncio.ensure_future(outcome(engine, work("wait", client=one))) for one in "ab"]
        await asyncio.sleep(0.05)  # the worker has the first, and the second before that is done
        late = await outcome(engine, work("late"), 0.1)
        for one in stuck:
            one.cancel()
        return late

    found = run(monkeypatch, call)
    assert isinstance(found, DeadlinePassed) and found.status == 504


def test_a_full_queue_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        stuck = [asyncio.ensure_future(outcome(engine, work("wait"))) for _ in range(2)]
        more = asyncio.ensure_future(outcome(engine, work(*["t"] * 4)))
        await asyncio.sleep(0)
        found = await outcome(engine, work(*["t"] * 4))
        for one in (*stuck, more):
            one.cancel()
        return found, engine.metrics.text()

    found, metrics = run(monkeypatch, call, queue_tokens=6)
    assert isinstance(found, QueueFull) and "harken_rejected_total 1.0" in metrics


def test_a_stream_gives_its_events_and_is_cancelled_where_the_reader_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        whole = [event["text"] async for event in engine.stream("m", "upper", {}, {"text": "a b c"})]
        events = engine.stream("m", "upper", {}, {"text": "go on forever"})
        first = await anext(events)
        await events.aclose()
        return whole, first

    assert run(monkeypatch, call) == (["a", "b", "c"], {"text": "go"})
    assert FakeWorker.batches == [["cancelled"]]


def test_a_model_that_cannot_be_loaded_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorker, "refuses", "the folder is damaged")

    async def call(engine: Engine) -> None: ...

    with pytest.raises(UserError, match="the folder is damaged"):
        run(monkeypatch, call)
