"""The dated record of a benchmark run: JSON for programs, Markdown for people, same name, in benchmarks/records/."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import records
from measurement import Measurement
from records import machine, portable, table

POLLUTED = 0.05  # share of the cores taken by other processes, and share of its own cores that a run did not get
TARGETS = {("transformer", "joeynmt"): 3.0, ("transformer", "eole"): 1.25, ("recurrent", "joeynmt"): 3.0}
TOKENS = (
    "target tokens/s: non-padding target pieces with EOS, validation left out; "
    "median over log lines, first tenth (at least one line) dropped"
)


def ratios(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Each run of harken over each peer at the peer's best thread setting, with the aim where there is one."""
    best: dict[tuple[str, str], tuple[float, Measurement]] = {}
    for item in measurements:
        key = (item.architecture, item.tool)
        if item.tool != "harken" and item.speed and item.speed.tokens_per_second > best.get(key, (0.0,))[0]:
            best[key] = (item.speed.tokens_per_second, item)
    rows = []
    for own in measurements:
        for (architecture, tool), (rate, peer) in best.items():
            if own.tool == "harken" and own.speed and own.architecture == architecture:
                names = {"architecture": architecture, "peer": tool, "threads": peer.threads, "dtype": own.dtype}
                per_cpu = [item.tokens_per_cpu_second for item in (own, peer)]
                cpu_ratio = round(per_cpu[0] / per_cpu[1], 2) if per_cpu[0] and per_cpu[1] else None
                names |= {"ratio": round(own.speed.tokens_per_second / rate, 2), "cpu_ratio": cpu_ratio}
                rows.append({**names, "aim": TARGETS.get((architecture, tool))})
    return rows


def is_polluted(item: Measurement) -> bool:
    """Whether other processes were busy and the run did not get the cores that its threads could use.

    >>> load = {"foreign_share": 0.5, "wall_s": 100.0, "own_cpu_s": 98.0}
    >>> [is_polluted(Measurement("eole", "recurrent", threads, "float32", [], load=load)) for threads in ("1", "2")]
    [False, True]
    """
    usable = math.prod(map(int, re.findall(r"\d+", item.threads)))  # "own choice": at least one
    got = item.load.get("own_cpu_s", 0.0) / item.load.get("wall_s", 1.0)
    return item.load.get("foreign_share", 0.0) > POLLUTED and got < (1 - POLLUTED) * usable


def measurement_row(item: Measurement) -> list[Any]:
    """One line of the table of runs; a failed run shows its problem where the speed would be."""
    share = item.load.get("foreign_share")
    load = "-" if share is None else f"{share:.3f}" + (" (polluted)" if is_polluted(item) else "")
    name = [item.architecture, item.tool, item.threads, item.dtype]
    if item.speed is None:
        return [*name, (item.problem or "-").replace("|", "/"), *["-"] * 6, load]
    speed = item.speed
    figures = [speed.tokens_per_second, item.tokens_per_cpu_second or "-", speed.target_tokens_per_step, speed.lines]
    return [*name, *figures, item.batch_tokens, item.load.get("wall_s", "-"), item.load.get("own_cpu_s", "-"), load]


def bleu_row(item: Measurement) -> list[Any]:
    """One line of the table of scores."""
    rate = item.learning_rate or item.settings.get("train", {}).get("learning_rate", "-")
    updates = item.speed.steps if item.speed else "-"
    times = [item.load.get("wall_s", "-"), item.load.get("own_cpu_s", "-")]
    return [item.architecture, item.tool, rate, updates, *times, item.validation_bleu, item.bleu]


def markdown(record: dict[str, Any], measurements: Sequence[Measurement]) -> str:
    """The record for people."""
    head = ["model", "tool", "threads", "dtype", "target tokens/s", "per CPU second"]
    head += ["target tokens/step", "lines", "batch size", "wall s", "CPU s", "foreign CPU share"]
    parts = [f"# Training against the peers on CPU, {record['date']}"]
    if record["ratios"]:
        rows = [
            [
                row["architecture"],
                row["dtype"],
                f"{row['peer']}, {row['threads']} threads",
                row["ratio"],
                row["cpu_ratio"] or "-",
                row["aim"] or "-",
            ]
            for row in record["ratios"]
        ]
        parts.append(table(["model", "harken in", "over float32", "ratio", "ratio per CPU second", "aim"], rows))
    parts.append(table(head, [measurement_row(item) for item in measurements]))
    scored = [bleu_row(item) for item in measurements if item.bleu is not None]
    if scored:
        parts.append("sacrebleu (13a, cased) on val and test_2016_flickr, de-en, beam 5:")
        head = ["model", "tool", "peak learning rate", "updates", "wall s", "CPU s", "validation BLEU", "test BLEU"]
        parts.append(table(head, scored))
    cpu = record["processor"]
    facts = [
        f"{record['tokens']}.",
        f"CPU: {cpu['model']} ({', '.join(cpu['flags'])}), {cpu['cores_used']} cores.",
        f"{record['seconds']:g} s for each run; polluted: other processes ran and the run lacked {POLLUTED:.0%} of the "
        "CPU time that its threads could use.",
        *[
            f"{tool}: {', '.join(f'{k} {v}' for k, v in packages.items())}"
            for tool, packages in record["versions"].items()
        ],
        *[f"{name}: not run, {reason}" for name, reason in record["skipped"].items()],
    ]
    parts.append("\n".join(f"- {fact}" for fact in facts))
    commands = "\n".join([record["command"], *[row["command"] for row in record["measurements"]]])
    parts.append("Commands:\n\n```sh\n" + commands + "\n```")
    return "\n\n".join(parts) + "\n"


def write_record(
    folder: Path, record: dict[str, Any], measurements: Sequence[Measurement], folders: dict[str, Path]
) -> Path:
    """Writes both files and returns the Markdown one."""
    rows = [asdict(item) | {"command": " ".join(item.command)} for item in measurements]
    record = {**machine(), **record, "tokens": TOKENS, "ratios": ratios(measurements), "measurements": rows}
    record = json.loads(portable(json.dumps(record, default=str), folders))
    return records.write(record["name"], record, markdown(record, measurements), folder, **folders).with_suffix(".md")
