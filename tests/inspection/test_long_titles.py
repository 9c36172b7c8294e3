"""A title goes on in a next line where it is long: inside the paper, in drawings and in dots, whatever the picture."""

import xml.etree.ElementTree as ElementTree
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.inspection.alignment import AlignmentMap
from harken.inspection.fan import FanPicture
from harken.inspection.hop_map import HopMap
from harken.inspection.picture import Picture
from harken.inspection.signal_weights import SignalWeights
from harken.inspection.surprisal import Surprisal
from harken.inspection.svg import BROAD, TITLE
from harken.inspection.words import breadth, columns, printable, wrap

LONG = "a title of far too many words for one line, because somebody has put a whole sentence into it, " * 3


def pictures(title: str) -> list[Picture]:
    return [
        AlignmentMap(["a"], ["b"], [[1.0]], title),
        FanPicture(title, np.array([1.0]), [0.1, 0.5, 0.9], np.array([[1.0, 2.0, 3.0]])),
        HopMap(["a fact"], [[1.0]], title, "an answer"),
        SignalWeights(np.ones((3, 1)), [0.0, 0.5, 1.0], "up", title),
        Surprisal(["a", "b"], [1.0, 2.0], title),
    ]


@pytest.mark.parametrize("picture", pictures(LONG), ids=lambda picture: type(picture).__name__)
def test_every_line_of_a_title_is_on_the_paper(picture: Picture) -> None:
    root = ElementTree.fromstring(picture.to_svg())
    left, top, width, height = (float(number) for number in root.attrib["viewBox"].split())
    lines = [element for element in root if element.get("class") == "title"]
    assert " ".join(str(line.text) for line in lines).startswith(LONG.strip())
    assert all(48 + TITLE * breadth(str(line.text)) <= width for line in lines)
    assert [float(line.attrib["y"]) for line in lines] == [36 - 24.0 * (len(lines) - 1 - n) for n in range(len(lines))]
    assert top + 36 == float(lines[0].attrib["y"]) and left == 0 and width <= BROAD + 260
    paper = next(element for element in root if element.get("class") == "paper")
    assert float(paper.attrib["y"]) == top and float(paper.attrib["height"]) == height


@pytest.mark.parametrize("number", range(5))
def test_dots_grow_with_the_lines_and_not_in_width(number: int) -> None:
    short, long = (pictures(title)[number].to_png() for title in ("one line " * 5, LONG))
    sizes = [(int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) for content in (short, long)]
    assert sizes[0][1] < sizes[1][1] and sizes[1][0] < 1400  # dots, 150 an inch


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60), st.integers(2, 30))
def test_wrapping_keeps_every_letter_and_the_width(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(columns(line) <= width for line in lines)
    kept, given_text = ("".join(content).replace(" ", "") for content in (lines, printable(text)))
    assert normalize("NFC", kept) == normalize("NFC", given_text)
