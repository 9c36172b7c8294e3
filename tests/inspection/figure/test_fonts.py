"""Letters that the font of pictures lacks are drawn in an installed one, or named in a warning."""

import warnings
from typing import Any

import numpy as np
import pytest

from harken.inspection import AlignmentMap
from harken.inspection.figure import paper
from harken.inspection.figure.paper.fonts import installed_fonts


def draw(*words: str) -> bytes:
    picture = AlignmentMap(["the", "cat"], words, np.full((len(words), 2), 0.5))
    return paper.draw_png(picture.figures())


def test_letters_without_a_font_are_named_with_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "installed_fonts", dict)
    with pytest.warns(UserWarning, match="no installed font has the letters 猫 黒.*fonts-noto-cjk") as caught:
        draw("黒", "猫")
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="fonts-noto-core"):
        draw("แมว")


def test_letters_of_our_font_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw("chat", "кошка", "القطة", "שלום")


def test_letters_are_drawn_in_a_font_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    fonts: list[Any] = []
    sheet = paper.draw_sheet

    def drawn(figures: Any) -> Any:
        fonts.append(paper.matplotlib.rcParams["font.family"])
        return sheet(figures)

    monkeypatch.setattr(paper, "draw_sheet", drawn)
    monkeypatch.setattr(paper, "installed_fonts", lambda: {"DejaVu Sans Mono": {ord("猫")}, "DejaVu Serif": set()})
    draw("猫")
    assert fonts == [["DejaVu Sans"], ["DejaVu Sans", "DejaVu Sans Mono"]]


def test_installed_fonts_have_letters_and_no_boxes_for_all() -> None:
    fonts = installed_fonts()
    assert ord("a") in fonts["DejaVu Sans"] and not any(name.startswith("Last Resort") for name in fonts)
