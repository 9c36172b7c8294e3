"""Two versions of harken in turn, on one CPU core or a GPU: decoding, training, recurrent layers and serving.

    git worktree add ../before COMMIT
    python benchmarks/versions.py --base ../before                       # everything: about ten minutes
    python benchmarks/versions.py --base ../before --parts decoding recurrent --rounds 5
    python benchmarks/versions.py --base ../before --parts gpu           # on a GPU, with its clock: two minutes

Each version runs in a process of its own, with its checkout's `src` first on the path, and waits for work; the two take
turns, so that both meet the same machine. The models that decode and are served are trained once by the base version
(some updates on the phrasebook of a Transformer of 3 + 3 layers, width 256, of a BiLSTM with additive attention, width
256, and for serving of the demo's Transformer) and read by both. Figures are CPU seconds of one thread, hardly affected
by other processes, but for serving, which counts requests a second and CPU milliseconds of server and worker, and for
`gpu`, which counts seconds. A ratio above 1 says that this version is faster: the medians of all rounds are compared.
`same` says whether both gave the same translations, losses or outputs.

On a GPU a Transformer of 6 + 6 layers, width 512, in bfloat16, with random weights and 32,000 pieces, writes 32 tokens
for every source of 32 tokens; the same shape and the BiLSTM are trained on the phrasebook; layers run forward and
backward in bfloat16.
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
GPU_CELLS = [(batch, beam) for batch in (1, 64, 512) for beam in (1, 5)]
GPU_SIZES = {
    "transformer": ["model.layers=6", "model.width=512", "model.heads=8", "model.feedforward=2048"],
    "lstm": ["model.width=512"],
}
GPU_LAYERS = [("LSTM", 30, 128, 512), ("LSTM", 512, 16, 512), ("GRU", 128, 64, 512), ("RNN", 128, 64, 512)]  # T, B, H
GPU_TRAIN = ["train.device=cuda", "train.batch_tokens=24000", "train.validate_sentences=1", "data.size=60000"]
PARTS = ("recurrent", "training", "decoding", "serving", "gpu")


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

    def gpu_decode(self, batch: int, beam: int) -> dict[str, Any]:
        """Seconds of a search of random sources, hypotheses as Python lists included, and the tokens of some."""
        import torch

        from harken.data.tokenizers.tokens import EOS
        from harken.models.build import build_model
        from harken.models.config import TransformerConfig
        from harken.search.config import SearchOptions
        from harken.search.dispatch import DecodingCall, decode

        if "gpu" not in self.models:
            torch.manual_seed(0)
            config = TransformerConfig(layers=6, width=512, heads=8, feedforward=2048, tied="none")
            model = self.models["gpu"] = build_model(config, 32_000, 32_000).eval().cuda()
            with torch.no_grad():  # the last norm's bias points away from EOS, which is then never chosen
                model.output_weight[EOS] = 0.5
                model.decoder.stack.norm.bias.fill_(-1.0)
        source = torch.randint(4, 32_000, (batch, 32), generator=torch.Generator().manual_seed(batch)).cuda()
        options = SearchOptions(beam=beam, precision="auto")
        call = DecodingCall(self.models["gpu"], source, torch.full((batch,), 32, device="cuda"), 32, options)
        seconds = timed(lambda: decode(call))
        return {"cpu": seconds, "result": [row[0].tokens for row in decode(call)[:8]]}

    def gpu_train(self, name: str, folder: str, steps: int) -> dict[str, Any]:
        """Seconds of the updates after the first third; the losses of captured updates vary in their last digits."""
        import harken

        limits = [f"train.{key}={steps}" for key in ("max_steps", "validate_every", "checkpoint_every")]
        overrides = [*GPU_SIZES[name], *GPU_TRAIN, *limits, f"train.log_every={steps // 12}"]
        harken.train(SIZES[name][0], self.work / folder, overrides=overrides, progress=False)
        lines = [json.loads(line) for line in (self.work / folder / "metrics.jsonl").read_text().splitlines()]
        entries = [line for line in lines if line["kind"] == "train"]
        seconds = [after["seconds"] - before["seconds"] for before, after in pairwise(entries)]
        return {"cpu": statistics.median(seconds[len(seconds) // 3 :]), "result": round(entries[-1]["loss"], 1)}

    def gpu_recurrent(self, number: int) -> dict[str, Any]:
        """Seconds of a forward and backward pass through a layer, and its output's mean square."""
        import torch

        import harken.nn

        kind, steps, rows, width = GPU_LAYERS[number]
        torch.manual_seed(1)
        layer = getattr(harken.nn, kind)(width, width, batch_first=True).to("cuda", torch.bfloat16)
        values = torch.randn(rows, steps, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        seconds = timed(lambda: layer(values)[0].sum().backward())
        return {"cpu": seconds, "result": round(float(layer(values)[0].float().square().mean()), 3)}


def timed(work: Callable[[], Any]) -> float:
    """The median time of 15 calls on a GPU, after five that are not counted."""
    import torch

    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times[5:])


def serve_requests(work: Path, clock: str) -> None:
    """The loop of a version's process: a line of JSON in, a line out; other output is discarded."""
    if clock == "cpu":
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

    def __init__(self, tree: Path, work: Path, clock: str) -> None:
        path = os.pathsep.join([str(tree / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).resolve()), "--worker", str(work), clock]
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
        serve_requests(Path(sys.argv[2]), sys.argv[3])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="a checkout of the earlier version")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:-1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of each load of a server")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "versions", help="scratch folder")
    parser.add_argument("--out", type=Path, help="write what was measured here, as JSON")
    options = parser.parse_args()
    from records import machine, table

    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if "gpu" in options.parts and len(options.parts) > 1:
        parser.error("the part gpu has a clock of its own: run it alone")
    clock = "wall" if "gpu" in options.parts else "cpu"
    trees = {"base": options.base.resolve(), "now": ROOT}
    versions = {key: Checkout(tree, work, clock) for key, tree in trees.items()}
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
    if "gpu" in options.parts:
        for cell in GPU_CELLS:
            add("decoding on a GPU, batch {}, beam {}".format(*cell), "gpu_decode", lambda key, turn, cell=cell: cell)  # type: ignore[misc]
        for number, layer in enumerate(GPU_LAYERS):
            case = "{} on a GPU, T {}, B {}, H {}, forward and backward".format(*layer)
            add(case, "gpu_recurrent", lambda key, turn, number=number: (number,))  # type: ignore[misc]
        for name in GPU_SIZES:
            run = f"timed-{os.getpid()}-{name}"
            add(
                f"training on a GPU, {name}",
                "gpu_train",
                lambda key, turn, name=name, run=run: (name, f"{run}-{key}-{turn}", 240),
            )  # type: ignore[misc]
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
