"""What holds for every kind of picture: all formats, no injection, no network, no line too wide, equal files."""

import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len
from rich.console import Console

import harken
from harken.errors import UserError
from harken.inspection import AlignmentMap, Picture

SVG = "{http://www.w3.org/2000/svg}"


class Page(HTMLParser):
    """Every tag, and everything a page would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [
            str(v) for k, v in attributes if k in ("src", "href", "xlink:href") and not str(v).startswith("#")
        ]
        self.handlers += [name for name, _ in attributes if name.startswith("on")]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_svg_is_well_formed_and_named(picture: Picture) -> None:
    root = ElementTree.fromstring(picture.to_svg())
    assert root.tag == f"{SVG}svg" and root.get("role") == "img" and root.get("aria-label")
    words = " ".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))
    assert any(word in words for word in ("<b>&�", "word", "LSTM"))
    style = "".join(element.text or "" for element in root.iter(f"{SVG}style"))
    assert "prefers-color-scheme:dark" in style and "dominant-baseline" not in picture.to_svg()


def test_svg_fits_a_window_and_is_the_same_file_twice(picture: Picture) -> None:
    first = picture.to_svg()
    assert first == picture.to_svg()
    assert float(re.findall(r' width="([\d.]+)pt"', first)[0]) * 4 / 3 < 1400


def test_svg_has_no_colour_that_dark_mode_leaves_behind(picture: Picture) -> None:
    drawing = picture.to_svg()
    style, rest = drawing.split("</style>", 1)
    for kind, colour in set(re.findall(r"(fill|stroke): (#[0-9a-f]{6})", rest)):
        assert f'{kind}: {colour}"]' in style or (colour == "#ffffff" and "stroke-dasharray" in rest)


def test_png_is_an_image_on_white_paper(picture: Picture) -> None:
    image = np.asarray(Image.open(io.BytesIO(picture.to_png(dpi=50))).convert("RGB"))
    assert (image[:3] == 255).all() and (image[-3:] == 255).all() and (image < 128).any()


def test_page_is_complete_inert_and_fetches_nothing(picture: Picture) -> None:
    page = picture.to_html()
    found = Page(page)
    assert page.startswith("<!doctype html>") and '<html lang="en">' in page and "prefers-color-scheme: dark" in page
    assert "b" not in found.tags and "\x1b" not in page and found.handlers == []
    assert [link for link in found.links if not link.startswith("data:image/png")] == []
    assert not re.search(r"https?://(?!www\.w3\.org/)", page) and "@import" not in page
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids)) or "clipPath" in page  # equal ids name equal clips


def test_page_has_a_table_for_readers_who_cannot_see(picture: Picture) -> None:
    page = picture.to_html()
    assert '<table class="map' in page or '<table class="values"' in page or "Handwriting" in page


@pytest.mark.parametrize("width", [24, 40, 80, 120])
@pytest.mark.parametrize("color", [True, False])
def test_no_line_is_wider_than_the_terminal(picture: Picture, width: int, color: bool) -> None:
    drawn = picture.to_terminal(width, color)
    lines = plain(drawn).split("\n")
    table = type(picture).__name__ == "FlowPicture"  # four columns of its table always stay
    assert max(cell_len(line) for line in lines) <= (max(width, 48) if table else width)
    assert ("\x1b[" in drawn) is (color and type(picture).__name__ not in ("InkPicture", "SignalWeights")) or color
    assert "\x1b" not in plain(drawn)


def test_rich_prints_it(picture: Picture) -> None:
    file = io.StringIO()
    Console(file=file, width=100).print(picture)
    assert [line.rstrip() for line in file.getvalue().splitlines()] == picture.to_terminal(100, False).split("\n")


@pytest.mark.parametrize("ending", [".html", ".svg", ".png"])
def test_save_writes_whole_files_and_leaves_nothing_else(picture: Picture, tmp_path: Path, ending: str) -> None:
    path = picture.save(tmp_path / "new" / f"picture{ending}")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name] and path.stat().st_size > 1000
    assert path.stat().st_mode & 0o777 == 0o644


def test_other_endings_are_refused(picture: Picture, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"name the file \.html, \.svg or \.png"):
        picture.save(tmp_path / "picture.pdf")


def test_a_long_title_goes_on_in_a_next_line() -> None:
    title = "a title of far too many words for one line, because somebody put a whole sentence into it " * 2
    root = ElementTree.fromstring(AlignmentMap(["a"], ["b"], [[1.0]], title).to_svg())
    lines = [str(element.text) for element in root.iter(f"{SVG}text") if "13px" in str(element.get("style"))]
    assert len(lines) > 2 and " ".join(lines) == title
    assert float(str(root.get("width")).removesuffix("pt")) < 480


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = AlignmentMap(["a"], ["b"], [[1.0]]).save(tmp_path / "map.svg")
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"map.svg cannot be written \(No space left on device\)"):
        AlignmentMap(["c"], ["d"], [[0.5]]).save(path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_matplotlib_is_loaded_only_to_draw_and_pyplot_never() -> None:
    program = (
        "import sys; from harken.inspection import AlignmentMap\n"
        "picture = AlignmentMap(['$a'], ['é_$'], [[1.0]])\n"
        "assert 'rich' not in sys.modules\n"
        "picture.to_terminal(); assert 'matplotlib' not in sys.modules\n"
        "picture.to_png(); assert 'matplotlib.pyplot' not in sys.modules"
    )
    source = str(Path(harken.__file__).parents[1])
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": source})
