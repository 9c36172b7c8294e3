"""Maps over pictures in every form: what is bright is what was looked at."""

import re

import numpy as np
import pytest

from harken.data.images.files import decode_image
from harken.errors import UserError
from harken.inspection.caption_map import CaptionMap, CaptionPage

IMAGE = np.full((8, 8, 3), 210, np.uint8)


@pytest.fixture
def picture() -> CaptionMap:
    weights = np.zeros((3, 2, 2))
    weights[0], weights[1, 0, 1], weights[2, 1, 0] = 0.25, 1.0, 0.6
    return CaptionMap(IMAGE, ["a", "<b>", "dot"], weights, notes=["said"], boxes=[(0.0, 0.0, 0.5, 0.5)])


def test_terminal(picture: CaptionMap) -> None:
    assert picture.to_terminal(width=80, color=False).splitlines() == [
        "a     <b>   dot",
        "████  ··██  ····",
        "████  ····  ██··",
    ]
    narrow = picture.to_terminal(width=10, color=False).splitlines()
    assert narrow[0] == "a     <b>" and narrow[4] == "dot" and max(map(len, narrow)) <= 10
    assert "\x1b[" in picture.to_terminal(width=80, color=True)


def test_svg_veils_what_was_not_looked_at(picture: CaptionMap) -> None:
    drawn = picture.to_svg()
    veils = [float(value) for value in re.findall(r'fill-opacity="([\d.]+)"', drawn)]
    assert veils == [0.0] * 4 + [0.78, 0.0, 0.78, 0.78] + [0.78, 0.78, 0.0, 0.78]
    assert drawn.count("<use ") == 4 and drawn.count("data:image/png") == 1 and drawn.count('class="box"') == 1
    assert "&lt;b&gt;" in drawn and "<b>" not in drawn and "said" in drawn


def test_a_page_of_several(picture: CaptionMap) -> None:
    page = CaptionPage([picture, picture], "Worst", "two of them")
    text = page.to_html()
    assert text.count("<svg") == 2 and "<h1>Worst</h1>" in text and "two of them" in text
    assert page.to_terminal(80, False).startswith("Worst\n\ntwo of them")
    assert CaptionPage([]).to_svg().startswith("<svg")


def test_png_has_the_picture_bright_and_dark(picture: CaptionMap) -> None:
    pixels = decode_image(picture.to_png(), "map")
    colours = {tuple(colour) for colour in pixels.reshape(-1, 3).tolist()}
    dark = {grey for grey, green, blue in colours if grey == green == blue}
    assert 210 in dark and dark & {45, 46, 47}  # 210 x (1 - 0.78)


def test_saving(picture: CaptionMap, tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    for ending in ("html", "svg", "png"):
        assert picture.save(folder / f"map.{ending}").stat().st_size > 500
    with pytest.raises(UserError, match=r"name the file \.html, \.svg or \.png"):
        picture.save(folder / "map.gif")


def test_weights_that_do_not_fit() -> None:
    with pytest.raises(UserError, match="pass words x rows x columns"):
        CaptionMap(IMAGE, ["a"], np.zeros((1, 4)))
    with pytest.raises(UserError, match="ask for 2 x 2 x 2"):
        CaptionMap(IMAGE, ["a", "b"], np.zeros((1, 2, 2)))
