"""How verbs show things: tables for people at a terminal, plain tab-separated lines for everything else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.lab.experiment import Progress


EVERY = 15.0  # seconds between lines of progress where stderr is no terminal


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under headings; without headings and boxes where stdout is no terminal."""
    rows = list(rows)
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=box.SIMPLE_HEAD, show_header=any(headings))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def tell(message: str) -> None:
    """A word to the user, on stderr: results alone go to stdout."""
    print(message, file=sys.stderr, flush=True)


def bytes_in_words(count: float) -> str:
    """1234567 -> 1.2 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    return ""


def seconds_in_words(seconds: float) -> str:
    """5400 -> 1.5 hours."""
    for unit, length, until in (("seconds", 1, 90), ("minutes", 60, 5400), ("hours", 3600, 172800)):
        if seconds < until:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds / 86400:.3g} days"


@contextmanager
def measuring(what: str) -> Iterator[Progress]:
    """A bar on stderr where a person looks, a line now and then where not; call it with the share done and a word."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(done: float, say: str) -> None:
            nonlocal last
            if time.monotonic() - last >= EVERY:
                last = time.monotonic()
                tell(f"{what}  {done:4.0%}  {say}")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    parts = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    columns = (*parts, TextColumn("{task.fields[say]}", markup=False))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0, say="")
        yield lambda done, say: bar.update(task, completed=done, say=say)


@contextmanager
def counting(what: str, wanted: bool = True, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A live count on stderr for a person who waits; call what it gives with the number done since the last call."""
    if not wanted or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (what, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)
