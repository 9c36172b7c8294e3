"""`harken serve` under load on this machine: throughput beside `harken translate`, overload, memory.

    python benchmarks/serving.py runs/demo                                # all parts, about ten minutes
    python benchmarks/serving.py runs/demo --parts throughput --seconds 10
    python benchmarks/serving.py runs/demo --peer-python PYTHON --peer-model DIR    # also CTranslate2 behind FastAPI
    python benchmarks/serving.py runs/demo --attack --record              # what holds under attack, about ten minutes
    python benchmarks/serving.py runs/demo --attack --parts idle,sigkill --attack-seconds 10

one core    sentences a second of requests with 1, 8 and 32 texts from many connections; one worker process on one core,
            the HTTP process and the clients on another; beside `harken translate --workers 1` on the first core
all cores   a worker for each core, HTTP process and clients on the same cores; beside `harken translate` on all of them
overload    for a minute ten times as many requests as the server can answer: every accepted one is answered, the others
            get 429 with Retry-After; the 99th percentile of accepted ones
memory      resident memory of the server and its worker before and after 20,000 requests
--attack    instead: ten times the load, slow and broken clients, idle connections, half-sent bodies, signals to workers
            and to the server, a model that is swapped, memory (serving_attack.py); exit code 1 where one does not hold

Rounds of `harken translate` (in its steady state, without loading) and of the server alternate, as other work on the
machine comes and goes; medians are reported. CPU seconds are counted for each process, so the ratio of CPU time to that
of `harken translate` does not depend on the clients or on other work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import records
from records import RECORDS, ROOT, facts_of, machine, table
from serving_attack import ATTACKS, TABLE, run_attacks
from serving_client import bodies, children, cpu_seconds, environment, overload, resident, saturate, server

from harken.data.text.parallel import read_corpus
from harken.recipe import load_recipe

LOADS = ((1, 256), (8, 64), (32, 32))  # texts of a request, connections
FIGURES = ("rate", "worker", "http", "client", "p50", "p99")
HEADS = ["texts a request", "sentences/s", "ratio", "CPU ms a sentence: worker", "HTTP", "client", "ratio of CPU",
         "p50 ms", "p99 ms"]  # fmt: skip


def sentences_of(folder: Path, count: int) -> list[str]:
    """Test sentences of the model's corpus in random order, repeated until there are enough."""
    corpus = read_corpus(load_recipe(folder / "recipe.toml").data)
    sources = [pair.source for pairs in corpus.tests.values() for pair in pairs]
    random.Random(1).shuffle(sources)
    return (sources * (count // len(sources) + 1))[:count]


# ---- harken translate -----------------------------------------------------------------------------------------------


STEADY = """
import json, os, sys, time, harken
from harken.kernels.decoding.description import Transformer
from harken.search.compiled import KERNELS
model = harken.load(sys.argv[1])
lines, workers = open(sys.argv[2], encoding="utf-8").read().splitlines(), int(sys.argv[3])
KERNELS[Transformer].load()
list(model.translate_lines(lines[:512], workers=workers))
print("ready", flush=True)
for _ in sys.stdin:
    before, started = os.times(), time.perf_counter()
    list(model.translate_lines(lines, workers=workers))
    after, wall = os.times(), time.perf_counter() - started
    cpu = after.user + after.system - before.user - before.system
    print(json.dumps({"rate": len(lines) / wall, "cpu": 1000 * cpu / len(lines)}), flush=True)
"""  # what `harken translate` does with a long file, without loading


@contextmanager
def translating(folder: Path, sentences: list[str], workers: int, cores: set[int]) -> Iterator[Any]:
    """A process that translates all sentences whenever it is asked to: a function that asks it."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "in.txt"
        path.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
        command = [sys.executable, "-c", STEADY, str(folder), str(path), str(workers)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, env=environment(), **pipes)
        os.sched_setaffinity(process.pid, cores)
        assert process.stdin and process.stdout

        def measure() -> dict[str, float]:
            print("go", file=process.stdin, flush=True)
            answer: dict[str, float] = json.loads(process.stdout.readline())
            return answer

        try:
            process.stdout.readline()
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)
            yield measure
        finally:
            process.stdin.close()
            process.wait(60)


# ---- parts ----------------------------------------------------------------------------------------------------------


def pin(pid: int, cores: set[int]) -> None:
    """Keep a process with all its threads on some cores."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def one_load(address: tuple[str, int], pid: int, sentences: list[str], load: tuple[int, int], seconds: float) -> Any:
    """Requests of one kind: rate, latency, CPU milliseconds a sentence of worker, HTTP process and client."""
    texts, connections = load
    workers = [child for child in children(pid) if child != pid]
    before, own = (cpu_seconds(workers), cpu_seconds([pid])), os.times()
    result = asyncio.run(saturate(*address, bodies(sentences, texts), connections, seconds))
    after, own_after = (cpu_seconds(workers), cpu_seconds([pid])), os.times()
    count = result["requests"] * texts
    cpu = {
        "worker": after[0] - before[0],
        "http": after[1] - before[1],
        "client": own_after.user + own_after.system - own.user - own.system,
    }
    row = {"texts": texts, "rate": count / result["wall"], **result}
    return row | {name: 1000 * value / count for name, value in cpu.items()}


def throughput(options: argparse.Namespace, sentences: list[str], workers: int) -> dict[str, Any]:
    """Rounds of `harken translate` and of the server with so many workers; with one, they are pinned."""
    cores = sorted(os.sched_getaffinity(0))
    pinned = workers == 1 and len(cores) > 1
    model_cores, other_cores = ({cores[0]}, set(cores[1:])) if pinned else (set(cores), set(cores))
    command = [sys.executable, "-m", "harken", "serve", str(options.model), "--port", "0", "--workers", str(workers)]
    rounds: list[dict[str, Any]] = []
    with (
        translating(options.model, sentences[:2000], workers, model_cores) as translate,
        server(command) as (host, port, pid),
    ):
        asyncio.run(saturate(host, port, bodies(sentences, 32), 16, 4))  # warm-up; all workers have loaded
        for child in children(pid):
            pin(child, other_cores if child == pid else model_cores)
        os.sched_setaffinity(0, other_cores)
        for _ in range(options.rounds):
            rows = [one_load((host, port), pid, sentences, load, options.seconds) for load in LOADS]
            rounds.append({"translate": translate(), "rows": rows})
            print(json.dumps(rounds[-1]), flush=True)
        memory = resident(children(pid))
        os.sched_setaffinity(0, set(cores))
    return {"workers": workers, "pinned": pinned, "rounds": rounds, "resident": memory}


def throughput_table(measured: dict[str, Any]) -> str:
    """Medians over rounds; ratios are taken in each round."""
    rounds, cells = measured["rounds"], []
    for number, (texts, _) in enumerate(LOADS):
        rows = [turn["rows"][number] for turn in rounds]
        middle = {
            name: median(row[name] for row in rows) for name in ("rate", "worker", "http", "client", "p50", "p99")
        }
        walls = [row["rate"] / turn["translate"]["rate"] for row, turn in zip(rows, rounds, strict=True)]
        cpus = [
            turn["translate"]["cpu"] / (row["worker"] + row["http"]) for row, turn in zip(rows, rounds, strict=True)
        ]
        cells.append([texts, f"{middle['rate']:,.0f}", f"{median(walls):.2f} ({min(walls):.2f}-{max(walls):.2f})",
                      f"{middle['worker']:.2f}", f"{middle['http']:.2f}", f"{middle['client']:.2f}",
                      f"{median(cpus):.2f} ({min(cpus):.2f}-{max(cpus):.2f})",
                      f"{middle['p50']:,.0f}", f"{middle['p99']:,.0f}"])  # fmt: skip
    rate, cpu = (median(turn["translate"][name] for turn in rounds) for name in ("rate", "cpu"))
    cells.append(["`harken translate`", f"{rate:,.0f}", "1", f"{cpu:.2f}", "", "", "1", "", ""])
    return table(HEADS, cells)


def overloaded(address: tuple[str, int], requests: list[bytes], seconds: float, capacity: float) -> dict[str, Any]:
    """Ten times the capacity for some seconds."""
    result = asyncio.run(overload(*address, requests, 10 * capacity, 512, seconds))
    return {"capacity": capacity, **result}


def memory_growth(address: tuple[str, int], pid: int, sentences: list[str], count: int) -> dict[str, Any]:
    """Resident memory before and after requests of one text."""
    requests, pids, sizes, done = bodies(sentences, 1), children(pid), [], 0
    asyncio.run(saturate(*address, requests, 32, 5))
    before = resident(pids)
    while done < count:
        done += asyncio.run(saturate(*address, requests, 32, 5))["requests"]
        sizes.append(resident(pids))
    return {"before": before, "after": sizes[-1], "most": max(sizes), "requests": done}


def peer_rows(options: argparse.Namespace, sentences: list[str]) -> list[Any]:
    """CTranslate2 behind FastAPI."""
    command = [
        options.peer_python,
        str(ROOT / "benchmarks" / "serving_peer.py"),
        options.peer_model,
        str(options.model),
    ]
    with server(command) as (host, port, pid):
        asyncio.run(saturate(host, port, bodies(sentences, 32), 16, 3))  # warm-up
        return [one_load((host, port), pid, sentences, load, options.seconds) for load in LOADS]


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--parts", help="some parts only; default: throughput,overload,memory, or all attacks")
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement of throughput")
    parser.add_argument("--rounds", type=int, default=3, help="of each part but memory")
    parser.add_argument("--overload-seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, help="of the part memory; default: 20,000, of an attack 50,000")
    parser.add_argument("--sentences", type=int, default=8000)
    parser.add_argument("--peer-python", help="a Python with ctranslate2, fastapi, uvicorn and harken")
    parser.add_argument("--peer-model", help="the model as `harken export --to ctranslate2` wrote it")
    parser.add_argument("--attack", action="store_true", help="attack a server on 127.0.0.1 and say what holds")
    parser.add_argument("--attack-seconds", type=float, default=60, help="of each attack")
    parser.add_argument("--attack-connections", type=int, default=10_000, help="that are idle")
    parser.add_argument("--attack-timeout", type=float, default=60, help="seconds that the server gives a request")
    parser.add_argument("--record", action="store_true", help="with --attack: write a dated record")
    parser.add_argument("--out", type=Path, default=RECORDS)
    return parser.parse_args()


def attack(options: argparse.Namespace, sentences: list[str]) -> None:
    """Attack a server, print a table, and write a record where asked."""
    record = machine() | {"httptools": bool(find_spec("httptools"))}
    names = options.parts.split(",") if options.parts else list(ATTACKS)
    outcomes = run_attacks(
        names,
        options.model,
        sentences,
        options.attack_timeout,
        seconds=options.attack_seconds,
        connections=options.attack_connections,
        count=options.requests or 50_000,
    )
    rows = [[name, *outcome.row()] for name, outcome in outcomes.items()]
    record["attacks"] = {name: vars(outcome) | {"times": len(outcome.times)} for name, outcome in outcomes.items()}
    bounds = f"Two workers, {options.attack_timeout:g} s for a request, {options.attack_seconds:g} s for an attack"
    lines = [f"# harken serve under attack, {record['date']}", "",
             f"{bounds}; load average at the start {record['load']:.1f}.", "", facts_of(record), table(TABLE, rows),
             ""]  # fmt: skip
    print("\n".join(lines))
    if options.record:
        records.write("serving-attack", record, "\n".join(lines), options.out, MODEL=options.model)
    if not all(outcome.holds for outcome in outcomes.values()):
        raise SystemExit(1)


def main() -> None:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server ends, too
    sentences = sentences_of(options.model, options.sentences)
    if options.attack:
        attack(options, sentences)
        return
    parts = (options.parts or "throughput,overload,memory").split(",")
    record: dict[str, Any] = machine() | {"httptools": bool(find_spec("httptools"))}
    cpu, http = record["processor"], "httptools and uvloop" if record["httptools"] else "h11"
    lines = [f"# harken serve under load, {record['date']}", "",
             f"Load average at the start {record['load']:.1f}; HTTP by {http}.", "", facts_of(record)]  # fmt: skip
    if "throughput" in parts:
        for workers in dict.fromkeys((1, cpu["cores_used"])):
            result = record[f"throughput_{workers}"] = throughput(options, sentences, workers)
            where = (
                "on one core, HTTP and clients on the others" if result["pinned"] else "HTTP and clients on all cores"
            )
            title = f"## Throughput at saturation, {workers} worker{'s' * (workers > 1)}, {where}"
            lines += [title, "", throughput_table(result), ""]
    if options.peer_python:
        rows = record["peer"] = peer_rows(options, sentences)
        cells = [[row["texts"], f"{row['rate']:,.0f}", f"{row['worker'] + row['http']:.2f}", f"{row['p50']:.0f}",
                  f"{row['p99']:.0f}"] for row in rows]  # fmt: skip
        heads = ["texts a request", "sentences/s", "CPU ms a sentence", "p50 ms", "p99 ms"]
        lines += ["## CTranslate2 behind a minimal FastAPI app, same weights", "", table(heads, cells), ""]
    if {"overload", "memory"} & set(parts):
        command = [sys.executable, "-m", "harken", "serve", str(options.model), "--port", "0"]
        with server(command) as (host, port, pid):
            requests = bodies(sentences, 32)
            asyncio.run(saturate(host, port, requests, 16, 10))  # warm-up
            warm = asyncio.run(saturate(host, port, requests, 16, 10))
            capacity = warm["requests"] / warm["wall"]
            if "overload" in parts:
                lines += ["## Ten times the load", "", f"Requests of 32 texts for {options.overload_seconds:g} s; the "
                          f"server answers {capacity:.1f} a second without overload.", ""]  # fmt: skip
                record["overload"], cells = [], []
                for _ in range(options.rounds):
                    result = overloaded((host, port), requests, options.overload_seconds, capacity)
                    record["overload"].append(result)
                    print(result, flush=True)
                    answers = ", ".join(f"{count:,} x {name}" for name, count in result["statuses"].items())
                    cells.append([f"{result['sent']:,}", f"{result['rate']:.0f}", answers, f"{result['p50']:,.0f}",
                                  f"{result['p99']:,.0f}"])  # fmt: skip
                lines += [table(["sent", "a second", "answers", "p50 ms of accepted", "p99 ms"], cells), ""]
            if "memory" in parts:
                result = record["memory"] = memory_growth((host, port), pid, sentences, options.requests or 20_000)
                lines += ["## Memory", "",
                          f"{result['before'] / 1e6:,.0f} MB of resident memory (server and worker) before, "
                          f"{result['after'] / 1e6:,.0f} MB after {result['requests']:,} requests: "
                          f"{result['after'] / result['before'] - 1:+.1%}.", ""]  # fmt: skip
                print(result, flush=True)
    records.write("serving", record, "\n".join(lines), options.out, MODEL=options.model)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
