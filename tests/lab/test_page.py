"""A page of reports holds verdict, figure and table of each experiment, and nothing that runs or is fetched."""

import re

from harken.inspection.figure import Bars, Figure, Group
from harken.lab.experiment import Experiment, Findings, Settings
from harken.lab.report import Report, draw_page

FIGURE = Figure("A title", [Bars("share", "", "runs", ["x<", "y"], [Group("g", [0.25, 0.75])])], "seven seeds")


def test_a_page_is_complete_and_harmless() -> None:
    findings = Findings(["kind", "n"], [["<i>", 1234], ["b", 0.5]], False, "0 < 1", FIGURE)
    experiment = Experiment("try", "<b>bold</b> & true", "shows", lambda settings, progress: findings)
    report = Report(experiment, Settings(), findings, 1.0, 2.0)
    page = draw_page([report, report])
    assert "<b>" not in page and "&lt;i&gt;" in page and "1,234" in page and page.count("<svg") == 2
    assert "does not hold: 0 &lt; 1" in page and "seven seeds" in page and "A title" in page
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)


def test_a_report_is_written_as_json_svg_and_on_request_png_and_html(tmp_path) -> None:
    findings = Findings(["n"], [[1]], True, "0 < 1", FIGURE)
    experiment = Experiment("try", "statement", "shows", lambda settings, progress: findings)
    written = Report(experiment, Settings(), findings, 1.0, 2.0).write(tmp_path, png=True, html=True)
    assert [path.name for path in written] == ["try.json", "try.svg", "try.png", "try.html"]
    assert "seven seeds" in written[1].read_text() and all(path.stat().st_size > 500 for path in written)
