"""Counts and times of a server, for Prometheus.

>>> metrics = Metrics()
>>> metrics.request("/translate", 200, 0.02)
>>> metrics.batch(texts=3, tokens=20, seconds=0.01)
>>> [line for line in metrics.text(waiting=5).splitlines() if "_total" in line and "#" not in line][:2]
['harken_requests_total{path="/translate",status="200"} 1.0', 'harken_batches_total 1.0']
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COUNTS = {
    "batches": "batches run",
    "texts": "texts in them",
    "tokens": "estimated tokens in them",
    "characters": "characters of texts that were translated",
    "rejected": "requests refused as the queue was full",
    "reloads": "models loaded again as their folder changed",
}
disable_created_metrics()  # type: ignore[no-untyped-call, unused-ignore]


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
        self._restarts = Counter(
            "harken_worker_restarts",
            "workers that died or were killed, by their number",
            ("worker",),
            registry=registry,
        )
        self._processes = Processes()
        registry.register(self._processes)

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

    def restart(self, worker: int | str) -> None:
        """Count a worker that is replaced."""
        self._restarts.labels(worker).inc()

    def watch_workers(self, pids: Callable[[], Mapping[int, int | None]]) -> None:
        """Tell memory and processor time of the workers, too, by their numbers."""
        self._processes.pids = pids

    def text(self, waiting: int = 0) -> str:
        """The page `/metrics`, with the tokens that wait in the queue now."""
        self._waiting.set(waiting)
        return generate_latest(self._registry).decode()


class Processes(Collector):
    """Memory and processor time of the HTTP process and of every worker process, read when they are asked for."""

    pids: Callable[[], Mapping[int, int | None]] = dict  # of workers, by their numbers

    def collect(self) -> Iterator[Metric]:
        """The figures of now; none where the system has no /proc."""
        memory = GaugeMetricFamily("harken_worker_resident_bytes", "memory of a worker", labels=["worker"])
        time = CounterMetricFamily("harken_worker_cpu_seconds", "processor time of a worker", labels=["worker"])
        own = figures_of(os.getpid())
        total = 0 if own is None else own[0]
        for number, pid in self.pids().items():
            figures = None if pid is None else figures_of(pid)
            if figures is not None:
                total += figures[0]
                memory.add_metric([str(number)], figures[0])
                time.add_metric([str(number)], figures[1])
        yield GaugeMetricFamily("harken_resident_bytes", "memory of the server and its workers", total)
        yield CounterMetricFamily("harken_cpu_seconds", "processor time of the HTTP process", own[1] if own else 0.0)
        yield from (memory, time)


def figures_of(pid: int) -> tuple[int, float] | None:
    """Resident bytes and seconds of processor time of a process; None where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):  # not Linux, or it has just ended
        return None
    ticks = int(fields[11]) + int(fields[12])  # utime and stime, the 14th and 15th field of all
    return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")
