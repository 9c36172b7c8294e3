"""Pictures of forecasts."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np

from harken.inspection.fan import FanPicture


def picture(**extra: np.ndarray) -> FanPicture:
    values = np.array([[1.0, 2.0, 4.0], [1.0, 3.0, 6.0]])
    labels = [f"2024-01-0{day}" for day in range(1, 7)]
    return FanPicture("<sales>", np.array([5.0, 1.0, 2.0, 3.0]), [0.1, 0.5, 0.9], values, labels, **extra)


def test_bands_and_range() -> None:
    made = picture(truth=np.array([9.0]))
    [(name, low, high)] = made.bands
    assert name == "0.1 to 0.9" and low.tolist() == [1.0, 1.0] and high.tolist() == [4.0, 6.0]
    assert made.range == (1.0, 9.0)
    assert made.label(4) == "2024-01-05"
    assert 4 in made.label_places()


def test_the_drawing_is_whole() -> None:
    root = ElementTree.fromstring(picture(truth=np.array([2.0]), shade=np.array([0.0, 0.5, 0.25, 0.25])).to_svg())
    kinds = [element.get("class") for element in root.iter()]
    assert kinds.count("ink") == 3 + 1  # one a step that counts, and one in the legend
    assert "truth" in kinds and "band" in kinds
    assert root.get("aria-label") == "<sales>"


def test_every_form_is_written(tmp_path: Path) -> None:
    made = picture(shade=np.ones(4) / 4)
    assert made.save(tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    page = made.save(tmp_path / "a.html").read_text()
    assert "2024-01-05" in page and "&lt;sales&gt;" in page and "http-equiv" not in page
    lines = made.to_terminal(60, color=False).splitlines()
    assert lines[0] == "<sales>" and max(map(len, lines)) <= 60 and any("●" in line for line in lines)
    assert "\x1b[" in made.to_terminal(60, color=True)


def test_a_flat_series_can_be_drawn() -> None:
    flat = FanPicture("", np.array([2.0, 2.0]), [0.5], np.array([[2.0]]))
    assert flat.range == (1.0, 3.0) and flat.bands == []
    assert "●" in flat.to_terminal(40, color=False)
