"""The engine: deadlines, workers that die, hang or load, bad requests among good ones, streams, stopping.

Workers are fakes that need no model; `tests/robustness/test_serving_engine.py` has real processes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harken.errors import UserError
from harken.serving.engine import batching, slots
from harken.serving.engine import supervision as module
from harken.serving.engine.batching import Work
from harken.serving.engine.engine import Engine
from harken.serving.engine.worker import Problem
from harken.serving.errors import ApiError, DeadlinePassed, QueueFull, WorkerFailed
from harken.serving.settings import ServerSettings


class FakeWorker:
    """Upper-cases texts; "die" kills it, "bad" is the user's error, "wait" is answered when it is cancelled, "stuck"
    not even then, "hang" stops the signs of life of the first worker and "stopped" those of the first three. The first
    `late` workers load nothing until they are told to."""

    pid = None
    batches: ClassVar[list[list[str]]] = []
    workers: ClassVar[list["FakeWorker"]] = []
    refuses = ""
    late = 0

    def __init__(self, device: str, receive: Callable[[Any], None], workers: int = 1) -> None:
        self.receive, self.dead, self.silent_seconds, self.unread = receive, False, 0.0, list[Any]()
        self.is_stuck, self.held, self.is_late = False, False, len(self.workers) < self.late
        self.workers.append(self)

    def load(self) -> None:
        self.is_late = False
        for message in self.unread:
            self.send(message)

    def send(self, message: tuple[Any, ...]) -> None:
        if self.dead:
            return
        if self.is_late:
            self.unread.append(message)
            return
        kind, *rest = message
        if kind == "load":
            self.receive(("refused", rest[0], self.refuses) if self.refuses else ("loaded", rest[0], {}))
        elif kind == "batch":
            number, *_, items = rest
            type(self).batches.append(items)
            self.is_stuck = self.is_stuck or "stuck" in items
            if self.is_stuck:
                return
            if "die" in items:
                self.kill()
            elif "bad" in items:
                self.receive(("error", number, Problem("it is bad", True)))
            elif "hang" in items and len(self.workers) == 1:
                self.silent_seconds = 1000.0
            elif "stopped" in items and len(self.workers) <= 3:
                self.silent_seconds, self.held = 1000.0, True
            elif "wait" not in items:
                self.receive(("result", number, [item.upper() for item in items]))
        elif kind == "stream":
            number, *_, item = rest
            if "die" in item["text"] and len(self.workers) == 1:
                self.kill()
                return
            for word in item["text"].split():
                self.receive(("event", number, {"text": word}))
            if "then dies" in item["text"]:
                self.kill()
            elif "forever" not in item["text"]:
                self.receive(("end", number))
        elif kind == "cancel":
            self.batches.append(["cancelled"])
            if not self.is_stuck:
                self.receive(("end", rest[0]))

    def is_stopped(self) -> bool:
        return self.held

    def join(self, seconds: float) -> bool:
        return True

    def kill(self) -> None:
        self.dead = True
        self.receive(None)


def run(monkeypatch: pytest.MonkeyPatch, call: Callable[[Engine], Awaitable[Any]], **settings: Any) -> Any:
    """Run `call` with a started engine."""
    FakeWorker.batches, FakeWorker.workers = [], []
    monkeypatch.setattr(module, "ThreadWorker", FakeWorker)
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "TICK_SECONDS", 0.05)

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


def streamed(text: str) -> Work:
    return Work("m", "upper", {}, [{"text": text}], "c", [1])


async def outcome(engine: Engine, one: Work, seconds: float | None = None) -> Any:
    try:
        return await engine.submit(one, seconds)
    except ApiError as error:
        return error


def test_requests_are_put_together_while_the_worker_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "FIRST_RATE", 1.0)  # a batch of one token is expected to take a second

    async def call(engine: Engine) -> Any:
        return await asyncio.gather(*(engine.submit(work(f"t{n}", client=str(n))) for n in range(5)))

    assert run(monkeypatch, call) == [[f"T{n}"] for n in range(5)]
    assert FakeWorker.batches == [["t0"], ["t1", "t2", "t3", "t4"]]


def test_a_worker_gets_its_next_batch_shortly_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "FIRST_RATE", 4.0)  # a batch of one token is expected to take 0.25 s

    async def call(engine: Engine) -> Any:
        tasks = [asyncio.ensure_future(outcome(engine, work("wait", client=str(number)))) for number in range(3)]
        await asyncio.sleep(0)
        before = list(FakeWorker.batches)
        while len(FakeWorker.batches) < 2:
            await asyncio.sleep(0.01)
        after = list(FakeWorker.batches)
        for task in tasks:
            task.cancel()
        return before, after

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
    assert isinstance(found[2], WorkerFailed) and found[2].status == 503
    assert len(FakeWorker.workers) == 3  # it died over the batch, and over the cause alone


def test_what_was_accepted_is_finished_before_the_engine_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        waiting = [asyncio.ensure_future(engine.submit(work(f"t{n}"))) for n in range(3)]
        await asyncio.sleep(0)
        await engine.stop(5)
        with pytest.raises(ApiError) as refused:
            await engine.submit(work("late"))
        return await asyncio.gather(*waiting), refused.value.status

    assert run(monkeypatch, call) == ([["T0"], ["T1"], ["T2"]], 503)


def test_a_request_past_its_deadline_fails_at_once_whether_it_waits_or_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        works = [engine.submit(work("wait", client=client), seconds) for client, seconds in (("a", 0.2), ("b", 0.3))]
        tasks = [asyncio.ensure_future(works.pop(0)) for _ in "ab"]
        await asyncio.sleep(0.05)  # the worker has the first, and the second before that is done
        tasks.append(asyncio.ensure_future(engine.submit(work("late", "late"), 0.1)))
        started = time.monotonic()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        seconds = time.monotonic() - started
        waiting, running = engine.batcher.waiting, engine.batcher.running
        return outcomes, seconds, waiting, running, await engine.submit(work("next"))

    outcomes, seconds, waiting, running, following = run(monkeypatch, call)
    assert [type(error) for error in outcomes] == [DeadlinePassed] * 3 and seconds < 5
    assert waiting == running == 0 and following == ["NEXT"]
    assert FakeWorker.batches.count(["cancelled"]) == 2 and ["late", "late"] not in FakeWorker.batches
    assert len(FakeWorker.workers) == 1


def test_a_batch_is_cancelled_when_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "FIRST_RATE", 1.0)

    async def call(engine: Engine) -> Any:
        first, *others = [asyncio.ensure_future(outcome(engine, work("wait", client=client))) for client in "abc"]
        await asyncio.sleep(0)
        first.cancel()
        while len(FakeWorker.batches) < 3:  # the first, its end, and the others together
            await asyncio.sleep(0.01)
        others[0].cancel()  # its client leaves
        await asyncio.sleep(0.05)
        before = list(FakeWorker.batches)
        others[1].cancel()
        await asyncio.sleep(0.05)
        return before, FakeWorker.batches[len(before) :], engine.batcher.running

    before, after, running = run(monkeypatch, call)
    assert before == [["wait"], ["cancelled"], ["wait", "wait"]] and after == [["cancelled"]] and running == 0


def test_a_worker_that_goes_on_with_what_was_cancelled_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "CANCEL_SECONDS", 0.1)

    async def call(engine: Engine) -> Any:
        stuck = await outcome(engine, work("stuck"), 0.1)
        return stuck, await engine.submit(work("next")), [slot.deaths for slot in engine.supervisor.slots]

    stuck, following, deaths = run(monkeypatch, call)
    assert isinstance(stuck, DeadlinePassed) and following == ["NEXT"]
    assert len(FakeWorker.workers) == 2 and deaths == [0]


def test_a_worker_that_hangs_is_replaced_and_its_requests_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        hanging = asyncio.ensure_future(engine.submit(work("hang")))
        waiting = asyncio.ensure_future(engine.submit(work("more")))
        await asyncio.sleep(0)
        states = [(engine.is_live, engine.is_ready)]
        results = await asyncio.gather(hanging, waiting)
        return [*states, (engine.is_live, engine.is_ready)], results

    states, results = run(monkeypatch, call)
    assert results == [["HANG"], ["MORE"]] and len(FakeWorker.workers) == 2
    assert states == [(True, False), (True, True)]


def test_a_request_is_not_blamed_for_workers_that_were_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        return await engine.submit(work("stopped"))

    assert run(monkeypatch, call) == ["STOPPED"] and len(FakeWorker.workers) == 4


def test_a_worker_that_is_stopped_while_it_loads_is_replaced_as_soon_as_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def call(engine: Engine) -> Any:
        monkeypatch.setattr(FakeWorker, "late", 2)
        FakeWorker.workers[0].kill()
        while len(FakeWorker.workers) < 2:
            await asyncio.sleep(0.01)
        loading = FakeWorker.workers[1]
        loading.silent_seconds = 15.0  # past the heartbeat, within what a worker has to load
        await asyncio.sleep(0.2)
        assert not loading.dead
        loading.held = True
        return await engine.submit(work("t"), 5.0)

    assert run(monkeypatch, call) == ["T"] and len(FakeWorker.workers) == 3


def test_work_and_streams_wait_for_a_worker_that_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorker, "late", 2)

    async def main() -> Any:
        engine = Engine({"m": Path("m")}, ServerSettings(workers=0))
        starting = asyncio.ensure_future(engine.start())
        await asyncio.sleep(0.05)

        async def read() -> Any:
            return [event["text"] async for event in engine.stream(streamed("a b"))]

        states = [(engine.is_live, engine.is_ready, starting.done())]
        FakeWorker.workers[0].load()
        await starting
        states.append((engine.is_live, engine.is_ready, starting.done()))
        FakeWorker.workers[0].kill()
        while len(FakeWorker.workers) < 2:
            await asyncio.sleep(0.01)
        tasks = [asyncio.ensure_future(read()), asyncio.ensure_future(engine.submit(work("t")))]
        await asyncio.sleep(0.05)
        states.append((engine.is_live, engine.is_ready, any(task.done() for task in tasks)))
        FakeWorker.workers[1].load()
        results = await asyncio.gather(*tasks)
        await engine.stop(0.2)
        return [*states, (engine.is_ready,)], results

    FakeWorker.batches, FakeWorker.workers = [], []
    monkeypatch.setattr(module, "ThreadWorker", FakeWorker)
    states, results = asyncio.run(main())
    assert states == [(True, False, False), (True, True, True), (True, False, False), (False,)]
    assert results == [["a", "b"], ["T"]]


def test_a_stream_whose_worker_dies_is_sent_again_before_its_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        whole = [event["text"] async for event in engine.stream(streamed("die a b"))]
        read = []
        with pytest.raises(WorkerFailed) as failed:
            async for event in engine.stream(streamed("a then dies")):
                read.append(event["text"])
        return whole, read, failed.value.status

    assert run(monkeypatch, call) == (["die", "a", "b"], ["a", "then", "dies"], 503)


def test_a_stream_past_its_deadline_ends_and_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(engine: Engine) -> Any:
        read = []
        with pytest.raises(DeadlinePassed):
            async for event in engine.stream(streamed("forever"), 0.1):
                read.append(event["text"])
        return read, [slot.is_busy for slot in engine.supervisor.slots]

    assert run(monkeypatch, call) == (["forever"], [False])
    assert FakeWorker.batches == [["cancelled"]]


def test_after_many_deaths_requests_are_refused_until_a_worker_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DEATHS", 2)

    async def call(engine: Engine) -> Any:
        async def fail(text: str) -> ApiError:
            with pytest.raises(ApiError) as failed:
                await engine.submit(work(text))
            return failed.value

        errors = [await fail("die"), await fail("die")]
        while FakeWorker.workers[-1].dead:  # until there is another one to kill
            await asyncio.sleep(0.01)
        monkeypatch.setattr(FakeWorker, "late", 1000)  # no other worker loads its models
        FakeWorker.workers[-1].kill()
        while not engine.problem:
            await asyncio.sleep(0.01)
        errors.append(await fail("t"))
        state = (engine.is_live, engine.is_ready)
        while FakeWorker.workers[-1].dead:
            await asyncio.sleep(0.01)
        FakeWorker.workers[-1].load()
        while engine.problem:
            await asyncio.sleep(0.01)
        return errors, state, await engine.submit(work("again"))

    errors, state, result = run(monkeypatch, call)
    assert [error.status for error in errors] == [503] * 3 and state == (True, False) and result == ["AGAIN"]
    assert all("Retry-After" in error.headers for error in errors) and "times in a row" in errors[2].message


def test_what_was_accepted_is_finished_though_a_worker_dies_while_the_engine_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def call(engine: Engine) -> Any:
        waiting = [asyncio.ensure_future(outcome(engine, work(text))) for text in ("die", "good")]
        await asyncio.sleep(0)
        await engine.stop(5)
        return await asyncio.gather(*waiting)

    failed, good = run(monkeypatch, call)
    assert isinstance(failed, WorkerFailed) and good == ["GOOD"]


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
        whole = [event["text"] async for event in engine.stream(streamed("a b c"))]
        events = engine.stream(streamed("go on forever"))
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
