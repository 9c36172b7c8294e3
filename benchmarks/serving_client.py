"""The client of serving.py: a server's processes, their CPU time and memory; requests over many connections."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from records import ROOT

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
IDLE = 3.0  # seconds after which a connection is opened again


def environment() -> dict[str, str]:
    """This checkout's harken, and one thread for each process."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


# ---- processes ------------------------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """A process and all below it."""
    pids = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            pids += children(int(path.parent.name))
    return pids


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of processes."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def resident(pids: list[int]) -> int:
    """Bytes of memory of processes."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * PAGE


@contextmanager
def server(command: list[str], variables: dict[str, str] | None = None) -> Iterator[tuple[str, int, int]]:
    """Start a server that prints `http://HOST:PORT` when it is ready; its host, port and process."""
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    process = subprocess.Popen(command, env=variables or environment(), start_new_session=True, **pipes)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if match := re.search(r"http://([\d.]+):(\d+)", line):
                threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop the server
                yield match[1], int(match[2]), process.pid
                break
        else:
            raise SystemExit("the server did not start")
    finally:
        process.terminate()
        process.wait(60)


# ---- the client -----------------------------------------------------------------------------------------------------


class Connection:
    """One keep-alive connection; HTTP by hand, as a client library would take more time than the server."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.reader: Any = None
        self.used = 0.0

    async def post(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self.reader is None or time.perf_counter() - self.used > IDLE:  # the server closes idle connections
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        self.writer.write(head.encode() + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        lines = answer.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        content = await self.reader.readexactly(int(headers["content-length"]))
        self.used = time.perf_counter()
        if headers.get("connection") == "close":
            self.reader = None
        return int(lines[0].split()[1]), headers, content


def bodies(
    sentences: Sequence[str], texts: int, body: Callable[[list[str]], dict[str, Any]] = lambda group: {"text": group}
) -> list[bytes]:
    """Requests of so many texts each."""
    groups = [list(sentences[start : start + texts]) for start in range(0, len(sentences) - texts + 1, texts)]
    return [json.dumps(body(group)).encode() for group in groups]


async def saturate(
    host: str, port: int, requests: list[bytes], connections: int, seconds: float, path: str = "/v1/translate"
) -> dict[str, Any]:
    """As many requests as the server answers, each connection sending the next when it has an answer."""
    times: list[float] = []
    statuses: Counter[int] = Counter()
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        connection = Connection(host, port)
        index = number
        while time.perf_counter() < end:
            started = time.perf_counter()
            status, _, _ = await connection.post(path, requests[index % len(requests)])
            times.append(time.perf_counter() - started)
            statuses[status] += 1
            index += connections

    started = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(connections)))
    wall = time.perf_counter() - started
    return {"requests": len(times), "wall": wall, "statuses": dict(statuses), **quantiles(times)}


def quantiles(times: list[float]) -> dict[str, float]:
    """Milliseconds."""
    ordered = sorted(times)
    return {f"p{share}": 1000 * ordered[min(len(ordered) - 1, len(ordered) * share // 100)] for share in (50, 99)}


async def overload(
    host: str, port: int, requests: list[bytes], rate: float, connections: int, seconds: float
) -> dict[str, Any]:
    """`rate` requests a second whatever the server says; what finds no free connection of the pool is not sent."""
    accepted: list[float] = []
    statuses: Counter[str] = Counter()
    pool = [Connection(host, port) for _ in range(connections)]

    async def one(connection: Connection, body: bytes) -> None:
        started = time.perf_counter()
        try:
            status, headers, content = await connection.post("/v1/translate", body)
            statuses[str(status)] += 1
            if status == 200:
                accepted.append(time.perf_counter() - started)
                if len(json.loads(content)["results"]) != len(json.loads(body)["text"]):
                    statuses["incomplete"] += 1
            elif status == 429 and "retry-after" not in headers:
                statuses["without Retry-After"] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            statuses[type(error).__name__] += 1
            connection = Connection(host, port)
        pool.append(connection)

    tasks, started, sent = set(), time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        due = int((time.perf_counter() - started) * rate) - sent
        for _ in range(min(due, len(pool))):
            task = asyncio.create_task(one(pool.pop(), requests[sent % len(requests)]))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.005)
    sending = time.perf_counter() - started
    while tasks:
        await asyncio.wait(set(tasks))
    return {"sent": sent, "rate": sent / sending, "statuses": dict(statuses), **quantiles(accepted or [0.0])}
