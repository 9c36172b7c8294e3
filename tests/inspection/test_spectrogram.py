"""The spectrogram with its symbols: what is shown, to scale, in every place."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from harken.errors import UserError
from harken.inspection.spectrogram import SpectrogramPicture


@pytest.fixture
def picture() -> SpectrogramPicture:
    """A tone that rises for a second; "b", then "<a", then "b" again."""
    energies = np.full((20, 100), -10.0)
    energies[np.arange(100) // 5, np.arange(100)] = 0.0
    chances = np.zeros((4, 10))
    chances[0] = 1.0
    for column, row in ((2, 2), (5, 1), (8, 2)):
        chances[:, column] = 0.0
        chances[row, column] = 1.0
    said = [("b", 0.2, 0.3, 1.0), ("<a", 0.5, 0.6, 1.0), ("b", 0.8, 0.9, 1.0)]
    return SpectrogramPicture(energies, chances, ["–", "<a", "b", " "], 0.01, 0.1, said, "tone.wav: b<ab")


def test_rows_are_the_symbols_said_and_the_blank(picture: SpectrogramPicture) -> None:
    assert [row.name for row in picture.rows] == ["b", "<a", "–"]
    assert picture.chances_at(picture.rows[0], 10).tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    assert picture.chances_at(picture.rows[0], 5).tolist() == [0, 1, 0, 0, 1]


def test_the_sound_is_sampled_where_it_is(picture: SpectrogramPicture) -> None:
    shades = picture.sampled(20, 20)
    assert shades.shape == (20, 20)
    assert shades.argmax(0).tolist() == list(range(20))


def test_the_terminal_shows_sound_and_symbols_under_each_other(picture: SpectrogramPicture) -> None:
    drawn = picture.to_terminal(width=43, color=False).splitlines()
    assert drawn[0] == "tone.wav: b<ab"
    assert all(len(line) <= 43 for line in drawn)
    row = next(line for line in drawn if line.startswith("b "))
    full = [place - 3 for place, sign in enumerate(row) if sign == "█"]
    assert full == [8, 9, 10, 11, 32, 33, 34, 35]
    assert drawn[1].rstrip()[-1] in "▒▓█" and len(drawn[1].rstrip()) == 43  # the highest band, last in time
    assert "\x1b[" in picture.to_terminal(width=60, color=True)


def test_svg_html_and_png(picture: SpectrogramPicture) -> None:
    svg = picture.to_svg()
    names = [element.text for element in ET.fromstring(svg).iter() if (element.get("class") or "").startswith("name")]
    assert names == ["b", "<a", "–", "b", "<a", "b"]
    page = picture.to_html()
    assert "&lt;a" in page and "0.50 s" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert picture.to_png().startswith(b"\x89PNG")


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="do not fit 1 names"):
        SpectrogramPicture(np.zeros((3, 3)), np.zeros((2, 3)), ["–"], 0.01, 0.03, [], "x")
