"""Figures become SVG, PNG, HTML and terminal text with everything in them that was asked for."""

import math
import xml.etree.ElementTree as ElementTree

from harken.lab.drawing import COLOURS, colours_of, draw_png, draw_svg
from harken.lab.experiment import Experiment, Findings, Settings
from harken.lab.figure import Bars, Figure, Group, Heat, Lines, Mark, Series
from harken.lab.page import draw_page
from harken.lab.plot import plot
from harken.lab.report import Report

LINES = Lines(
    "falling",
    "step",
    "loss <nats>",
    [
        Series("one & only", [1, 10, 100], [1.0, 0.1, 0.01], low=[0.5, 0.05, 0.005], high=[2, 0.2, 0.02]),
        Series("b", [1, 10], [math.inf, 1]),
    ],
    log_x=True,
    log_y=True,
    marks=[Mark(0.5, "chance"), Mark(7.0, "seven", axis="x")],
)
BARS = Bars(
    "share",
    "",
    "runs",
    ["x", "y"],
    [Group("g", [0.25, 0.75], low=[0.2, 0.7], high=[0.3, 0.8]), Group("h", [0.5, math.nan])],
)
HEAT = Heat("shades", "key", "query", ["k1", "k2"], ["q1"], [[0.25, 0.75]], low=0, high=1, form="{:.2f}")
FIGURE = Figure("A title", [LINES, BARS, HEAT], "seven seeds")


def words_of(svg: str) -> list[str]:
    return [
        "".join(element.itertext()).strip()
        for element in ElementTree.fromstring(svg).iter()
        if element.tag.endswith("}text")
    ]


def test_a_long_title_and_note_go_on_in_a_next_line() -> None:
    note = "made here: " + ", ".join(f"kind {number}" for number in range(40)) + "."
    words = words_of(
        draw_svg(Figure("A claim in far too many words to stand on one line of a figure, is it not?", [BARS], note))
    )
    parts = [line for line in words if "kind" in line]
    assert len(parts) >= 3 and all(len(line) < 130 for line in parts) and " ".join(parts) == note
    assert not any(line.startswith("A claim") and line.endswith("not?") for line in words)


def test_an_svg_says_everything_as_text() -> None:
    words = words_of(draw_svg(FIGURE))
    for wanted in (
        "A title",
        "seven seeds",
        "falling",
        "loss <nats>",
        "one & only",
        "chance",
        "seven",
        "0.25",
        "0.75",
        "q1",
        "k2",
    ):
        assert wanted in words
    assert "nan" not in " ".join(words)


def test_the_same_figure_is_the_same_file() -> None:
    assert draw_svg(FIGURE) == draw_svg(FIGURE)


def test_a_png_is_one() -> None:
    assert draw_png(FIGURE).startswith(b"\x89PNG\r\n")


def test_powers_of_ten_are_readable() -> None:
    far = Lines("", "x", "y", [Series("", [1, 2], [1e-12, 1e6])], log_y=True)
    assert sum(word.startswith("10⁻") for word in words_of(draw_svg(Figure("t", [far])))) >= 3


def test_colours() -> None:
    twins = Lines("", "", "", [Series("a", [1], [1], colour=2), Series("b", [1], [1], colour=2, dashed=True)])
    assert colours_of(twins) == [COLOURS[2]] * 2
    ramp = colours_of(Lines("", "", "", [Series(str(n), [1], [1]) for n in range(12)], ordered=True))
    assert len(set(ramp)) == 12


def test_lines_in_the_terminal() -> None:
    drawn = plot(Figure("", [LINES]), width=60).splitlines()
    assert drawn[:2] == ["falling", "loss <nats>"]
    assert drawn[2].startswith("   1 |a") and drawn[13].startswith("0.01 |") and drawn[13].endswith("a")
    assert sum(line.count("a") for line in drawn[2:14]) == 3
    assert drawn[-1].strip() == "a: one & only   b: b"
    assert all(len(line) <= 60 for line in drawn)


def test_bars_and_shades_in_the_terminal() -> None:
    bars = plot(Figure("", [BARS])).splitlines()
    blocks = {line[:3]: line.count("█") for line in bars[2:]}
    assert blocks["y g"] == 60 and blocks["x g"] == 20 and blocks["x h"] == 40 and blocks["y h"] == 0
    assert plot(Figure("", [HEAT])).splitlines()[-1] == "q1  ░ 0.25  ▓ 0.75"


def test_a_page_is_complete_and_harmless() -> None:
    experiment = Experiment("try", "C0", "<b>bold</b> & true", "shows", lambda settings, progress: findings)
    findings = Findings(["kind", "n"], [["<i>", 1234], ["b", 0.5]], False, "0 < 1", FIGURE)
    report = Report(experiment, Settings(), findings, 1.0, 2.0)
    page = draw_page([report, report])
    assert "<b>" not in page and "&lt;i&gt;" in page and "1,234" in page
    assert "does not hold: 0 &lt; 1" in page
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) > 20 and len(set(ids) - {"try"}) == len(ids) - 2  # no id twice but the two sections'
