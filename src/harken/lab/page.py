"""Reports as one self-contained HTML page: verdict, figure and table of each experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harken.inspection.figure.page import page, section, text, value_table

if TYPE_CHECKING:
    from harken.lab.report import Report


def draw_page(reports: Sequence[Report]) -> str:
    """A whole HTML document, one section for each report."""
    title = reports[0].experiment.statement if len(reports) == 1 else "harken lab"
    return page(title, "\n".join(_report(report) for report in reports))


def _report(report: Report) -> str:
    from harken.lab.report import cell_text

    found, experiment = report.findings, report.experiment
    rows = [[cell_text(cell) for cell in row] for row in found.rows]
    return (
        f'<article id="{text(experiment.name)}"><h1>{text(experiment.name)}</h1>\n'
        f'<p class="about">{text(experiment.statement)}</p>\n<p class="verdict">{text(report.verdict)}</p>\n'
        f"{_paragraph(found.explanation)}{section(found.figure)}{value_table(found.columns, rows)}\n"
        f'<p class="note">seed {report.settings.seed}, {report.seconds:.0f} s, {report.cpu_seconds:.0f} CPU s</p>'
        "</article>"
    )


def _paragraph(content: str) -> str:
    return f"<p>{text(content)}</p>" if content else ""
