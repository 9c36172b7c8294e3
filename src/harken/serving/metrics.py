"""Counts and times of a server in Prometheus' text format; written by hand, as it is a dozen lines.

>>> metrics = Metrics()
>>> metrics.request("/translate", 200, 0.02)
>>> metrics.batch(texts=3, tokens=20, seconds=0.01)
>>> [line for line in metrics.text({"queue_tokens": 5}).splitlines() if "total" in line and "#" not in line][:2]
['harken_requests_total{path="/translate",status="200"} 1', 'harken_batches_total 1']
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
HELP = {
    "requests": "requests by path and status",
    "batches": "batches run",
    "texts": "texts in them",
    "tokens": "estimated tokens in them",
    "characters": "characters of texts that were translated",
    "rejected": "requests refused as the queue was full",
    "worker_restarts": "workers that died",
    "reloads": "models loaded again as their folder changed",
}


class Histogram:
    """Counts of values up to bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str = "") -> list[str]:
        """In Prometheus' format; `labels` end with a comma."""
        found, total = [], 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{{labels}le="{bound}"}} {total}')
        braces = f"{{{labels.rstrip(',')}}}" if labels else ""
        return [*found, f"{name}_sum{braces} {self.sum:.6f}", f"{name}_count{braces} {total}"]


class Metrics:
    """What a server counts."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._latency: dict[str, Histogram] = {}
        self._counts: Counter[str] = Counter()
        self._batch_texts, self._batch_seconds = Histogram(TEXTS), Histogram(SECONDS)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request; `path` is that of the route, so there are few of them."""
        self._requests[path, status] += 1
        self._latency.setdefault(path, Histogram(SECONDS)).observe(seconds)

    def batch(self, texts: int, tokens: int, seconds: float) -> None:
        """Count a batch."""
        self._counts.update({"batches": 1, "texts": texts, "tokens": tokens})
        self._batch_texts.observe(texts)
        self._batch_seconds.observe(seconds)

    def count(self, name: str, by: int = 1) -> None:
        """Count something that `HELP` names."""
        self._counts[name] += by

    def text(self, gauges: Mapping[str, float]) -> str:
        """The page `/metrics`."""
        lines = ["# HELP harken_requests_total requests by path and status", "# TYPE harken_requests_total counter"]
        for (path, status), count in sorted(self._requests.items()):
            lines.append(f'harken_requests_total{{path="{path}",status="{status}"}} {count}')
        for name, about in HELP.items():
            if name != "requests":
                lines += [f"# HELP harken_{name}_total {about}", f"# TYPE harken_{name}_total counter"]
                lines.append(f"harken_{name}_total {self._counts[name]}")
        lines.append("# TYPE harken_request_seconds histogram")
        for path, histogram in sorted(self._latency.items()):
            lines += histogram.lines("harken_request_seconds", f'path="{path}",')
        lines.append("# TYPE harken_batch_texts histogram")
        lines += self._batch_texts.lines("harken_batch_texts")
        lines.append("# TYPE harken_batch_seconds histogram")
        lines += self._batch_seconds.lines("harken_batch_seconds")
        for name, value in gauges.items():
            lines += [f"# TYPE harken_{name} gauge", f"harken_{name} {value:g}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * 4096
