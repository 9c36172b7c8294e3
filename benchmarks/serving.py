"""`harken serve` under load on this machine: throughput beside `harken translate`, overload, memory.

    python benchmarks/serving.py runs/demo                                # all parts, about five minutes
    python benchmarks/serving.py runs/demo --parts throughput --seconds 10
    python benchmarks/serving.py runs/demo --peer-python PYTHON --peer-model DIR    # also CTranslate2 behind FastAPI

throughput  sentences a second of requests with 1, 8 and 32 texts from many connections, beside `harken translate` on
            the same sentences (in its steady state on one core, without loading)
overload    for a minute ten times as many requests as the server can answer: every accepted one is answered, the others
            get 429 with Retry-After; the 99th percentile of accepted ones
memory      resident memory of the server and its worker before and after 20,000 requests

The clients run on the same machine, so they take CPU time away from the server. Beside wall time the CPU seconds of the
server's processes are reported, the better guide on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from record_writer import processor, table

import harken
from harken.data.text.parallel import read_corpus
from harken.recipe import load_recipe

ROOT = Path(__file__).parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
IDLE = 3.0  # seconds after which a connection is opened again


def sentences_of(folder: Path, count: int) -> list[str]:
    """Test sentences of the model's corpus in random order, repeated until there are enough."""
    corpus = read_corpus(load_recipe(folder / "recipe.toml").data)
    found = [pair.source for pairs in corpus.tests.values() for pair in pairs]
    random.Random(1).shuffle(found)
    return (found * (count // len(found) + 1))[:count]


# ---- processes ------------------------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found += children(int(path.parent.name))
    return found


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
def server(command: list[str]) -> Iterator[tuple[str, int, int]]:
    """Start a server that prints `http://HOST:PORT` when it is ready; its host, port and process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if match := re.search(r"http://([\d.]+):(\d+)", line):
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
        head = (
            f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        lines = answer.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        content = await self.reader.readexactly(int(headers["content-length"]))
        self.used = time.perf_counter()
        return int(lines[0].split()[1]), headers, content


def bodies(sentences: list[str], texts: int) -> list[bytes]:
    """Requests of so many texts each."""
    groups = [sentences[start : start + texts] for start in range(0, len(sentences) - texts + 1, texts)]
    return [json.dumps({"text": group}).encode() for group in groups]


async def saturate(host: str, port: int, requests: list[bytes], connections: int, seconds: float) -> dict[str, Any]:
    """As many requests as the server answers, each connection sending the next when it has an answer."""
    times: list[float] = []
    statuses: Counter[int] = Counter()
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        connection = Connection(host, port)
        place = number
        while time.perf_counter() < end:
            started = time.perf_counter()
            status, _, _ = await connection.post("/v1/translate", requests[place % len(requests)])
            times.append(time.perf_counter() - started)
            statuses[status] += 1
            place += connections

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
    """`rate` requests a second whatever the server says, over a pool of connections."""
    accepted: list[float] = []
    statuses: Counter[str] = Counter()
    pool: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
    for _ in range(connections):
        pool.put_nowait(Connection(host, port))

    async def one(body: bytes) -> None:
        connection = await pool.get()
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
        pool.put_nowait(connection)

    tasks, started, sent = set(), time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        due = int((time.perf_counter() - started) * rate) - sent
        for _ in range(min(due, 1000)):
            task = asyncio.create_task(one(requests[sent % len(requests)]))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.005)
    sending = time.perf_counter() - started
    while tasks:
        await asyncio.wait(set(tasks))
    return {"sent": sent, "rate": sent / sending, "statuses": dict(statuses), **quantiles(accepted or [0.0])}


# ---- parts ----------------------------------------------------------------------------------------------------------


STEADY = """
import json, os, sys, time, harken
from harken.kernels.decoding import backend
model = harken.load(sys.argv[1])
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
backend.prepare()
model.translate(lines[:128], attention=False)
found = []
for _ in range(2):
    before, started = os.times(), time.perf_counter()
    for start in range(0, len(lines), 256):
        model.translate(lines[start : start + 256], attention=False)
    after = os.times()
    cpu = after.user + after.system - before.user - before.system
    found.append((len(lines) / (time.perf_counter() - started), len(lines) / cpu))
print(json.dumps({"wall": max(wall for wall, _ in found), "cpu": max(cpu for _, cpu in found)}))
"""  # what `harken translate` does with a long file on one core, without loading


def translate_rate(folder: Path, sentences: list[str]) -> dict[str, float]:
    """Sentences a second of `harken translate` in its steady state, by wall time and by CPU time."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "in.txt"
        path.write_text("".join(f"{one}\n" for one in sentences), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", STEADY, str(folder), str(path)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def throughput(command: list[str], sentences: list[str], seconds: float) -> list[dict[str, Any]]:
    """Sentences a second at saturation, by the number of texts of a request."""
    rows = []
    with server(command) as (host, port, pid):
        pids = children(pid)
        asyncio.run(saturate(host, port, bodies(sentences, 32), 16, 3))  # warm-up
        for texts, connections in ((1, 64), (8, 64), (32, 32)):
            before = cpu_seconds(pids)
            found = asyncio.run(saturate(host, port, bodies(sentences, texts), connections, seconds))
            cpu = cpu_seconds(pids) - before
            count = found["requests"] * texts
            rows.append({"texts": texts, "rate": count / found["wall"], "cpu_rate": count / cpu, **found})
            print(json.dumps(rows[-1]), flush=True)
        rows[-1]["resident"] = resident(pids)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--parts", default="throughput,overload,memory")
    parser.add_argument("--seconds", type=float, default=15, help="of each measurement of throughput")
    parser.add_argument("--overload-seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=20_000, help="of the part memory")
    parser.add_argument("--sentences", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--peer-python", help="a Python with ctranslate2, fastapi, uvicorn and harken")
    parser.add_argument("--peer-model", help="the model as `harken export --to ctranslate2` wrote it")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "records")
    options = parser.parse_args()
    sentences = sentences_of(options.model, options.sentences)
    command = [sys.executable, "-m", "harken", "serve", str(options.model), "--port", "0"]
    command += ["--workers", str(options.workers)]
    parts = options.parts.split(",")
    record: dict[str, Any] = {
        "command": " ".join(["python benchmarks/serving.py MODEL", *sys.argv[2:]]),
        "date": datetime.now().isoformat(timespec="minutes"),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
        "processor": processor(),
        "load": os.getloadavg(),
        "versions": {"harken": harken.__version__, "python": platform.python_version()},
    }
    lines = [f"# harken serve under load, {record['date']}", "", f"`{record['command']}`", ""]
    cpu = record["processor"]
    lines += [f"{cpu['model']}, {cpu['cores_used']} cores, load average at the start {record['load'][0]:.1f}; "
              f"commit {record['commit']}; the clients run on the same cores.", ""]  # fmt: skip
    if "throughput" in parts:
        reference = record["translate"] = translate_rate(options.model, sentences)
        print("harken translate", reference, flush=True)
        rows = record["throughput"] = throughput(command, sentences, options.seconds)
        again = translate_rate(options.model, sentences)  # the machine may be busier or not than before
        reference = record["translate"] = {name: max(value, again[name]) for name, value in reference.items()}
        cells = [[row["texts"], f"{row['rate']:,.0f}", f"{row['rate'] / reference['wall']:.2f}",
                  f"{row['cpu_rate']:,.0f}", f"{row['cpu_rate'] / reference['cpu']:.2f}",
                  f"{row['p50']:.0f}", f"{row['p99']:.0f}"] for row in rows]  # fmt: skip
        cells.append(["`harken translate`", f"{reference['wall']:,.0f}", "1", f"{reference['cpu']:,.0f}", "1", "", ""])
        heads = ["texts a request", "sentences/s", "ratio", "sentences per CPU second", "ratio", "p50 ms", "p99 ms"]
        lines += ["## Throughput at saturation", "", table(heads, cells), ""]
    if options.peer_python:
        script = ROOT / "benchmarks" / "serving_peer.py"
        peer = [options.peer_python, str(script), options.peer_model, str(options.model)]
        rows = record["peer"] = throughput(peer, sentences, options.seconds)
        cells = [[row["texts"], f"{row['rate']:,.0f}", f"{row['cpu_rate']:,.0f}", f"{row['p50']:.0f}",
                  f"{row['p99']:.0f}"] for row in rows]  # fmt: skip
        heads = ["texts a request", "sentences/s", "sentences per CPU second", "p50 ms", "p99 ms"]
        lines += ["## CTranslate2 behind a minimal FastAPI app, same weights", "", table(heads, cells), ""]
    if {"overload", "memory"} & set(parts):
        with server(command) as (host, port, pid):
            requests = bodies(sentences, 32)
            asyncio.run(saturate(host, port, requests, 16, 10))  # warm-up
            warm = asyncio.run(saturate(host, port, requests, 16, 10))
            capacity = warm["requests"] / warm["wall"]
            if "overload" in parts:
                found = asyncio.run(overload(host, port, requests, 10 * capacity, 512, options.overload_seconds))
                record["overload"] = {"capacity": capacity, **found}
                lines += ["## Ten times the load", "",
                          f"Requests of 32 texts; the server answers {capacity:.1f} a second. {found['sent']:,} were "
                          f"sent in {options.overload_seconds:g} s, {found['rate']:.0f} a second. Answers: "
                          f"{', '.join(f'{count:,} x {name}' for name, count in found['statuses'].items())}. Accepted "
                          f"requests: p50 {found['p50']:,.0f} ms, p99 {found['p99']:,.0f} ms.", ""]  # fmt: skip
                print(record["overload"], flush=True)
            if "memory" in parts:
                requests, pids = bodies(sentences, 1), children(pid)
                before, sizes, done = 0, [], 0
                asyncio.run(saturate(host, port, requests, 32, 5))
                before = resident(pids)
                while done < options.requests:
                    done += asyncio.run(saturate(host, port, requests, 32, 5))["requests"]
                    sizes.append(resident(pids))
                record["memory"] = {"before": before, "after": sizes[-1], "most": max(sizes), "requests": done}
                lines += ["## Memory", "",
                          f"{before / 1e6:,.0f} MB of resident memory (server and worker) before, "
                          f"{sizes[-1] / 1e6:,.0f} MB after {done:,} requests: "
                          f"{sizes[-1] / before - 1:+.1%}.", ""]  # fmt: skip
                print(record["memory"], flush=True)
    name = f"{datetime.now():%Y-%m-%d-%H%M}-serving"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.out / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
