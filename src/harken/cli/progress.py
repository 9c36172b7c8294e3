"""Progress on stderr: a bar at a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harken.cli.common import format_seconds
from harken.cli.messages import logger

INTERVAL = 15.0  # seconds between lines of progress where stderr is no terminal
Update = Callable[[float, str], None]  # takes how much is done, and a text beside it
Tick = Callable[[str, bool], None]


@contextmanager
def display(what: str, total: float | None, line: Callable[[float, str], str] | None) -> Iterator[Update]:
    """Progress towards a total, if that is known.

    Args:
        line: formats a line where stderr is no terminal; None: there is none.
    """
    if not sys.stderr.isatty():
        last = time.monotonic()

        def write(done: float, note: str) -> None:
            nonlocal last
            if line is not None and time.monotonic() - last >= INTERVAL:
                last = time.monotonic()
                logger.info(line(done, note))

        yield write
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (what, BarColumn(), TextColumn("{task.fields[note]}", markup=False), TimeElapsedColumn())
    # Without redirect_stdout=False, rich would send what is printed to stdout to its own console, which is stderr.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(what, total=total, note="")
        yield lambda done, note: progress.update(task, completed=done, note=note)


@contextmanager
def measuring(what: str) -> Iterator[Update]:
    """Call what it gives with the share that is done, and a word."""
    with display(what, 1.0, lambda done, note: f"{what}  {done:4.0%}  {note}") as update:
        yield update


@contextmanager
def counting(what: str, is_shown: bool = True, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A live count at a terminal; call what it gives with the number done since the last call."""
    count = 0

    def add(done: int) -> None:
        nonlocal count
        count += done
        update(count, f"{count:,}" if total is None else f"{count:,}/{total:,}")

    if not is_shown:
        yield lambda done: None
        return
    with display(what, total, None) as update:
        yield add


def size_of(file: Path | None) -> int | None:
    """The bytes of a file of plain lines, or of a file on stdin; None where they are not known beforehand."""
    from harken.data.io.files import COMPRESSIONS

    try:
        if file is None or str(file) == "-":
            status = os.fstat(sys.stdin.fileno())
        elif file.suffix in COMPRESSIONS:
            return None
        else:
            status = file.expanduser().stat()
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def describe_rate(lines: int, seconds: float, left: float | None) -> str:
    """
    >>> describe_rate(1200, 8.0, 0.75)
    '1,200 lines, 150 lines/s, 24 seconds left'
    >>> describe_rate(3, 2.0, None)
    '3 lines, 1.5 lines/s'
    """
    rate = lines / max(seconds, 1e-9)
    text = f"{lines:,} lines, {rate:,.0f} lines/s" if rate >= 10 else f"{lines:,} lines, {rate:.2g} lines/s"
    if left is not None and lines and 0 < left < 1:
        text += f", {format_seconds(round(seconds * left / (1 - left)))} left"
    return text


@contextmanager
def line_progress(is_shown: bool, size: int | None) -> Iterator[Tick]:
    """Call what it gives with every line that is done, and whether this run has done it or one before.

    Args:
        size: bytes of all lines, if known: the share that is left is told by it.
    """
    started, lines, read, before = time.monotonic(), 0, 0, 0

    def tick(line: str, is_new: bool) -> None:
        nonlocal lines, read, before
        count = len(line.encode(errors="replace")) + 1
        lines, read, before = (lines + 1, read + count, before) if is_new else (lines, read, before + count)
        left = None if not size or size <= before else max(0.0, 1 - read / (size - before))
        update(before + read, describe_rate(lines, time.monotonic() - started, left))

    if not is_shown:
        yield lambda line, is_new: None
        return
    with display("", size, lambda done, note: note) as update:
        yield tick
