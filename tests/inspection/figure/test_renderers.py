"""The renderers on descriptions: values, labels, scales and colours arrive in every medium."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from harken.inspection.figure import Bars, Figure, Group, Heat, Lines, Mark, Series
from harken.inspection.figure.page import draw_page, heat_table
from harken.inspection.figure.palette import DARK, LIGHT, css
from harken.inspection.figure.paper import draw_svg
from harken.inspection.figure.paper.charts import colours_of
from harken.inspection.figure.spec import figure_from_dict
from harken.inspection.figure.terminal import draw_lines
from harken.inspection.figure.text import cut, fill, wrap
from harken.inspection.figure.values import round_ticks, table

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
HEAT = Heat("shades", "key", "query", ["k1", "k2", "k3"], ["q1"], [[0.25, 0.75, 0.0]], low=0, high=1, form="{:.2f}")
FIGURE = Figure("A title", [LINES, BARS, HEAT], "seven seeds")


def words_of(svg: str) -> list[str]:
    return [
        "".join(element.itertext()).strip()
        for element in ElementTree.fromstring(svg).iter()
        if element.tag.endswith("}text")
    ]


def text_of(figure: Figure, width: int = 60) -> list[str]:
    return [line.plain.rstrip() for line in draw_lines([figure], width, color=False)]


def test_an_svg_says_everything_as_text() -> None:
    words = words_of(draw_svg([FIGURE]))
    expected = ["A title", "seven seeds", "falling", "loss <nats>", "one & only", "chance", "seven", "0.25", "q1", "k2"]
    assert [word for word in expected if word not in words] == []
    assert "nan" not in " ".join(words) and "0.00" not in words  # zero is left blank


def test_pointing_at_a_value_shows_it() -> None:
    root = ElementTree.fromstring(draw_svg([FIGURE]))
    hints = [str(element.text) for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert {"one & only at 10: 0.1", "b at 10: 1", "y g: 0.75", "q1 ← k2: 0.750"} <= set(hints)
    assert len(hints) == 3 + 1 + 3 + 3


def test_shade_is_the_opacity_of_one_ink() -> None:
    drawn = draw_svg([Figure("", [HEAT])])
    cells = re.findall(rf"fill: {css(LIGHT.ink)}; fill-opacity: ([\d.]+)", drawn)[:2]
    assert cells == ["0.25", "0.75"]
    assert f'[style*="fill: {css(LIGHT.ink)}"]{{fill:{css(DARK.ink)}!important}}' in drawn


def test_signed_shades_have_two_inks_and_one_scale() -> None:
    panel = Heat("", "word", "unit", ["a", "b"], ["u"], [[-2.0, 4.0]], form="", signed=True)
    assert panel.limits == (-4.0, 4.0) and panel.strengths().tolist() == [[-0.5, 1.0]]
    assert f"fill: {css(LIGHT.warm)}; fill-opacity: 0.5" in draw_svg([Figure("", [panel])])
    page = heat_table(panel)
    assert 'style="--w:0.500" class="neg" data-v="-2"' in page and "-4<i class=signed></i>4" in page


def test_logarithmic_shades() -> None:
    panel = Heat("", "", "", ["a", "b", "c"], ["r"], [[1.0, 10.0, 100.0]], log=True)
    assert panel.strengths().tolist() == [[0.0, 0.5, 1.0]]


def test_powers_of_ten_are_readable() -> None:
    far = Lines("", "x", "y", [Series("", [1, 2], [1e-12, 1e6])], log_y=True)
    assert sum(word.startswith("10⁻") for word in words_of(draw_svg([Figure("t", [far])]))) >= 3


def test_counted_things_have_whole_ticks() -> None:
    words = words_of(draw_svg([Figure("", [Lines("", "words", "BLEU", [Series("", [3, 6, 9, 12], [1, 2, 3, 4])])])]))
    assert [word for word in words if word in ("3", "6", "9", "12")][:4] == ["3", "6", "9", "12"]
    assert not any("7.5" in word for word in words)


def test_one_legend_serves_panels_that_share_it() -> None:
    panels = [Lines(title, "x", "y", [Series("LSTM", [1, 2], [1, 2])]) for title in "ab"]
    assert words_of(draw_svg([Figure("", panels)])).count("LSTM") == 1
    other = Lines("c", "x", "y", [Series("GRU", [1, 2], [1, 2])])
    words = words_of(draw_svg([Figure("", [*panels, other])]))
    assert words.count("LSTM") == 2 and words.count("GRU") == 1


def test_series_may_share_a_colour_or_run_along_a_ramp() -> None:
    same = Lines("", "", "", [Series("a", [1], [1], colour=2), Series("b", [1], [1], colour=2, dashed=True)])
    assert colours_of(same) == [css(LIGHT.series[2])] * 2
    ramp = colours_of(Lines("", "", "", [Series(str(n), [1], [1]) for n in range(12)], ordered=True))
    assert len(set(ramp)) == 12


def test_light_and_dark_are_complete_and_distinct() -> None:
    for palette in (LIGHT, DARK):
        assert len(palette.series) == len(set(palette.series)) == 8
        assert palette.shade(0.0) == palette.empty and palette.shade(1.0) == palette.ink
        assert palette.shade(-1.0) == palette.warm


def test_lines_in_the_terminal_stand_at_their_values() -> None:
    drawn = text_of(Figure("", [LINES]))
    assert drawn[:2] == ["falling", "loss <nats>"]
    assert drawn[2].startswith("   1 ┤●") and drawn[13].startswith("0.01 ┤") and drawn[13].endswith("●")
    assert sum(line.count("●") for line in drawn[2:14]) == 3 and drawn[2].count("▲") == 1
    assert drawn[-1].strip() == "● one & only  ▲ b  ┄ chance"


def test_bars_in_the_terminal_are_in_proportion() -> None:
    drawn = text_of(Figure("", [BARS]), 60)
    blocks = {line[:3]: line.count("█") for line in drawn[2:]}
    assert blocks == {"x g": 16, "x h": 32, "y g": 49, "y h": 0} and drawn[-1].endswith("-")


def test_a_table_in_the_terminal_narrows_with_it() -> None:
    panel = Heat("", "", "", ["the", "black", "cat"], ["ein Wort"], [[0.9, 0.1, 0.0]], 0, 1, "{:.2f}")
    assert text_of(Figure("", [panel]), 40) == ["          the   black cat", "ein Wort  █ .90 ░ .10 ·"]
    narrow = text_of(Figure("", [panel]), 16)
    assert narrow[-1] == "ein W…  ██░░·" and narrow[0].split() == ["b"] and narrow[4].split() == ["e", "k", "t"]
    parts = text_of(Figure("", [panel]), 12)
    assert parts[-1] == "ein W…  ·" and parts.count("") == 1


def test_sixty_words_are_drawn_in_two_parts() -> None:
    names = [f"word{index}" for index in range(60)]
    drawn = text_of(Figure("", [Heat("", "", "", names, names, (np.eye(60) * 0.75).tolist(), 0, 1, "{:.2f}")]), 80)
    assert drawn.count("") == 1 and max(map(len, drawn)) <= 80
    assert sum("██" in line for line in drawn) == 60
    assert sum("word59 .75" in line for line in drawn) == 1  # named at the end of its row


def test_values_as_tables() -> None:
    headings, rows = table(LINES)
    assert headings == ["step", "one & only", "b"] and rows == [["1", "1", ""], ["10", "0.1", "1"], ["100", "0.01", ""]]
    assert table(BARS)[1] == [["x", "0.25", "0.5"], ["y", "0.75", ""]]
    assert table(HEAT) == (["query ↓ key →", "k1", "k2", "k3"], [["q1", "0.25", "0.75", ""]])


def test_a_heat_map_on_a_page_is_a_table_with_exact_weights() -> None:
    page = heat_table(HEAT)
    assert re.findall(r'<td style="--w:([\d.]+)"[^>]*>([^<]*)</td>', page) == [
        ("0.250", "0.25"),
        ("0.750", "0.75"),
        ("0.000", ""),
    ]
    assert re.findall(r'<th scope="(\w+)" dir="auto"><span>(\w+)', page) == [
        ("col", "k1"),
        ("col", "k2"),
        ("col", "k3"),
        ("row", "q1"),
    ]


def test_named_figures_get_a_picker() -> None:
    figures = [Figure(name, [HEAT], name=name) for name in ("layer 1", "layer 2")]
    page = draw_page("gates", figures)
    assert re.findall(r'<button [^>]*data-view="([^"]*)"', page) == ["layer 1", "layer 2"]
    assert page.count('<section data-view="layer 1">') == 1 and page.count('<section data-view="layer 2" hidden>') == 1
    assert '<div class="picker"' not in draw_page("one", figures[:1])


def test_a_figure_survives_json() -> None:
    found = json.loads(json.dumps(asdict(FIGURE)).replace("NaN", "null").replace("Infinity", "null"))
    again = figure_from_dict(found)
    assert draw_svg([again]) == draw_svg([FIGURE])


def test_a_gap_in_a_band_or_a_whisker_survives_json() -> None:
    gap = [1.0, math.nan, 2.0]
    lines = Lines("", "", "", [Series("a", [1, 2, 3], gap, low=gap, high=gap)])
    bars = Bars("", "", "", ["x", "y", "z"], [Group("g", gap, low=gap, high=gap)])
    text = json.dumps(asdict(Figure("gaps", [lines, bars]))).replace("NaN", "null")
    again = figure_from_dict(json.loads(text))
    assert draw_svg([again]) == draw_svg([Figure("gaps", [lines, bars])])


def test_round_ticks_lie_within_the_range() -> None:
    assert round_ticks(0.0, 1.0, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert round_ticks(-7, 33, 4) == [0.0, 10.0, 20.0, 30.0]


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60), st.integers(2, 30))
def test_words_keep_within_their_columns(text: str, width: int) -> None:
    assert all(cell_len(line) <= width for line in wrap(text, width))
    assert cell_len(cut(text, width)) <= width and cell_len(fill(text, width)) == width
