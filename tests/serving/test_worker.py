"""The worker's loop: streams between batches, hooks, errors; with models that are plain objects."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harken.errors import UserError
from harken.serving import operations
from harken.serving.engine.worker import Problem, WorkerLoop


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> WorkerLoop:
    """A loop whose operations tell what they do; its messages are in `loop.sent`."""

    def run_batch(model: Any, operation: str, items: list[Any], options: dict[str, Any]) -> list[Any]:
        found.sent.append(("ran", operation))
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
    found.sent, found.models = sent, {"m": object()}
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
    assert found == [("event", 1, {"text": "a"})]


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
