"""The `harken` command: one file for each verb, thin: it parses, calls, prints."""

from __future__ import annotations

import io
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; exit 0 on success, 2 for a user's mistake, 130 after Ctrl-C, 1 for anything else."""
    from harken.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # text files are UTF-8 whatever the locale says
    app(prog_name="harken")
    raise SystemExit(0)
