"""The picture of hops over facts: what it says in every form."""

import re
from xml.etree import ElementTree

import pytest

from harken.errors import UserError
from harken.inspection import HopMap

FACTS = ["Mary <went> to the hall.", "Bill ran.", "Ann slept."]
HOPS = [[0.9, 0.06, 0.0], [0.2, 0.8, 0.0]]


def picture() -> HopMap:
    return HopMap(FACTS, HOPS, "Where is Mary?", "hall", needed=[1])


def test_the_terminal_shows_facts_down_and_hops_across() -> None:
    lines = picture().to_terminal(width=60, color=False).splitlines()
    assert lines[0] == "Where is Mary?   hall" and lines[1].split() == ["hop", "1", "hop", "2"]
    assert lines[2].startswith("  Mary <went>") and ".90" in lines[2] and ".20" in lines[2]
    assert lines[3].startswith("● Bill ran.") and lines[-1] == "● needed"
    assert all(len(line) <= 30 for line in picture().to_terminal(width=30, color=False).splitlines())
    assert "\x1b[" in picture().to_terminal(width=60, color=True)


def test_the_drawing_is_valid_and_holds_every_number() -> None:
    drawn = picture().to_svg()
    root = ElementTree.fromstring(drawn)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Mary <went> to the hall." in texts and "0.90" in texts and "0.06" in texts
    assert len(root.findall(".//{http://www.w3.org/2000/svg}circle")) == 2  # the fact and the legend
    unknown = HopMap(FACTS, HOPS, "Where is Mary?", "hall").to_svg()
    assert "<circle" not in unknown and "needs" not in unknown


def test_page_and_dots(tmp_path: object) -> None:
    page = picture().to_html()
    assert page.startswith("<!doctype html>") and not re.search(r'(?:src|href)="', page)
    assert picture().to_png().startswith(b"\x89PNG")


def test_weights_must_fit() -> None:
    with pytest.raises(UserError, match="2 x 3 but the words ask for 2 x 1"):
        HopMap(["one"], HOPS, "Who?", "me")
