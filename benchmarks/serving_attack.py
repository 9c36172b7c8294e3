"""Attacks on `harken serve`, bounded in number and time, from this machine to 127.0.0.1: what holds, and what does not.

Each attack is a function of the server that is attacked; it returns what was sent, what came back, and whether the
server held: what it accepted was answered before the deadline, and other clients were answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serving_client import Connection, bodies, children, cpu_seconds, overload, quantiles, resident, saturate, server

LOAD = 32  # connections of the load under which processes are killed
REFUSALS = {"200", "429"}  # what a client may be answered while nothing is broken
HEAD = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@dataclass
class Target:
    """A server under attack.

    Args:
        timeout: seconds that it gives a request.
        seconds: of each attack.
        connections: that are opened and left idle.
        count: requests of the attack on memory.
    """

    host: str
    port: int
    pid: int
    model: Path
    sentences: Sequence[str]
    timeout: float
    seconds: float
    connections: int
    count: int

    @property
    def requests(self) -> list[bytes]:
        """Bodies of four texts each."""
        return bodies(self.sentences, 4)

    def workers(self) -> list[int]:
        """The processes below the server that hold models."""
        return [pid for pid in children(self.pid) if pid != self.pid and resident([pid]) > 10**8]

    def settle(self, workers: int) -> None:
        """Wait until all workers have loaded the model and answer requests, for two minutes at most."""
        end = time.perf_counter() + 120
        while time.perf_counter() < end:
            asyncio.run(saturate(self.host, self.port, self.requests, 8, 1))
            before, pids = time.perf_counter(), self.workers()
            busy = cpu_seconds(pids)
            time.sleep(1)
            share = (cpu_seconds(pids) - busy) / (time.perf_counter() - before)
            if len(pids) == workers and share < 0.1:
                return


@dataclass
class Outcome:
    """The result of one attack."""

    sent: str
    answers: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    holds: bool = True
    remark: str = ""

    def row(self) -> list[str]:
        """Cells of the table."""
        answers = ", ".join(f"{count:,} x {name}" for name, count in sorted(self.answers.items()))
        p99 = f"{quantiles(self.times)['p99']:,.0f}" if self.times else ""
        return [
            self.sent,
            answers + (f"; {self.remark}" if self.remark else ""),
            p99,
            "yes" if self.holds else "**no**",
        ]


async def send(target: Target, connection: Connection, body: bytes, outcome: Outcome) -> str:
    """One request: its status, or `lost` where it was sent and not answered, `hung`, or `refused`."""
    started = time.perf_counter()
    try:
        async with asyncio.timeout(target.timeout + 15):
            status, _, _ = await connection.post("/v1/translate", body)
        answer = str(status)
        outcome.times += [time.perf_counter() - started] if status == 200 else []
    except TimeoutError:
        answer = "hung"
    except ConnectionRefusedError:
        answer = "refused"
    except (OSError, asyncio.IncompleteReadError):
        answer = "lost"
    if not answer.isdigit():
        connection.reader = None
    outcome.answers[answer] += 1
    return answer


async def load(target: Target, outcome: Outcome, act: Callable[[], object] | None = None, number: int = LOAD) -> None:
    """So many connections that send one request after the other; after a third of the time `act` is called."""
    requests, indices = target.requests, itertools.count()
    end = time.perf_counter() + target.seconds

    async def client() -> None:
        connection = Connection(target.host, target.port)
        while time.perf_counter() < end:
            answer = await send(target, connection, requests[next(indices) % len(requests)], outcome)
            if answer != "200":
                await asyncio.sleep(0.05)

    async def strike() -> None:
        await asyncio.sleep(target.seconds / 3)
        await asyncio.to_thread(act or (lambda: None))

    await asyncio.gather(strike(), *(client() for _ in range(number)))


async def probe(target: Target, outcome: Outcome, seconds: float | None = None) -> None:
    """A client as every day, while others attack."""
    connection, end = Connection(target.host, target.port), time.perf_counter() + (seconds or target.seconds)
    for body in itertools.cycle(target.requests):
        await send(target, connection, body, outcome)
        await asyncio.sleep(0.1)
        if time.perf_counter() > end:
            return


# ---- the attacks ----------------------------------------------------------------------------------------------------


def ten_times_the_load(target: Target) -> Outcome:
    """Ten times as many requests as the server answers."""
    requests = bodies(target.sentences, 16)  # of that size the queue is full before the server's limit of connections
    warm = asyncio.run(saturate(target.host, target.port, requests, LOAD, max(1, target.seconds / 6)))
    rate = 10 * warm["requests"] / warm["wall"]
    result = asyncio.run(overload(target.host, target.port, requests, rate, 900, target.seconds))
    capacity = f"the server answers {rate / 10:,.0f} a second"
    outcome = Outcome(f"{result['sent']:,} requests, {result['rate']:,.0f} a second ({capacity})")
    outcome.answers = Counter(result["statuses"])
    p99 = result["p99"] / 1000
    answered = sum(count for name, count in result["statuses"].items() if name in REFUSALS)
    outcome.times = [p99]
    outcome.holds = set(result["statuses"]) <= REFUSALS and answered == result["sent"] and p99 < target.timeout
    return outcome


def slow_clients(target: Target) -> Outcome:
    """Heads and bodies that come a byte at a time."""
    count, closed = min(200, target.connections), 0
    outcome = Outcome(f"{count} clients that send a byte a second")

    async def drip(number: int) -> None:
        nonlocal closed
        data = HEAD if number % 2 else HEAD + b"Content-Length: 100000\r\n\r\n" + b"a" * 100_000
        end = time.perf_counter() + target.seconds
        try:
            reader, writer = await asyncio.open_connection(target.host, target.port)
            for byte in data:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)
                if reader.at_eof() or time.perf_counter() > end:
                    break
            closed += reader.at_eof()
            writer.close()
        except OSError:
            closed += 1

    async def attack() -> None:
        await asyncio.gather(probe(target, outcome), *(drip(number) for number in range(count)))

    asyncio.run(attack())
    outcome.holds = set(outcome.answers) == {"200"}
    outcome.remark = f"{closed} of them were closed within {target.seconds:g} s"
    return outcome


def broken_clients(target: Target) -> Outcome:
    """What is no request, or half of one, or two at once; and clients that leave."""
    chance = random.Random(1)
    whole = HEAD + b'Content-Length: 19\r\n\r\n{"text": "the cat"}'
    pieces = [
        lambda: chance.randbytes(chance.randrange(1, 2000)),
        lambda: whole[: chance.randrange(1, len(whole))],
        lambda: HEAD + b"Content-Length: 19\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        lambda: whole.replace(b"\r\n", b"\n"),
        lambda: whole.replace(b"HTTP/1.1", b"HTTP/9.9"),
        lambda: HEAD + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        lambda: HEAD + b"Content-Length: -1\r\n\r\n",
        lambda: HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
        lambda: HEAD + b"Content-Length: 60000\r\n\r\n" + b"[" * 60_000,
        lambda: HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFFFF\r\n",
        lambda: whole * 20,
    ]
    count = min(2000, 20 * target.connections)
    outcome, errors = Outcome(f"{count:,} broken requests"), Counter[str]()

    async def strike(number: int) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection(target.host, target.port)
            writer.write(pieces[number % len(pieces)]())
            if number % 3:  # the others leave at once
                async with asyncio.timeout(0.5):
                    line = await reader.readline()
                errors[line[9:12].decode("latin-1") or "closed"] += 1
            writer.transport.abort()

    async def attack() -> None:
        probing = asyncio.create_task(probe(target, outcome, 5))
        for start in range(0, count, 50):
            await asyncio.gather(*(strike(number) for number in range(start, min(start + 50, count))))
        await probing

    asyncio.run(attack())
    outcome.holds = set(outcome.answers) == {"200"} and not any(name.startswith("5") for name in errors)
    outcome.remark = "the broken ones: " + ", ".join(f"{number:,} x {name}" for name, number in sorted(errors.items()))
    return outcome


def idle_connections(target: Target) -> Outcome:
    """Connections that send nothing."""
    return _held(target, target.connections, b"", "idle connections")


def half_sent_bodies(target: Target) -> Outcome:
    """Connections that send half of a body."""
    return _held(target, min(500, target.connections), HEAD + b"Content-Length: 1000\r\n\r\n{", "half-sent bodies")


def _held(target: Target, count: int, data: bytes, name: str) -> Outcome:
    outcome, closed = Outcome(f"{count:,} {name}"), 0

    async def attack() -> None:
        nonlocal closed
        opened = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(target.host, target.port)
                writer.write(data)
                opened.append((reader, writer))
        await probe(target, outcome)
        closed = sum(reader.at_eof() or reader.exception() is not None or bool(reader._buffer) for reader, _ in opened)
        for _, writer in opened:
            writer.transport.abort()

    asyncio.run(attack())
    outcome.holds = set(outcome.answers) == {"200"}
    outcome.remark = f"{closed:,} of them were closed within {target.seconds:g} s"
    return outcome


def _signalled(target: Target, number: signal.Signals) -> Outcome:
    """A signal to one worker under load."""
    outcome = Outcome(f"{number.name} to one of {len(target.workers())} workers under load")
    asyncio.run(load(target, outcome, lambda: os.kill(target.workers()[0], number)))
    with contextlib.suppress(ProcessLookupError):
        for pid in target.workers():
            os.kill(pid, signal.SIGCONT)
    outcome.holds = set(outcome.answers) <= REFUSALS and max(outcome.times, default=0) < target.timeout
    return outcome


def killed_worker(target: Target) -> Outcome:
    """SIGKILL of a worker under load."""
    return _signalled(target, signal.SIGKILL)


def stopped_worker(target: Target) -> Outcome:
    """SIGSTOP of a worker under load."""
    return _signalled(target, signal.SIGSTOP)


def swapped_model(target: Target) -> Outcome:
    """The model folder is written again under load."""

    def swap() -> None:
        for _ in range(3):
            weights = target.model / "model.safetensors"
            shutil.copy(weights, weights.with_suffix(".new"))
            os.replace(weights.with_suffix(".new"), weights)
            time.sleep(target.seconds / 6)

    outcome = Outcome("the model is swapped three times under load")
    asyncio.run(load(target, outcome, swap))
    outcome.holds = set(outcome.answers) <= REFUSALS
    return outcome


def memory(target: Target) -> Outcome:
    """Resident memory of all processes over many requests."""
    requests = bodies(target.sentences, 1)
    asyncio.run(saturate(target.host, target.port, requests, LOAD, max(1, target.seconds / 6)))
    before, answers, done = resident(children(target.pid)), Counter[str](), 0
    while done < target.count:
        result = asyncio.run(saturate(target.host, target.port, requests, LOAD, min(5, target.seconds)))
        done += result["requests"]
        answers.update({str(status): count for status, count in result["statuses"].items()})
    growth = resident(children(target.pid)) / before - 1
    outcome = Outcome(f"{done:,} requests of one text", answers, remark=f"memory {before / 1e6:,.0f} MB {growth:+.1%}")
    outcome.holds = growth < 0.05 and set(answers) <= REFUSALS
    return outcome


def terminated_server(target: Target) -> Outcome:
    """SIGTERM to the server and all its processes under load; it ends the server, so it is the last attack."""
    outcome, ended = Outcome("SIGTERM to the process group under load"), 0.0

    def strike() -> None:
        nonlocal ended
        started = time.perf_counter()
        os.killpg(os.getpgid(target.pid), signal.SIGTERM)
        while time.perf_counter() - started < 60 and _runs(target.pid):
            time.sleep(0.05)
        ended = time.perf_counter() - started

    asyncio.run(load(target, outcome, strike))
    outcome.holds = set(outcome.answers) <= REFUSALS | {"refused", "503"} and ended < 60
    outcome.remark = f"the server ended after {ended:.1f} s"
    return outcome


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


ATTACKS: dict[str, Callable[[Target], Outcome]] = {
    "overload": ten_times_the_load,
    "slow": slow_clients,
    "broken": broken_clients,
    "idle": idle_connections,
    "half-sent": half_sent_bodies,
    "sigkill": killed_worker,
    "swap": swapped_model,
    "sigstop": stopped_worker,
    "memory": memory,
    "sigterm": terminated_server,
}
TABLE = ["attack", "sent", "answers of other clients, or of the load", "p99 ms", "holds"]


@contextlib.contextmanager
def attacked(model: Path, workers: int, timeout: float) -> Iterator[tuple[str, int, int, Path]]:
    """A server of a copy of the model: host, port, process, and the copy's folder."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    command = [sys.executable, "-m", "harken", "serve"]
    options = ["--port", "0", "--workers", str(workers), "--timeout", str(timeout)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = shutil.copytree(model, Path(temporary) / "model")
        with server([*command, str(folder), *options]) as (host, port, pid):
            yield host, port, pid, folder
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def run_attacks(
    names: Sequence[str], model: Path, sentences: Sequence[str], timeout: float, workers: int = 2, **bounds: Any
) -> dict[str, Outcome]:
    """The outcomes of attacks on one server, in their order; `bounds` are `seconds`, `connections`, `count`."""
    outcomes = {}
    with attacked(model, workers, timeout) as (host, port, pid, folder):
        target = Target(host, port, pid, folder, sentences, timeout, **bounds)
        for name in sorted(names, key=list(ATTACKS).index):
            target.settle(workers)
            outcomes[name] = ATTACKS[name](target)
            print(name, outcomes[name].row(), flush=True)
    return outcomes
