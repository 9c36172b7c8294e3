"""Surprisal as a picture: bars in proportion, in every format, and words that could break it."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from harken.errors import UserError
from harken.inspection.surprisal import TALL, Surprisal


def test_bars_are_in_proportion() -> None:
    places, *_ = Surprisal(["a", "b", "c"], [1.0, 2.0, 4.0]).places()
    assert [place.height for place in places] == [TALL / 4, TALL / 2, TALL]
    lines = Surprisal(["a", "b"], [1.0, 4.0]).to_terminal(width=40, color=False).splitlines()
    assert [line.count("█") for line in lines[:2]] == [7, 31]
    assert lines[2] == "mean 2.50 nats, perplexity 12.18"


def test_a_long_text_wraps() -> None:
    places, width, height = Surprisal(["word"] * 100, [1.0] * 100).places()
    assert max(place.x + place.width for place in places) <= width - 24 < 840 and height > 500


def test_every_format_holds_the_tokens(tmp_path: Path) -> None:
    picture = Surprisal(["<b>", "a b", "⏎", ""], [0.1, 3.0, 0.2, 1.0], title="so & so")
    root = ElementTree.fromstring(picture.to_svg())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "so & so" and texts[2:] == ["<b>", "a␣b", "⏎", "∅"]
    assert "&lt;b&gt;" in picture.to_html() and "<b>" not in picture.to_html()
    assert picture.save(tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="2 tokens and 1 numbers"):
        Surprisal(["a", "b"], [1.0])
    with pytest.raises(UserError, match="finite number"):
        Surprisal(["a"], [float("inf")])
