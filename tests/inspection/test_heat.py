"""Heat maps: numbers in the terminal, drawings that hold every panel."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from harken.errors import UserError
from harken.inspection.heat import HeatMaps
from harken.inspection.shades import ShadeTable

ONE = ShadeTable(["a", "b", "c"], ["X", "Y"], [[1.0, 0.25, 0.0], [0.0, 0.75, 1.0]], "Tags <of> words")
TWO = ShadeTable(["X", "Y"], ["X", "Y"], [[0.5, 0.5], [0.125, 0.875]], "Next")


def test_panels_stand_one_below_the_other() -> None:
    text = HeatMaps([ONE, TWO]).to_terminal(width=60, color=False)
    assert text.index("Tags") < text.index("Next")
    assert ".25" in text and ".75" in text and ".88" in text


def test_a_drawing_holds_every_panel_at_its_place() -> None:
    svg = HeatMaps([ONE, TWO]).to_svg()
    root = ElementTree.fromstring(svg)
    inner = [child for child in root if child.tag.endswith("svg")]
    heights = [int(child.attrib["height"]) for child in inner]
    assert [int(child.attrib["y"]) for child in inner] == [0, heights[0]]
    assert int(root.attrib["height"]) == sum(heights)
    assert inner[0].attrib["aria-label"] == "Tags <of> words: 2 rows by 3 columns"
    assert "X ← b: 0.250" in svg


def test_every_form_is_written(tmp_path: Path) -> None:
    picture = HeatMaps([ONE, TWO])
    assert "<script" not in picture.to_html() and "http://" not in picture.to_html().replace("http://www.w3.org", "")
    assert picture.save(tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    tall, short = (HeatMaps(panels).to_png() for panels in ([ONE, TWO], [ONE]))
    assert int.from_bytes(tall[20:24]) > int.from_bytes(short[20:24])  # the height in the header


def test_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to draw"):
        HeatMaps([])
