"""Progress of a job over lines, on stderr: a bar at a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harken.cli.common import EVERY, seconds_in_words, tell

Tick = Callable[[str, bool], None]


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
    said = f"{lines:,} lines, {rate:,.0f} lines/s" if rate >= 10 else f"{lines:,} lines, {rate:.2g} lines/s"
    if left is not None and lines and 0 < left < 1:
        said += f", {seconds_in_words(round(seconds * left / (1 - left)))} left"
    return said


@contextmanager
def line_progress(wanted: bool, size: int | None) -> Iterator[Tick]:
    """Call what it gives with every line that is done, and whether this run has done it or one before.

    Args:
        wanted: False shows nothing.
        size: bytes of all lines, if known: the share that is left is told by it.
    """
    if not wanted:
        yield lambda line, is_new: None
        return
    started, lines, read, before = time.monotonic(), 0, 0, 0

    def add(line: str, is_new: bool) -> None:
        nonlocal lines, read, before
        count = len(line.encode(errors="replace")) + 1
        lines, read, before = (lines + 1, read + count, before) if is_new else (lines, read, before + count)

    def say() -> str:
        left = None if not size or size <= before else max(0.0, 1 - read / (size - before))
        return describe_rate(lines, time.monotonic() - started, left)

    if not sys.stderr.isatty():
        last = started

        def tick(line: str, is_new: bool) -> None:
            nonlocal last
            add(line, is_new)
            if time.monotonic() - last >= EVERY:
                last = time.monotonic()
                tell(say())

        yield tick
        if last > started:
            tell(say())
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.fields[say]}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task("", total=size, say="")

        def advance(line: str, is_new: bool) -> None:
            add(line, is_new)
            progress.update(task, completed=before + read, say=say())

        yield advance
