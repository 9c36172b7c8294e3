"""The worker's loop: streams between batches, hooks, errors; with models that are plain objects."""

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harken.errors import UserError
from harken.serving import operations
from harken.serving.engine.worker import Problem, ProcessWorker, WorkerLoop


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> WorkerLoop:
    """A loop whose operations tell what they do; its messages are in `loop.sent`."""

    def run_batch(
        model: Any, operation: str, items: list[Any], options: dict[str, Any], cancelled: Callable[[], bool]
    ) -> list[Any]:
        found.sent.append(("ran", operation))
        while operation == "search" and not cancelled():  # a search in steps
            time.sleep(0.001)
        if operation == "fail":
            raise UserError("no such thing") if options.get("user") else ValueError(items[0])
        return [UserError("bad") if item == "bad" else item for item in items]

    def run_stream(model: Any, operation: str, item: Any, options: dict[str, Any], cancelled: Any) -> Iterator[Any]:
        for word in item["text"].split():
            yield {"text": word}

    monkeypatch.setattr(operations, "run_batch", run_batch)
    monkeypatch.setattr(operations, "run_stream", run_stream)
    sent: list[Any] = []
    found: Any = WorkerLoop(sent.append, "cpu")
    found.sent, found.models = sent, {"m": SimpleNamespace(recipe=SimpleNamespace(task="translate"))}
    return found


def run(loop: Any, *messages: tuple[Any, ...]) -> list[Any]:
    for message in (*messages, ("stop",)):
        loop.put(message)
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return loop.sent


def test_streams_go_on_between_batches(loop: WorkerLoop) -> None:
    stream = ("stream", 1, "m", "generate", {}, {"text": "a b c"})
    batch = ("batch", 2, "m", "upper", {}, ["x"])
    assert run(loop, stream, batch) == [
        ("event", 1, {"text": "a"}), ("ran", "upper"), ("result", 2, ["x"]), ("event", 1, {"text": "b"}),
        ("event", 1, {"text": "c"}), ("end", 1),
    ]  # fmt: skip


def test_an_operation_with_hooks_waits_for_streams_that_search_in_a_thread(loop: WorkerLoop) -> None:
    kinds = ((1, "translate"), (2, "generate"))
    streams = [("stream", number, "m", kind, {}, {"text": "a b c d"}) for number, kind in kinds]
    found = run(loop, *streams, ("batch", 3, "m", "attention", {}, ["x"]))
    assert found.index(("end", 1)) < found.index(("ran", "attention")) < found.index(("end", 2))


def test_a_cancelled_stream_ends(loop: WorkerLoop) -> None:
    found = run(loop, ("stream", 1, "m", "generate", {}, {"text": "a b c d"}), ("cancel", 1))
    assert found == [("event", 1, {"text": "a"}), ("end", 1)]


def test_a_cancelled_batch_ends_whether_it_runs_or_waits(loop: Any) -> None:
    def batch(number: int, operation: str) -> tuple[Any, ...]:
        return ("batch", number, "m", operation, {}, ["x"])

    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    for message in (batch(1, "search"), batch(2, "upper"), ("cancel", 2), batch(3, "upper"), ("cancel", 1), ("stop",)):
        loop.put(message)
    thread.join(10)
    assert not thread.is_alive()
    ended = [message for message in loop.sent if message not in (("ran", "search"), ("result", 1, ["x"]), ("end", 1))]
    assert ended == [
        ("end", 2),
        ("ran", "upper"),
        ("result", 3, ["x"]),
    ]  # the first had begun, or not
    assert not loop._cancelled


def test_a_search_in_steps_of_a_batch_asks_whether_it_was_cancelled(tiny_model: Callable[[str], Path]) -> None:
    from harken.api import load
    from harken.serving.operations import run_batch

    translator, steps = load(tiny_model("phrasebook-transformer"), "cpu"), list[int]()
    options = {"search": {"min_length": 300, "max_length_extra": 300, "beam": 4}}
    for limit in (3, 12):
        steps.clear()

        def cancelled(limit: int = limit) -> bool:
            steps.append(1)
            return len(steps) >= limit

        run_batch(translator, "beam", [{"text": "the cat"}], options, cancelled)
        assert len(steps) == limit


def test_errors_of_users_keep_their_sentence_and_others_tell_no_text(
    loop: WorkerLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(
        loop, ("batch", 1, "m", "fail", {"user": True}, []), ("batch", 2, "m", "fail", {}, ["a secret text"]),
        ("batch", 3, "m", "upper", {}, ["good", "bad"]),
    )  # fmt: skip
    problems = {message[1]: message[2] for message in found if message[0] == "error"}
    assert (problems[1].message, problems[1].is_user_error) == ("no such thing", True)
    assert (problems[2].message, problems[2].is_user_error) == ("internal error: ValueError", False)
    assert "secret" not in capsys.readouterr().err
    good, bad = found[-1][2]
    assert good == "good" and isinstance(bad, Problem) and bad.message == "bad" and bad.is_user_error


def test_a_stopped_process_blocks_nobody_falls_silent_and_can_be_killed() -> None:
    received: queue.Queue[Any] = queue.Queue()
    worker = ProcessWorker("cpu", received.put)
    assert worker.pid is not None
    try:
        while worker.silent_seconds > 0.4:  # until its first sign of life
            time.sleep(0.01)
        os.kill(worker.pid, signal.SIGTERM)
        worker.send(("load", "m", "no such folder"))
        assert received.get(timeout=120)[:2] == ("refused", "m")  # it has outlived the signal
        os.kill(worker.pid, signal.SIGSTOP)
        large = ("load", "x" * 1_000_000, "")
        sender = threading.Thread(target=lambda: [worker.send(large) for _ in range(8)], daemon=True)
        sender.start()
        sender.join(60)
        assert not sender.is_alive()
        before = worker.silent_seconds
        while worker.silent_seconds < before + 1:
            time.sleep(0.01)
    finally:
        worker.kill()
    assert received.get(timeout=60) is None and worker.join(60)
