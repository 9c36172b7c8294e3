"""How time and memory grow with length, batch, vocabulary and corpus size, on one CPU core.

    python benchmarks/growth.py [--subjects length batch vocabulary corpus]     # some ten minutes; writes a record
    python benchmarks/growth.py --draw RECORD.json --out docs/images            # a figure for each subject

Two networks: a Transformer of 3 + 3 layers, width 256, and a BiLSTM with additive attention, width 256. `update` is an
update of AdamW; `decode` the compiled search with a beam of 5, in float32, that writes as many tokens as it read. What
is not varied is 24 tokens, 16 sentences and 8,000 pieces. `prepare` makes a corpus ready to be trained on
(`preparing.py`, words), `translate` is `harken translate` on a file. Every point is a process of its own: CPU seconds
of one thread, hardly affected by other processes, and the memory that the work adds to the model's process.

The slope is that of log time, or log memory, against log size over the upper half of the sizes: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
USUAL = {"length": 24, "batch": 16, "vocabulary": 8_000}
SIZES: dict[str, list[int]] = {
    "length": [8, 16, 32, 64, 128, 256, 512],
    "batch": [1, 2, 4, 8, 16, 32, 64, 128],
    "vocabulary": [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000],
    "corpus": [10_000, 30_000, 100_000, 300_000, 600_000],
    "lines": [1_000, 3_000, 10_000, 30_000],
}
NETWORKS = ("transformer", "lstm")
LEAST_SECONDS, FEWEST = 0.7, 3  # of a timed point


def reset_peak() -> int:
    """Let the kernel measure the peak of memory from now on; the bytes in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(name: str) -> int:
    """VmRSS or VmHWM in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def build(network: str, vocabulary: int) -> Any:
    """A model with random weights that never chooses EOS."""
    import torch

    from harken.data.tokenizers.tokens import EOS
    from harken.models.build import build_model
    from harken.models.config import RecurrentConfig, TransformerConfig

    torch.manual_seed(1)
    if network == "lstm":
        model = build_model(RecurrentConfig(embedding=256, width=256, tied="none"), vocabulary, vocabulary)
        with torch.no_grad():
            model.output_bias[EOS] = -1e4
        return model
    config = TransformerConfig(layers=3, width=256, heads=4, feedforward=1024, tied="none")
    model = build_model(config, vocabulary, vocabulary)
    with torch.no_grad():  # the last norm's bias points away from EOS
        model.output_weight[EOS] = 0.5
        model.decoder.stack.norm.bias.fill_(-1.0)
    return model


def make_work(network: str, work: str, length: int, batch: int, vocabulary: int) -> Callable[[], Any]:
    """An update or a search."""
    import torch

    model = build(network, vocabulary)
    source = torch.randint(4, vocabulary, (batch, length))
    lengths = torch.full((batch,), length)
    if work == "update":
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)

        def update() -> None:
            optimizer.zero_grad()
            model.loss(source, lengths, source, source).backward()
            optimizer.step()

        return update
    from harken.kernels.weights import freeze
    from harken.search.compiled import prepare
    from harken.search.config import SearchOptions
    from harken.search.dispatch import DecodingCall, choose, decode

    model.eval()
    freeze(model)
    prepare(model)
    call = DecodingCall(model, source, lengths, length, SearchOptions(beam=5, precision="float32"))
    if (name := choose(call).name) != "compiled":
        raise RuntimeError(f"the backend is {name}")

    def search() -> None:
        if any(len(row[0].tokens) != length for row in decode(call)):
            raise RuntimeError("a hypothesis ended early")

    return search


def measure(network: str, work: str, length: int, batch: int, vocabulary: int) -> dict[str, Any]:
    """The point of one process."""
    import torch

    torch.set_num_threads(1)
    make_work(network, work, 4, 1, 1_000)()  # imports and compiles
    run = make_work(network, work, length, batch, vocabulary)
    before = reset_peak()
    run()  # allocates what stays, such as packed weights, gradients and averages
    seconds, started = list[float](), time.process_time()
    while len(seconds) < FEWEST or time.process_time() - started < LEAST_SECONDS:
        begun = time.process_time()
        run()
        seconds.append(time.process_time() - begun)
    return {"seconds": statistics.median(seconds), "mb": (memory("VmHWM") - before) / 2**20}


def child(*words: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """What another process prints."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **(environment or {})}
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True, env=variables)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def prepare_corpus(pairs: int) -> dict[str, Any]:
    """A corpus made ready: CPU seconds, and memory that is not a mapped file, beyond that of the imports."""
    answer = child(str(ROOT / "benchmarks" / "preparing.py"), "--pairs", str(pairs), "--kind", "word")["first run"]
    most = max(phase["anonymous_mb"] for phase in answer["phases"].values())
    return {"seconds": answer["cpu_seconds"], "mb": most - answer["anonymous_mb_before"]}


def translate_file(lines: int, folder: Path) -> dict[str, Any]:
    """`harken translate` on so many lines: CPU seconds and the peak of the whole process."""
    from itertools import islice

    from harken.data.synthetic.phrasebook import generate

    model, source = folder / "model", folder / "lines.txt"
    if not model.is_dir():
        short = ["train.max_steps=200", "train.validate_every=200", "train.validate_sentences=50", "data.size=4000"]
        changes = [word for change in short for word in ("--set", change)]
        command = [sys.executable, "-m", "harken", "train", "phrasebook-transformer", "--out", str(model), *changes]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    source.write_text("".join(f"{pair.source}\n" for pair in islice(generate(seed=7), lines)))
    command = [sys.executable, "-m", "harken", "translate", str(model), str(source), "--workers", "1"]
    command += ["--out", str(folder / "out.txt")]
    (folder / "out.txt").unlink(missing_ok=True)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError("harken translate failed")
    return {"seconds": usage.ru_utime + usage.ru_stime, "mb": usage.ru_maxrss / 1024}


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of log y against log x, by least squares, over the upper half of the points.

    >>> round(slope([1, 2, 4, 8], [5, 6, 12, 24]), 3)
    1.0
    """
    half = len(x) // 2
    logs = [(math.log(a), math.log(max(b, 1e-9))) for a, b in zip(x[half:], y[half:], strict=True)]
    mean_x, mean_y = (statistics.fmean(column) for column in zip(*logs, strict=True))
    return sum((a - mean_x) * (b - mean_y) for a, b in logs) / sum((a - mean_x) ** 2 for a, _ in logs)


def series_of(subject: str, folder: Path, kept: Path) -> list[dict[str, Any]]:
    """The lines of a subject's figure: their label, sizes, seconds and megabytes; points that are kept are not measured
    again."""
    rows: list[dict[str, Any]] = []
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    known = {(line["subject"], line["label"], line["size"]): line for line in lines}

    def add(label: str, sizes: Sequence[int], run: Callable[[int], dict[str, Any]]) -> None:
        points = []
        for size in sizes:
            point = known.get((subject, label, size))
            if point is None:
                point = {"subject": subject, "label": label, "size": size, **run(size)}
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(point) + "\n")
            points.append(point)
            print(json.dumps(point), flush=True)
        seconds, mb = ([point[key] for point in points] for key in ("seconds", "mb"))
        slopes = {"slope of time": round(slope(sizes, seconds), 2), "slope of memory": round(slope(sizes, mb), 2)}
        rows.append({"label": label, "sizes": list(sizes), "seconds": seconds, "mb": mb, **slopes})

    if subject == "corpus":
        add("prepare", SIZES["corpus"], prepare_corpus)
        add("translate", SIZES["lines"], lambda lines: translate_file(lines, folder))
        return rows
    for network in NETWORKS:
        for work in ("update", "decode"):
            add(
                f"{network}, {work}",
                SIZES[subject],
                lambda size, network=network, work=work: child(  # type: ignore[misc]
                    __file__, "--point", json.dumps({"network": network, "work": work, **USUAL, subject: size})
                ),
            )
    return rows


def draw(record: dict[str, Any], folder: Path) -> None:
    """growth-SUBJECT.svg for every subject of a record."""
    from harken.files import atomic_write
    from harken.inspection.figure.paper import draw_svg
    from harken.inspection.figure.spec import Figure, Lines, Series

    labels = {"length": "tokens of a sentence", "batch": "sentences", "corpus": "pairs or lines"}
    for subject, rows in record["subjects"].items():
        panels = []
        for key, unit in (("seconds", "CPU seconds"), ("mb", "MB")):
            name = "slope of time" if key == "seconds" else "slope of memory"
            lines = [Series(row["label"], row["sizes"], row[key], note=f"{row[name]:.2f}") for row in rows]
            ticks = [(10.0**power, f"{10**power:,}") for power in range(3, 6)] if subject == "corpus" else ()
            label = labels.get(subject, "pieces")
            panels.append(Lines("", label, unit, lines, log_x=True, log_y=True, x_ticks=ticks))
        note = "after each name: its slope over the upper half of the sizes; 1 is linear"
        figure = Figure(f"Time and memory against {subject}", panels, note)
        atomic_write(folder / f"growth-{subject}.svg", draw_svg([figure]).encode())


def main() -> None:
    """Measure, or draw what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    subjects = [name for name in SIZES if name != "lines"]
    parser.add_argument("--subjects", nargs="+", choices=subjects, default=subjects)
    parser.add_argument("--points", type=Path, default=Path("growth.jsonl"), help="what is measured, for the next call")
    parser.add_argument("--draw", type=Path, metavar="RECORD", help="draw a record")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the figures")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        print(json.dumps(measure(**options.point)))
        return
    if options.draw:
        draw(json.loads(options.draw.read_text(encoding="utf-8")), options.out)
        return
    from records import machine, rows_table, write

    with tempfile.TemporaryDirectory(prefix="harken-growth-") as folder:
        measured = {subject: series_of(subject, Path(folder), options.points) for subject in options.subjects}
    keys = ("label", "slope of time", "slope of memory")
    rows = [
        {"subject": subject, **{key: row[key] for key in keys}} for subject in measured for row in measured[subject]
    ]
    page = f"# Growth of time and memory\n\n{rows_table(rows)}\n"
    print(page)
    write("growth", {**machine(), "subjects": measured})


if __name__ == "__main__":
    main()
