"""The `harken` command: one file for each verb, thin: it parses, calls, prints."""

from __future__ import annotations

import io
import os
import sys
import time
from typing import NoReturn

STARTED = time.perf_counter()  # from which a budget in minutes counts


def main() -> NoReturn:
    """Run the command line; see `harken.cli.exits` for the exit codes."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: what is printed goes nowhere
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    # Before numpy is imported: its products run in threads of harken's own, as many as there are cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from harken.cli.app import app
    except KeyboardInterrupt:  # Ctrl-C while modules are loaded
        raise SystemExit(130) from None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # text files are UTF-8 whatever the locale says
    app(prog_name="harken")
    raise SystemExit(0)
