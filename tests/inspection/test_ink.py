"""Strokes as pictures: dots in a terminal, a path a stroke in SVG, and refusals."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from harken.errors import UserError
from harken.inspection.ink import InkPicture

CROSS = [np.array([[0.0, 2.0], [4.0, 2.0]]), np.array([[2.0, 0.0], [2.0, 4.0]])]


def test_a_terminal_shows_the_strokes() -> None:
    lines = InkPicture([CROSS, CROSS[:1]], ["cross", ""]).to_terminal(width=5).split("\n")
    assert lines == ["  ⡇", "⠉⠉⡏⠉⠉", "  ⠃", "cross", "", "⠉⠉⠉⠉⠉"]


def test_svg_has_a_path_for_each_stroke_inside_its_sheet() -> None:
    text = InkPicture([CROSS] * 30 + [[np.array([[1.0, 1.0]])]], ["<t>"] * 31).to_svg()
    root = ElementTree.fromstring(text)
    paths = [element.attrib["d"] for element in root if element.tag.endswith("path")]
    assert len(paths) == 61 and paths[-1].count("L") == 1  # a dot is a line of no length
    numbers = np.array([[float(n) for n in pair.split()] for d in paths for pair in re.split("[ML]", d) if pair])
    assert numbers.min() >= 0 and (numbers.max(0) <= [float(root.attrib["width"]), float(root.attrib["height"])]).all()
    assert [element.text for element in root if element.tag.endswith("text")] == ["<t>"] * 31


def test_one_scale_for_all_and_y_downwards() -> None:
    small, large = CROSS, [stroke * 2 for stroke in CROSS]
    text = InkPicture([small, large]).to_svg()
    paths = re.findall(r'd="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', text)
    wide = [float(path[2]) - float(path[0]) for path in paths]
    assert wide[2] == pytest.approx(2 * wide[0], abs=0.2)
    assert float(paths[1][3]) > float(paths[1][1])


def test_files_of_every_kind(tmp_path: Path) -> None:
    picture = InkPicture([CROSS], ["x"])
    assert picture.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    page = picture.save(tmp_path / "a.html").read_text()
    assert "<svg" in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "<svg" in picture._repr_html_()


def test_what_is_no_drawing_is_refused() -> None:
    with pytest.raises(UserError, match="2 captions do not fit 1 drawings"):
        InkPicture([CROSS], ["a", "b"])
    with pytest.raises(UserError, match="not a finite number"):
        InkPicture([[np.array([[0.0, np.nan]])]])
