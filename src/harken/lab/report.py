"""Run an experiment and keep what it found: a table and a verdict as text, everything as JSON, the picture as files.

>>> [cell_text(value) for value in (0.0001234, 12345, 2068.4, 1.5e9, "LSTM", float("nan"))]
['0.000123', '12,345', '2,068', '1.5e+09', 'LSTM', '-']
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harken.errors import require_extra
from harken.files import atomic_write
from harken.inspection.figure.page import page, section, text, value_table
from harken.inspection.figure.values import plain
from harken.lab.experiment import Cell, Experiment, Findings, Progress, Settings
from harken.machine import available_cores

SEEDS_APART = 100_000  # between two runs; a run uses a few seeds from its own on


@dataclass(frozen=True)
class Report:
    """An experiment that was run, with what it cost."""

    experiment: Experiment
    settings: Settings
    findings: Findings
    seconds: float  # on the clock
    cpu_seconds: float  # of all cores together
    answers: tuple[str, ...] = ()  # of runs with other seeds: `harken lab --stability`

    @property
    def verdict(self) -> str:
        """One line: the claim, whether it holds, and the numbers."""
        return f"{self.findings.answer}: {self.findings.verdict}"

    @property
    def stability(self) -> str:
        """How often each verdict came out over the seeds, as a sentence; empty where it ran once."""
        if not self.answers:
            return ""
        counts = Counter((self.findings.answer, *self.answers)).most_common()
        return f"Over {1 + len(self.answers)} runs: {', '.join(f'{answer} {count}' for answer, count in counts)}."

    def to_dict(self) -> dict[str, Any]:
        """The whole report as JSON can hold it; numbers that are not finite are None."""
        import torch

        findings = self.findings
        return plain(
            {
                "name": self.experiment.name,
                "statement": self.experiment.statement,
                "parts": self.experiment.parts,
                "changes": self.experiment.changes,
                "holds": findings.holds,
                "verdict": findings.verdict,
                "explanation": findings.explanation,
                "columns": findings.columns,
                "rows": findings.rows,
                "measured": findings.measured,
                "figure": findings.figure,
                "settings": self.settings,
                "answers": [findings.answer, *self.answers],
                "seconds": round(self.seconds, 2),
                "cpu_seconds": round(self.cpu_seconds, 2),
                "made": {
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "torch": torch.__version__,
                    "python": platform.python_version(),
                    "cores": available_cores(),
                },
            }
        )

    def write(self, folder: Path, png: bool = False, html: bool = False) -> list[Path]:
        """NAME.json and NAME.svg in the folder, and where asked NAME.png and NAME.html; returns what was written.

        Raises:
            UserError: the folder cannot be made or written.
        """
        require_extra("matplotlib", "plot", "a picture")
        from harken.inspection.figure.paper import draw_png, draw_svg

        name, figure = self.experiment.name, self.findings.figure
        content = {f"{name}.json": (json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n").encode()}
        content[f"{name}.svg"] = draw_svg([figure]).encode()
        if png:
            content[f"{name}.png"] = draw_png([figure])
        if html:
            content[f"{name}.html"] = draw_page([self]).encode()
        for file, data in content.items():
            atomic_write(folder / file, data)
        return [folder / file for file in content]


def run_experiment(experiment: Experiment, settings: Settings, progress: Progress, stability: int = 1) -> Report:
    """Run it and watch the clock; with `stability` as many times, with seeds that no run shares, for their verdicts.

    Raises:
        UserError: sizes that the experiment does not have.
    """
    experiment.check(settings)
    began, cpu = time.monotonic(), _cpu_seconds()

    def part(number: int) -> Findings:
        return experiment.run(
            replace(settings, seed=settings.seed + SEEDS_APART * number),
            lambda done, message: progress((number + done) / stability, message),
        )

    findings = part(0)
    answers = tuple(part(number).answer for number in range(1, stability))
    return Report(experiment, settings, findings, time.monotonic() - began, _cpu_seconds() - cpu, answers)


def cell_text(value: Cell) -> str:
    """A cell of a table as people read it: three figures, thousands apart."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if 1000 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:.3g}" if math.isfinite(value) else "-"


def draw_page(reports: Sequence[Report]) -> str:
    """A whole HTML document: verdict, figure and table of each experiment."""
    title = reports[0].experiment.statement if len(reports) == 1 else "harken lab"
    return page(title, "\n".join(_article(report) for report in reports))


def _article(report: Report) -> str:
    findings, experiment = report.findings, report.experiment
    rows = [[cell_text(cell) for cell in row] for row in findings.rows]
    return (
        f'<article id="{text(experiment.name)}"><h1>{text(experiment.name)}</h1>\n'
        f'<p class="about">{text(experiment.statement)}</p>\n<p class="verdict">{text(report.verdict)}</p>\n'
        f"{_paragraph(report.stability)}{_parts(experiment)}{_paragraph(findings.explanation)}"
        f"{section(findings.figure)}{value_table(findings.columns, rows)}\n"
        f'<p class="note">seed {report.settings.seed}, {report.seconds:.0f} s, {report.cpu_seconds:.0f} CPU s</p>'
        "</article>"
    )


def _parts(experiment: Experiment) -> str:
    items = [f"<b>{part.kind}</b>: {text(part.statement)}" for part in experiment.parts]
    items += [f"rule changed, {text(change)}" for change in experiment.changes]
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>\n" if items else ""


def _paragraph(content: str) -> str:
    return f"<p>{text(content)}</p>" if content else ""


def _cpu_seconds() -> float:
    """User and system time of this process and of the children it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
