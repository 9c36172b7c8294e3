"""Times on a GPU, and the record of what a benchmark printed."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.records import machine


def milliseconds(work: Callable[[], Any], seconds: float = 0.25, least: int = 5, warm: int = 2) -> float:
    """Median time of `work` by CUDA events: at least `least` calls, more for so many seconds, 30 at the most."""
    for _ in range(warm):
        work()
    torch.cuda.synchronize()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < least or (time.perf_counter() - start < seconds and len(times) < 30):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


class Record:
    """Rows that are printed as they are measured, and written with the machine's facts where a file is named."""

    def __init__(self, name: str, out: Path | None, **facts: Any) -> None:
        self.out, self.content = out, {"name": name, **machine(), **facts, "rows": []}

    def add(self, row: dict[str, Any]) -> None:
        """Print a row and write all of them."""
        self.content["rows"].append(row)
        print(json.dumps(row), flush=True)
        if self.out is not None:
            self.out.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
