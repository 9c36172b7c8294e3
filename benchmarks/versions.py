"""Two versions of harken on one CPU core, in turn: decoding, training, recurrent layers and serving.

    git worktree add ../before COMMIT
    python benchmarks/versions.py --base ../before                       # everything: about ten minutes
    python benchmarks/versions.py --base ../before --parts decoding recurrent --rounds 5

Each version runs in a process of its own, with its checkout's `src` first on the path, and waits for work; the two take
turns, so that both meet the same machine. The models that decode and are served are trained once by the base version
(some updates on the phrasebook of a Transformer of 3 + 3 layers, width 256, of a BiLSTM with additive attention, width
256, and for serving of the demo's Transformer) and read by both. Figures are CPU seconds of one thread, hardly affected
by other processes, but for serving, which counts requests a second and CPU milliseconds of server and worker. A ratio
above 1 says that this version is faster: the medians of all rounds are compared. `same` says whether both gave the same
translations, losses or outputs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAME = ["train.workers=1", "train.threads=1", "train.precision=float32", "train.device=cpu"]
SIZES = {
    "transformer": ("phrasebook-transformer", ["model.layers=3", "model.width=256", "model.feedforward=1024"]),
    "lstm": ("phrasebook-attention", []),
    "served": ("phrasebook-transformer", []),
}
STEPS = {"transformer": 60, "lstm": 60, "served": 300}  # of the models that decode and are served
TIMED_STEPS = 18  # of a timed run of training
TIMED = ("transformer", "lstm")
DECODING = [(name, batch, beam) for name in TIMED for batch in (1, 64) for beam in (1, 5)]
SENTENCES = {1: 96, 64: 768}  # of a timed call, by batch
LAYERS = [  # class, options, T, B, H
    ("LSTM", {}, 64, 32, 256),
    ("LSTM", {"num_layers": 2, "bidirectional": True}, 32, 32, 128),
    ("LSTM", {"peephole": "diagonal"}, 32, 32, 128),
    ("LSTM", {}, 30, 4, 64),
    ("GRU", {}, 64, 32, 256),
    ("RNN", {}, 64, 32, 256),
]
LOADS = ((1, 16), (32, 4))  # texts of a request, connections
PARTS = ("recurrent", "training", "decoding", "serving")


# ---- the process of one version --------------------------------------------------------------------------------------


def sentences(count: int) -> list[str]:
    """English sentences of the phrasebook."""
    from itertools import islice

    from harken.data.synthetic.phrasebook import generate

    return [pair.source for pair in islice(generate(seed=7), count)]


class Version:
    """What a version can be asked to do; every answer has the CPU seconds of the work alone."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.models: dict[str, Any] = {}

    def train(self, name: str, folder: str, steps: int) -> dict[str, Any]:
        """CPU seconds of the updates after the first third, and the losses."""
        import harken

        recipe, sizes = SIZES[name]
        limits = [f"train.{key}={steps}" for key in ("max_steps", "validate_every", "checkpoint_every")]
        log = max(1, steps // 6)
        overrides = [*sizes, *SAME, *limits, f"train.log_every={log}", "train.validate_sentences=1", "data.size=4000"]
        harken.train(recipe, self.work / folder, overrides=overrides, progress=False)
        lines = [json.loads(line) for line in (self.work / folder / "metrics.jsonl").read_text().splitlines()]
        entries = [line for line in lines if line["kind"] == "train"]
        seconds = [after["seconds"] - before["seconds"] for before, after in pairwise(entries)]
        return {"cpu": sum(seconds[len(seconds) // 3 :]), "result": [round(line["loss"], 6) for line in entries]}

    def prepare(self, name: str) -> dict[str, Any]:
        """Load a model and compile what its search needs; later processes find the code on disk."""
        import harken

        if name not in self.models:
            self.models[name] = harken.load(self.work / name, device="cpu")
            self.models[name].prepare()
        return {}

    def decode(self, name: str, batch: int, beam: int) -> dict[str, Any]:
        """CPU seconds of translating some sentences, and the translations."""
        self.prepare(name)
        texts, options = sentences(SENTENCES[batch]), {"beam": beam, "attention": False}

        def translate(group: list[str]) -> list[str]:
            translations = self.models[name].translate(group, **options, batch_sentences=batch)
            return [translation.text for translation in translations]

        translate(texts[: min(batch, 8)])
        started = time.process_time()
        result = translate(texts)
        return {"cpu": time.process_time() - started, "result": result}

    def recurrent(self, number: int) -> dict[str, Any]:
        """CPU seconds of forward and backward passes through a layer, and its output's sum."""
        import torch

        import harken.nn

        kind, options, steps, rows, width = LAYERS[number]
        torch.manual_seed(1)
        layer = getattr(harken.nn, kind)(width, width, batch_first=True, **options)
        values = torch.randn(rows, steps, width, requires_grad=True)
        passes, started = -1, 0.0
        while passes < 3 or time.process_time() - started < 0.5:
            output = layer(values)[0].sum()
            output.backward()
            passes += 1
            if passes == 0:  # the first pass compiles and allocates
                started = time.process_time()
        return {"cpu": (time.process_time() - started) / passes, "result": round(float(output.detach()), 3)}


def serve_requests(work: Path) -> None:
    """The loop of a version's process: a line of JSON in, a line out; other output is discarded."""
    import torch

    torch.set_num_threads(1)
    time.perf_counter = time.process_time  # the training loop's clock: it logs CPU seconds
    version, answers = Version(work), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(getattr(version, name)(*arguments)), file=answers, flush=True)


# ---- the comparison --------------------------------------------------------------------------------------------------


class Checkout:
    """The process of one version."""

    def __init__(self, tree: Path, work: Path) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).resolve()), "--worker", str(work)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=self.environment, cwd=work, **pipes)

    def __call__(self, name: str, *arguments: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        print(json.dumps([name, arguments]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a version's process ended; its error is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def alternate(
    versions: dict[str, Checkout], rounds: int, name: str, arguments: Callable[[str, int], tuple[Any, ...]]
) -> dict[str, Any]:
    """CPU seconds of both versions, the ratio of their medians, and whether their results agree."""
    seconds: dict[str, list[float]] = {key: [] for key in versions}
    results: dict[str, Any] = {}
    for number in range(rounds):
        for key in sorted(versions, reverse=bool(number % 2)):
            answer = versions[key](name, *arguments(key, number))
            seconds[key].append(answer["cpu"])
            results[key] = answer["result"]
    middle = {key: statistics.median(values) for key, values in seconds.items()}
    return {**middle, "ratio": middle["base"] / middle["now"], "same": results["base"] == results["now"]}


def measure_serving(versions: dict[str, Checkout], work: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Both servers up at once, loaded in turn."""
    from contextlib import ExitStack

    from serving_client import bodies, children, cpu_seconds, saturate, server

    texts = [f"the black cat number {index} sees the small dog" for index in range(4000)]
    command = [sys.executable, "-m", "harken", "serve", str(work / "served"), "--port", "0", "--workers", "1"]
    command += ["--timeout", "3600"]  # no request is refused on a busy machine
    rows = []
    with ExitStack() as stack:
        servers = {key: stack.enter_context(server(command, version.environment)) for key, version in versions.items()}
        for (host, port, _), (count, connections) in product(servers.values(), LOADS):  # warm-up: kernels are compiled
            asyncio.run(saturate(host, port, bodies(texts, count), connections, 2))
        for count, connections in LOADS:
            rates: dict[str, list[float]] = {key: [] for key in servers}
            cpu: dict[str, list[float]] = {key: [] for key in servers}
            for number in range(rounds):
                for key in sorted(servers, reverse=bool(number % 2)):
                    host, port, pid = servers[key]
                    before = cpu_seconds(children(pid))
                    result = asyncio.run(saturate(host, port, bodies(texts, count), connections, seconds))
                    answered = result["statuses"].get(200, 0)
                    if answered < result["requests"]:
                        print(f"{key}: {result['statuses']}", file=sys.stderr)
                    rates[key].append(answered / result["wall"])
                    cpu[key].append(1000 * (cpu_seconds(children(pid)) - before) / max(answered, 1))
            for what, values, better in (("requests/s", rates, max), ("CPU ms a request", cpu, min)):
                middle = {key: statistics.median(values[key]) for key in servers}
                ratio = middle["now"] / middle["base"] if better is max else middle["base"] / middle["now"]
                rows.append({"case": f"serving, {count} texts: {what}", **middle, "ratio": ratio, "same": ""})
    return rows


def main() -> int:
    """Compare and print a table."""
    if sys.argv[1:2] == ["--worker"]:
        serve_requests(Path(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="a checkout of the earlier version")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of each load of a server")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "versions", help="scratch folder")
    parser.add_argument("--out", type=Path, help="write what was measured here, as JSON")
    options = parser.parse_args()
    from records import machine, table

    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    versions = {"base": Checkout(options.base.resolve(), work), "now": Checkout(ROOT, work)}
    rows: list[dict[str, Any]] = []

    def add(case: str, name: str, arguments: Callable[[str, int], tuple[Any, ...]]) -> None:
        rows.append({"case": case, **alternate(versions, options.rounds, name, arguments)})
        print(json.dumps(rows[-1]), flush=True)

    if "recurrent" in options.parts:
        for number, (kind, changes, steps, batch, width) in enumerate(LAYERS):
            words = "".join(f", {key} {value}" for key, value in changes.items())
            case = f"{kind}{words}, T {steps}, B {batch}, H {width}, forward and backward"
            add(case, "recurrent", lambda key, turn, number=number: (number,))  # type: ignore[misc]
    if "training" in options.parts:
        run = f"timed-{os.getpid()}"
        for name in TIMED:
            add(
                f"training, {name}",
                "train",
                lambda key, turn, name=name: (name, f"{run}-{name}-{key}-{turn}", TIMED_STEPS),  # type: ignore[misc]
            )
    needed = [*TIMED * ("decoding" in options.parts), *["served"] * ("serving" in options.parts)]
    for name in needed:
        if not (work / name / "card.md").is_file():
            versions["base"]("train", name, name, STEPS[name])
        for version in versions.values():
            version("prepare", name)
    if "decoding" in options.parts:
        for cell in DECODING:
            add("decoding, {}, batch {}, beam {}".format(*cell), "decode", lambda key, turn, cell=cell: cell)  # type: ignore[misc]
    if "serving" in options.parts:
        rows += measure_serving(versions, work, options.rounds, options.seconds)
    for version in versions.values():
        version.close()
    heads = ["case", "base", "now", "ratio", "same"]
    cells = [[f"{row[head]:.4g}" if isinstance(row[head], float) else row[head] for head in heads] for row in rows]
    print(table(heads, cells))
    if options.out:
        options.out.write_text(json.dumps({**machine(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
