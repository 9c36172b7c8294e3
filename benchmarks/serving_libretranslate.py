"""The cost of a request in `harken serve` and in LibreTranslate, without a model: both put texts into capitals.

    python benchmarks/serving_libretranslate.py runs/demo --libretranslate PYTHON

PYTHON is an interpreter that has LibreTranslate (`pip install libretranslate`). Its server is started as its command
does (waitress, four threads), with a stub in the place of Argos' languages, and the download of models left out. harken
is started as `harken serve` does, with its worker process, and with the same stub in the place of the model, whose
folder is read for the languages alone. Both answer `POST /translate`, source en, target fr, format text.

Requests come from this process over loopback: one connection for the latency of a lone client, then 32 connections.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from serving_client import bodies, children, cpu_seconds, resident, saturate, server

LOADS = ((1, 1), (1, 32), (32, 32))  # texts of a request, connections
SENTENCES = [f"The black cat number {number} sleeps in the old house" for number in range(4000)]


# ---- the servers, each in a process of its own -----------------------------------------------------------------------


def serve_libretranslate() -> None:
    """LibreTranslate's app under waitress, as its own `main` has it."""
    from libretranslate import init, language  # type: ignore[import-not-found]
    from libretranslate.app import create_app  # type: ignore[import-not-found]
    from libretranslate.main import get_parser  # type: ignore[import-not-found]
    from waitress import create_server  # type: ignore[import-not-found]

    class Stub:
        def hypotheses(self, text: str, count: int) -> list[Any]:
            return [SimpleNamespace(value=text.upper(), score=0.0)] * count

    def known(code: str, name: str) -> Any:
        return SimpleNamespace(code=code, name=name, translations_from=[], get_translation=lambda other: Stub())

    init.boot = lambda *given: None
    language.load_languages = lambda: [known("en", "English"), known("fr", "French")]
    arguments = get_parser().parse_args([])
    http = create_server(create_app(arguments), host="127.0.0.1", port=0, threads=arguments.threads)
    print(f"http://127.0.0.1:{http.effective_port}", file=sys.stderr, flush=True)
    http.run()


def stub_harken() -> None:
    """Put the stub in the place of models; also in the worker process, which imports this file anew."""
    import harken.api
    from harken.serving import operations
    from harken.tasks.translate.job import TranslateJob

    def run_batch(model: Any, operation: str, items: list[Any], options: dict[str, Any]) -> list[Any]:
        texts = [item["text"] for item in items]
        return [{"source": text, "hypotheses": [{"text": text.upper(), "score": 0.0}]} for text in texts]

    stub = SimpleNamespace(recipe=SimpleNamespace(task="translate"))
    changes: dict[tuple[Any, str], Any] = {
        (harken.api, "load"): lambda folder, device: stub,
        (operations, "run_batch"): run_batch,
        (operations, "facts_of"): lambda model: {},
        (TranslateJob, "prepare_serving"): lambda self, model: None,
    }
    for (module, name), value in changes.items():
        setattr(module, name, value)


if sys.argv[1:2] == ["serve-harken"]:
    os.environ["HARKEN_STUB"] = "1"  # for the worker process, whose arguments are those of `harken serve`
if "HARKEN_STUB" in os.environ:
    stub_harken()


# ---- the measurement -------------------------------------------------------------------------------------------------


def body(group: list[str]) -> dict[str, Any]:
    """A request as LibreTranslate's clients send it."""
    return {"q": group[0] if len(group) == 1 else group, "source": "en", "target": "fr", "format": "text"}


def one_round(address: tuple[str, int], pid: int, seconds: float) -> list[dict[str, Any]]:
    """Requests a second, latency and CPU time of every load."""
    rows = []
    for texts, connections in LOADS:
        pids = children(pid)
        before = cpu_seconds(pids)
        result = asyncio.run(saturate(*address, bodies(SENTENCES, texts, body), connections, seconds, "/translate"))
        assert result["statuses"].keys() == {200}, result["statuses"]
        cpu = 1000 * (cpu_seconds(pids) - before) / result["requests"]
        rate = result["requests"] / result["wall"]
        row = {"texts": texts, "connections": connections, "rate": rate, "cpu": cpu, "resident": resident(pids)}
        rows.append(row | {share: result[share] for share in ("p50", "p99")})
    return rows


def main() -> None:
    if sys.argv[1:2] == ["serve-libretranslate"]:
        serve_libretranslate()
        return
    if sys.argv[1:2] == ["serve-harken"]:
        from harken.cli import main as command_line

        sys.argv = ["harken", "serve", sys.argv[2], "--port", "0"]
        command_line()
        return
    import records
    from records import RECORDS, facts_of, machine, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--libretranslate", required=True, metavar="PYTHON")
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RECORDS)
    options = parser.parse_args()
    version = subprocess.run(
        [options.libretranslate, "-c", "from importlib.metadata import version; print(version('libretranslate'))"],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    commands = {
        "harken": [sys.executable, __file__, "serve-harken", str(options.model)],
        f"LibreTranslate {version}": [options.libretranslate, __file__, "serve-libretranslate"],
    }
    rounds: dict[str, list[Any]] = {name: [] for name in commands}
    with (
        server(commands["harken"]) as (host, port, pid),
        server(commands[f"LibreTranslate {version}"]) as (other_host, other_port, other),
    ):
        servers = dict(zip(commands, (((host, port), pid), ((other_host, other_port), other)), strict=True))
        for address, process in servers.values():
            one_round(address, process, 1)
        for _ in range(options.rounds):
            for name, (address, process) in servers.items():
                rounds[name].append(one_round(address, process, options.seconds))
                print(name, json.dumps(rounds[name][-1]), flush=True)
    cells = []
    for number, (texts, connections) in enumerate(LOADS):
        for name, turns in rounds.items():
            middle = {key: median(turn[number][key] for turn in turns) for key in ("rate", "p50", "p99", "cpu")}
            cells.append([texts, connections, name, f"{middle['rate']:,.0f}", f"{middle['p50']:.1f}",
                          f"{middle['p99']:.1f}", f"{middle['cpu']:.2f}",
                          f"{turns[-1][number]['resident'] / 1e6:,.0f}"])  # fmt: skip
    head = ["texts a request", "connections", "server", "requests/s", "p50 ms", "p99 ms", "CPU ms a request", "MB"]
    record = {**machine(), "rounds": rounds}
    lines = [f"# The cost of a request in harken and in LibreTranslate, {record['date']}", "",
             f"Load average at the end {record['load']:.1f}. Medians of {options.rounds} rounds, which alternate.", "",
             table(head, cells), "",
             "No model runs: both servers put texts into capitals. LibreTranslate is its own app under waitress with "
             "four threads, as its command starts it; harken is `harken serve` with one worker process. Both are asked "
             "`POST /translate` with source en, target fr, format text. Memory is that of all processes of a server; "
             "harken's has torch loaded, LibreTranslate's no model of Argos.", "", facts_of(record)]  # fmt: skip
    folders = {"MODEL": options.model, "PYTHON": Path(options.libretranslate)}
    records.write("serving-libretranslate", record, "\n".join(lines), options.out, **folders)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
