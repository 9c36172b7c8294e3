"""The claims of `harken.lab` for the page: run on demand in a process of their own, so that they can be stopped.

An experiment forks workers and takes all cores, which a server with threads must not do itself. `python -m
harken.studio.laboratory NAME SEED QUICK` writes a line of JSON for every step of progress, then the report.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from typing import Any

from harken.errors import UserError
from harken.lab.registry import experiment_names, find_experiment


def list_claims() -> list[dict[str, Any]]:
    """Name, statement and what it shows, of every claim; with the sliders of those that have some."""
    from harken.studio.explorations import EXPLORATIONS

    claims = []
    for name in experiment_names():
        experiment = find_experiment(name)
        sliders = EXPLORATIONS[name].to_dict() if name in EXPLORATIONS else None
        about = {"name": name, "statement": experiment.statement, "shows": experiment.shows}
        claims.append({**about, "exploration": sliders})
    return claims


async def run_claim(name: str, seed: int, quick: bool) -> AsyncGenerator[dict[str, Any], None]:
    """Progress as {"done": share, "say": text}, then {"report": ...} or {"error": ...}; closing it ends the process.

    Raises:
        UserError: there is no such claim.
    """
    find_experiment(name)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        name,
        str(seed),
        str(int(quick)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**26,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        reported = False
        async for line in process.stdout:
            message = json.loads(line)
            reported = reported or "report" in message
            yield message
        if not reported:
            said = (await errors).decode(errors="replace").strip().splitlines()
            yield {"error": said[-1] if said else "the experiment ended without a result"}
    finally:
        if process.returncode is None:
            _end(process.pid)
        errors.cancel()
        await process.wait()


def _end(pid: int) -> None:
    import signal
    from contextlib import suppress

    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # the process and the workers it forked


def main(arguments: list[str]) -> None:
    """Run one claim and write what it says to stdout."""
    from harken.lab.experiment import Settings
    from harken.lab.report import run_experiment
    from harken.studio.figures import figures_json, plain

    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no JSON

    def tell(message: dict[str, Any]) -> None:
        out.write(json.dumps(message, ensure_ascii=False) + "\n")
        out.flush()

    name, seed, quick = arguments[0], int(arguments[1]), bool(int(arguments[2]))
    try:
        report = run_experiment(
            find_experiment(name), Settings(seed, quick), lambda done, say: tell({"done": done, "say": say})
        )
    except UserError as problem:
        tell({"error": str(problem)})
        return
    findings = report.findings
    tell(
        {
            "report": plain(
                {
                    "name": name,
                    "answer": findings.answer,
                    "verdict": findings.verdict,
                    "explanation": findings.explanation,
                    "columns": findings.columns,
                    "rows": findings.rows,
                    "seconds": report.seconds,
                    "quick": quick,
                    "seed": seed,
                }
            )
            | {"figures": figures_json([findings.figure])}
        }
    )


if __name__ == "__main__":
    main(sys.argv[1:])
