"""What of the Ray engines needs no Ray: missing extra, shards and their bookkeeping, retries of the server's engine."""

import asyncio
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harken.cli.app import app as cli
from harken.cli.jobs.translate import Notes
from harken.cli.jobs.translate_ray import write_round
from harken.errors import UserError
from harken.serving.engine.batching import Work
from harken.serving.errors import ApiError, DeadlinePassed, QueueFull, WorkerFailed
from harken.serving.metrics import Metrics
from harken.serving.ray import engine as engine_module
from harken.serving.ray.deployment import absolute
from harken.serving.ray.engine import RayEngine
from harken.serving.ray.shards import Shard, TranslatedShard, cut_rounds
from harken.serving.settings import ServerSettings
from harken.tasks.translate.files.lines import LARGEST, SMALLEST
from harken.tasks.translate.files.output_file import OutputFile

LINES = [f"line {number}" for number in range(100)]
RECORD = {"harken": "0", "model": "m", "options": {}, "input": {}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["translate", "m", "in.txt", "--out", "o", "--engine", "ray"], 'pip install "harken[ray]"'),
        (["serve", "m", "--engine", "ray"], 'pip install "harken[ray]"'),
        (["translate", "m", "in.txt", "--engine", "ray"], "name it with --out or --resume"),
        (["serve", "m", "--max-workers", "3"], "--max-workers is for --engine ray"),
    ],
)
def test_what_is_missing_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_shards_are_whole_windows_of_one_machine() -> None:
    lines = [str(number) for number in range(3 * LARGEST)]
    (shards,) = cut_rounds(lines, None, per_round=100)
    windows = [window for shard in shards for window in shard.windows]
    sizes = [len(window) for window in windows]
    assert sizes[:3] == [SMALLEST, 2 * SMALLEST, 4 * SMALLEST] and max(sizes) == LARGEST
    assert [line for window in windows for line in window] == lines
    assert [shard.first for shard in shards[1:]] == [shard.end for shard in shards[:-1]]
    assert all(shard.end - shard.first >= 1024 for shard in shards[:-1])


def test_rounds_leave_out_what_is_done_and_raise_after_what_was_read() -> None:
    def lines() -> Iterator[str]:
        yield from LINES
        raise UserError("line 101 is not UTF-8")

    rounds = cut_rounds(lines(), 10, per_round=2, skip=35, shard_lines=20)
    found = [[(shard.first, shard.end) for shard in next(rounds)] for _ in range(2)]
    assert found == [[(20, 40), (40, 60)], [(60, 80), (80, 100)]]
    with pytest.raises(UserError, match="line 101"):
        next(rounds)


class Cluster:
    """Translates shards into capitals in a random order, and fails after some."""

    def __init__(self, seed: int, fails_after: int | None = None) -> None:
        self.random, self.fails_after, self.translated = random.Random(seed), fails_after, list[int]()

    def __call__(self, shards: Sequence[Shard]) -> Iterable[TranslatedShard]:
        for shard in self.random.sample(list(shards), len(shards)):
            if len(self.translated) == self.fails_after:
                raise KeyboardInterrupt
            self.translated.append(shard.first)
            yield TranslatedShard(shard.first, [f"{line.upper()}\n" for line in shard.lines], unknown=[])


def translate(out: Path, cluster: Cluster, resume: bool) -> None:
    output = OutputFile(out, RECORD, resume, grouped=False)
    with output:
        for shards in cut_rounds(LINES, 5, per_round=10, skip=output.done, shard_lines=5):
            write_round(shards, cluster, output, Notes(), lambda *_: None)


@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_ends_early_is_continued_with_what_is_missing(tmp_path: Path, seed: int) -> None:
    out = tmp_path / "out"
    first, second = Cluster(seed, fails_after=7), Cluster(seed)
    with pytest.raises(KeyboardInterrupt):
        translate(out, first, resume=False)
    written, kept = out.read_text().count("\n"), list((tmp_path / ".out.parts").glob("*.json"))
    assert written + 5 * len(kept) == 35  # every shard that was translated is on disk, once
    if kept:
        kept[0].write_text("{")  # a damaged one is translated again
    with open(out, "a") as file:
        file.write("LINE 3")  # what a kill leaves of a line
    with pytest.raises(UserError, match="unfinished output"):
        translate(out, second, resume=False)
    translate(out, second, resume=True)
    assert out.read_text() == "".join(f"{line.upper()}\n" for line in LINES)
    assert len(second.translated) == 20 - 7 + bool(kept)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.resume.json", "out"]
    assert json.loads((tmp_path / ".out.resume.json").read_text())["complete"]


class Gone(Exception):
    """A replica died."""


class FakeHandle:
    """A deployment whose calls end as told: an answer, an exception, or never."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes, self.calls, self.cancelled = list(outcomes), list[Any](), 0
        self.submit = self.stream = self.state = self

    def options(self, stream: bool) -> "FakeHandle":
        return self

    def remote(self, *call: Any) -> "FakeHandle":
        self.calls.append(call)
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def __await__(self) -> Any:
        async def answer() -> Any:
            outcome = self.outcomes.pop(0) if self.outcomes else await asyncio.sleep(60)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return answer().__await__()

    async def __aiter__(self) -> Any:
        while self.outcomes:
            yield await self


def ask(monkeypatch: pytest.MonkeyPatch, handle: FakeHandle, call: Callable[[RayEngine], Any]) -> Any:
    monkeypatch.setattr(engine_module, "PAUSE", 0.0)

    async def main() -> Any:
        engine = RayEngine(handle, {}, ServerSettings(), Metrics(), (Gone,))
        try:
            return await call(engine)
        except ApiError as error:
            return error
        finally:
            assert engine.batcher.waiting == 0

    return asyncio.run(main())


def work() -> Work:
    return Work("m", "translate", {}, ["a"], "alice", [3])


def test_a_request_whose_replica_dies_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = FakeHandle(Gone(), Gone(), ("results", ["A"]))
    assert ask(monkeypatch, handle, lambda engine: engine.submit(work())) == ["A"]
    assert [call[0]["items"] for call in handle.calls] == [["a"]] * 3
    always = FakeHandle(*[Gone()] * 9)
    assert isinstance(ask(monkeypatch, always, lambda engine: engine.submit(work())), WorkerFailed)
    assert len(always.calls) == engine_module.MAX_ATTEMPTS


def test_errors_of_replicas_are_those_of_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    full = ask(monkeypatch, FakeHandle(("error", (429, "busy", 3))), lambda engine: engine.submit(work()))
    assert isinstance(full, QueueFull) and full.headers == {"Retry-After": "3"}
    bad = ask(monkeypatch, FakeHandle(("error", (400, "it is bad", None))), lambda engine: engine.submit(work()))
    assert (bad.status, bad.message) == (400, "it is bad")
    never = FakeHandle()
    late = ask(monkeypatch, never, lambda engine: engine.submit(work(), 0.05))
    assert isinstance(late, DeadlinePassed) and never.cancelled == 1


def test_a_stream_of_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(engine: RayEngine) -> Any:
        return [event async for event in engine.stream(work())]

    assert ask(monkeypatch, FakeHandle(("event", 1), ("event", 2)), read) == [1, 2]
    assert isinstance(ask(monkeypatch, FakeHandle(("event", 1), Gone()), read), WorkerFailed)
    assert ask(monkeypatch, FakeHandle(Gone(), ("event", 1)), read) == [1]  # nothing was read of the first
    assert isinstance(ask(monkeypatch, FakeHandle(Gone(), Gone(), ("event", 1)), read), WorkerFailed)


def test_folders_travel_as_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("runs/demo@en-fr") == f"{tmp_path}/runs/demo@en-fr"
    (tmp_path / "a@b").mkdir()
    assert absolute("a@b") == f"{tmp_path}/a@b"
