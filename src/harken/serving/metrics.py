"""Counts and times of a server, for Prometheus.

>>> metrics = Metrics()
>>> metrics.request("/translate", 200, 0.02)
>>> metrics.batch(texts=3, tokens=20, seconds=0.01)
>>> [line for line in metrics.text(waiting=5).splitlines() if "_total" in line and "#" not in line][:2]
['harken_requests_total{path="/translate",status="200"} 1.0', 'harken_batches_total 1.0']
"""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COUNTS = {
    "batches": "batches run",
    "texts": "texts in them",
    "tokens": "estimated tokens in them",
    "characters": "characters of texts that were translated",
    "rejected": "requests refused as the queue was full",
    "worker_restarts": "workers that died",
    "reloads": "models loaded again as their folder changed",
}
disable_created_metrics()


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._routes: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._requests = Counter(
            "harken_requests", "requests by path and status", ("path", "status"), registry=registry
        )
        self._counts = {name: Counter(f"harken_{name}", about, registry=registry) for name, about in COUNTS.items()}
        self._latency = Histogram(
            "harken_request_seconds", "seconds of a request", ("path",), buckets=SECONDS, registry=registry
        )
        self._batch_texts = Histogram("harken_batch_texts", "texts of a batch", buckets=TEXTS, registry=registry)
        self._batch_seconds = Histogram(
            "harken_batch_seconds", "seconds of a batch", buckets=SECONDS, registry=registry
        )
        self._waiting = Gauge("harken_queue_tokens", "estimated tokens that wait", registry=registry)
        memory = Gauge("harken_resident_bytes", "memory of the server and its workers", registry=registry)
        memory.set_function(resident_bytes)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request; `path` is that of the route, so there are few of them."""
        if (path, status) not in self._routes:  # `labels` takes longer than counting
            self._routes[path, status] = (self._requests.labels(path, status), self._latency.labels(path))
        requests, latency = self._routes[path, status]
        requests.inc()
        latency.observe(seconds)

    def batch(self, texts: int, tokens: int, seconds: float) -> None:
        """Count a batch."""
        for name, count in (("batches", 1), ("texts", texts), ("tokens", tokens)):
            self.count(name, count)
        self._batch_texts.observe(texts)
        self._batch_seconds.observe(seconds)

    def count(self, name: str, by: int = 1) -> None:
        """Add to one of `COUNTS`."""
        self._counts[name].inc(by)

    def text(self, waiting: int = 0) -> str:
        """The page `/metrics`, with the tokens that wait in the queue now."""
        self._waiting.set(waiting)
        return generate_latest(self._registry).decode()


def resident_bytes() -> int:
    """Memory of this process and its child processes; 0 where the system does not tell."""
    pages = 0
    for process in (os.getpid(), *(child.pid for child in multiprocessing.active_children())):
        try:
            pages += int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):  # not Linux, or it has just ended
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") if pages else 0
