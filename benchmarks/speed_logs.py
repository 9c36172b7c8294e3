"""Training speed out of what each tool writes: JoeyNMT's log, eole's log, harken's metrics.jsonl.

All three become one `Speed`: the median over log lines of non-padding target tokens per second (EOS counted, padding
and validation not), with the first tenth of the lines (at least one) dropped as warm-up.

>>> text = "\\n".join('{"kind": "train", "step": %d, "tokens": 80, "seconds": %d}' % (i * 10, i) for i in range(1, 5))
>>> harken_speed(text).tokens_per_second
80.0
"""

import itertools
import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

JOEY_STAMP = "%Y-%m-%d %H:%M:%S,%f"
JOEY_LINE = re.compile(r"^(\S+ \S+) .*Step:\s+(\d+), Batch Loss.*Tokens per Sec:\s+([\d.]+)", re.MULTILINE)
EOLE_LINE = re.compile(r"Step\s+(\d+)/.*bsz:\s*\d+/\s*(\d+)/\s*\d+;.*/\s*(\d+) tok/s")


class NoSpeed(Exception):
    """A run left too few speed lines to say anything; the message says how many and in what."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What one training run showed, warm-up dropped."""

    tokens_per_second: float  # median over the lines
    mean_tokens_per_second: float  # harmonic: tokens over time, for lines of equally many tokens
    lines: int  # how many lines the two figures rest on
    steps: int  # the last step logged
    target_tokens_per_step: float | None  # how full the batches were


def drop_warmup(values: Sequence[float]) -> list[float]:
    """The values without their first tenth, at least one."""
    return list(values[max(1, len(values) // 10) :])


def summarise(rates: Sequence[float], steps: int, per_step: Sequence[float], origin: str) -> Speed:
    """Median and mean of the rates after warm-up.

    Raises:
        NoSpeed: fewer than two rates, so that nothing is left once the warm-up is dropped.
    """
    settled = drop_warmup(rates)
    if not settled:
        raise NoSpeed(f"{origin} has {len(rates)} speed lines and at least 2 are needed; give it more --seconds.")
    return Speed(
        tokens_per_second=round(statistics.median(settled), 1),
        mean_tokens_per_second=round(statistics.harmonic_mean(settled), 1),
        lines=len(settled),
        steps=steps,
        target_tokens_per_step=round(statistics.fmean(per_step), 1) if per_step else None,
    )


def joey_speed(log: str) -> Speed:
    """Reads JoeyNMT's train.log; tokens per step follow from rate, time stamps and step numbers of two lines."""
    rows = [
        (datetime.strptime(stamp, JOEY_STAMP), int(step), float(rate)) for stamp, step, rate in JOEY_LINE.findall(log)
    ]
    per_step = [
        rate * (stamp - before).total_seconds() / (step - step_before)
        for (before, step_before, _), (stamp, step, rate) in itertools.pairwise(rows)
        if step > step_before
    ]
    return summarise([rate for _, _, rate in rows], rows[-1][1] if rows else 0, per_step, "JoeyNMT's train.log")


def eole_speed(log: str) -> Speed:
    """Reads eole's log: `bsz: source/target/sentences` per batch, and `source/target tok/s`."""
    rows = [(int(step), float(size), float(rate)) for step, size, rate in EOLE_LINE.findall(log)]
    steps = rows[-1][0] if rows else 0
    return summarise([rate for _, _, rate in rows], steps, [size for _, size, _ in rows], "eole's train.log")


def metric_lines(metrics: str) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a last line cut short by the end of the run is passed over."""
    rows = []
    for line in metrics.splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def harken_speed(metrics: str) -> Speed:
    """Reads metrics.jsonl: per line, tokens since the line before over the training seconds since then.

    A line's own `tokens_per_second` is used only where `seconds` is missing or stands still: dividing here means that
    time spent between two lines counts against harken even where its own rate leaves it out. Only validation does not:
    a "valid" line has the seconds at its end, and the next train line is counted from there.
    """
    rates, per_step = [], []
    step, seconds = 0, 0.0
    for row in metric_lines(metrics):
        if row.get("kind") == "valid":
            seconds = max(seconds, float(row.get("seconds", 0.0)))
        if row.get("kind") != "train" or "tokens" not in row or "step" not in row:
            continue
        elapsed = float(row.get("seconds", seconds)) - seconds
        if elapsed > 0:
            rates.append(row["tokens"] / elapsed)
        elif "tokens_per_second" in row:
            rates.append(float(row["tokens_per_second"]))
        if row["step"] > step:
            per_step.append(row["tokens"] / (row["step"] - step))
        step, seconds = row["step"], seconds + max(elapsed, 0.0)
    return summarise(rates, int(step), per_step, "harken's metrics.jsonl")
