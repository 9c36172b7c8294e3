"""`harken serve` as real processes on the loopback address: workers that are killed, stopped or hang, and signals.

Nothing that was accepted is lost, no answer is 500, deadlines hold, and `/health` and `/ready` tell the truth.
A plugin makes the workers slow: "sleep N" in a text takes N seconds, and "hang" holds the interpreter's lock for ever.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import harken

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found by /proc")
# Until something is given up here. A worker loads in two seconds of processor time, and a stopped one is replaced after
# ten seconds; a process of low priority on a machine that is loaded tenfold may wait minutes for these two seconds.
SECONDS = 300.0
PLUGIN = """
import ctypes, re, time
from harken.serving import operations

run_batch = operations.run_batch

def slow_batch(predictor, operation, items, options, *others):
    for text in (item.get("text", "") for item in items):
        if match := re.match(r"sleep ([0-9.]+)", text):
            time.sleep(float(match[1]))
        if text == "hang":
            ctypes.PyDLL(None).sleep(10_000)
    return run_batch(predictor, operation, items, options, *others)

operations.run_batch = slow_batch
"""


class Server:
    """`harken serve` in a process group of its own."""

    def __init__(self, folder: Path, plugin: Path, *options: str) -> None:
        self.folder = folder
        command = [sys.executable, "-c", "from harken.cli import main; main()", "--plugin", str(plugin)]
        command += ["serve", str(folder), "--port", "0", "--device", "cpu", *options]
        source = str(Path(harken.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.messages: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        wait_for(lambda: self.process.poll() is not None or any(" http://" in line for line in self.messages))
        address = re.search(r"Ready on (\S+)", "".join(self.messages))
        assert address, self.messages
        self.client = httpx.Client(base_url=address[1], timeout=2 * SECONDS)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.messages.append(line)

    def workers(self) -> list[int]:
        """The worker processes."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        commands = {int(child): Path(f"/proc/{child}/cmdline") for child in children}
        return [child for child, path in commands.items() if path.exists() and b"spawn_main" in path.read_bytes()]

    def translate(self, text: str | list[str], **body: Any) -> Any:
        """The answer to a translation."""
        return self.client.post("/v1/translate", json={"text": text, **body})

    def figure(self, name: str) -> float:
        """The sum of a figure of `/metrics` over its labels."""
        lines = [line for line in self.client.get("/metrics").text.splitlines() if line.startswith(name)]
        return sum(float(line.split()[-1]) for line in lines)

    def is_ready(self) -> bool:
        """Whether `/ready` says so; `/health` always does."""
        assert self.client.get("/health").status_code == 200
        return bool(self.client.get("/ready").status_code == 200)

    def end(self) -> None:
        """Kill what is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@contextlib.contextmanager
def load_on(server: Server, clients: int = 6) -> Iterator[Counter[int]]:
    """Clients that send one request after the other, and again what was refused as the server was busy."""
    statuses, is_over = Counter[int](), threading.Event()

    def send(client: int) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            answer = server.translate([f"the cat {client} {number}"] * 4)
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1
                time.sleep(0.2)
            else:
                statuses[answer.status_code] += 1

    threads = [threading.Thread(target=send, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: statuses.total() > clients)
        yield statuses
        before = statuses.total()
        wait_for(lambda: statuses.total() > before + clients)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(SECONDS)


@pytest.fixture(scope="module")
def start(
    tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Server]]:
    """Starts servers of a copy of a tiny model."""
    folder, servers = tmp_path_factory.mktemp("serving"), list[Server]()
    (folder / "slow_worker.py").write_text(PLUGIN)

    def begin(*options: str) -> Server:
        model = folder / str(len(servers))
        shutil.copytree(tiny_model("phrasebook-transformer"), model)
        servers.append(Server(model, folder / "slow_worker.py", *options))
        return servers[-1]

    yield begin
    for server in servers:
        server.end()


@pytest.fixture(scope="module")
def server(start: Callable[..., Server]) -> Server:
    """A server with two workers and all the time that a loaded machine needs."""
    return start("--workers", "2", "--timeout", str(SECONDS))


def test_a_request_past_its_deadline_is_answered_and_its_work_ended(server: Server) -> None:
    wait_for(lambda: len(server.workers()) == 2 and server.is_ready())
    before, restarts = set(server.workers()), server.figure("harken_worker_restarts_total")
    heavy = {"text": "a", "min_length": 1000, "max_length_extra": 1000, "beam": 64, "timeout": 1}
    started = time.monotonic()
    assert server.client.post("/v1/beam", json=heavy).status_code == 504  # its search has steps, and ends itself
    assert server.translate("the cat", timeout=SECONDS).status_code == 200
    assert set(server.workers()) == before
    assert server.translate("sleep 200", timeout=1).status_code == 504  # this one cannot be asked, and is killed
    assert time.monotonic() - started < 100
    wait_for(lambda: server.figure("harken_worker_restarts_total") == restarts + 1)
    assert server.translate("the cat").status_code == 200
    too_much = {"text": ["a"] * 500, "min_length": 1000, "beam": 64}
    refused = server.client.post("/v1/translate", json=too_much)
    assert refused.status_code == 413 and "the limit is 65,536" in refused.json()["error"]
    assert "retry-after" not in refused.headers


@pytest.mark.slow
def test_a_client_that_leaves_cancels_its_work(server: Server) -> None:
    wait_for(server.is_ready)
    restarts = server.figure("harken_worker_restarts_total")
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.client.base_url}/v1/translate", json={"text": "sleep 201"}, timeout=1)
    wait_for(lambda: server.figure("harken_worker_restarts_total") == restarts + 1)


@pytest.mark.slow
def test_no_request_is_lost_where_workers_are_killed_or_stopped(server: Server) -> None:
    wait_for(lambda: len(server.workers()) == 2 and server.is_ready())
    restarts = server.figure("harken_worker_restarts_total")
    with load_on(server) as statuses:
        os.kill(server.workers()[0], signal.SIGKILL)
        wait_for(lambda: server.figure("harken_worker_restarts_total") == restarts + 1)
        wait_for(lambda: len(server.workers()) == 2 and server.is_ready())
        for worker in server.workers():
            os.kill(worker, signal.SIGSTOP)
        wait_for(lambda: not server.is_ready())
        wait_for(lambda: server.figure("harken_worker_restarts_total") >= restarts + 3)
        wait_for(server.is_ready)
    assert set(statuses) == {200}


@pytest.mark.slow
def test_no_request_is_lost_where_a_model_is_swapped(server: Server) -> None:
    wait_for(server.is_ready)
    reloads = server.figure("harken_reloads_total")
    with load_on(server) as statuses:
        for name in ("model.safetensors", "recipe.toml"):
            shutil.copy(server.folder / name, server.folder / f".{name}")
            os.replace(server.folder / f".{name}", server.folder / name)
        wait_for(lambda: server.figure("harken_reloads_total") >= reloads + 2)
    assert set(statuses) == {200}


@pytest.mark.slow
def test_what_holds_the_lock_of_the_interpreter_is_killed_and_others_are_answered(server: Server) -> None:
    wait_for(lambda: len(server.workers()) == 2 and server.is_ready())
    restarts = server.figure("harken_worker_restarts_total")
    with load_on(server) as statuses:
        hanging = server.translate("hang")
    assert hanging.status_code == 503 and "retry-after" in hanging.headers  # it was tried twice
    assert server.figure("harken_worker_restarts_total") == restarts + 2 and set(statuses) == {200}


def test_figures_of_workers_are_told(server: Server) -> None:
    names = ("harken_worker_resident_bytes", "harken_worker_cpu_seconds_total")
    expected = {f'{name}{{worker="{worker}"}}' for name in names for worker in "01"}

    def told() -> set[str]:
        """The figures of workers that are above 0; a process that has just begun has used no time."""
        lines = (line.split() for line in server.client.get("/metrics").text.splitlines())
        return {key for key, *value in lines if key.startswith(names) and float(value[-1]) > 0}

    wait_for(lambda: server.is_ready() and told() == expected)
    text = server.client.get("/metrics").text
    assert server.figure("harken_resident_bytes") > server.figure("harken_worker_resident_bytes") > 10e6
    helped = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    typed = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert helped == typed and all(len(line.split()) > 3 for line in text.splitlines() if line.startswith("# HELP"))


def test_a_signal_to_all_processes_finishes_what_was_accepted(start: Callable[..., Server]) -> None:
    server = start("--timeout", str(SECONDS))
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(server.translate("sleep 1.5").status_code)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    wait_for(lambda: server.figure("harken_queue_tokens") > 0 or server.figure("harken_batches_total") > 0)
    time.sleep(0.5)  # the others were sent as well
    os.killpg(server.process.pid, signal.SIGTERM)
    for thread in threads:
        thread.join(SECONDS)
    assert answers == [200] * 4, server.messages
    server.process.wait(SECONDS)
    assert not any(re.search("Traceback|died", line) for line in server.messages), server.messages
