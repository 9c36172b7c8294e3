from __future__ import annotations

import io
import os
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from harken.errors import UserError
from harken.inspection import AlignmentMap, alignment, palette
from harken.inspection.page import asset
from harken.inspection.words import columns

CAT = AlignmentMap(["the", "black", "cat"], ["le", "chat", "noir"], [[0.9, 0.1, 0], [0, 0.2, 0.8], [0.05, 0.85, 0.1]])
any_words = st.lists(st.text(min_size=1, max_size=12), min_size=0, max_size=20)


def long_map(size: int = 60) -> AlignmentMap:
    source, target = [f"word{index}" for index in range(size)], [f"mot{index}" for index in range(size)]
    return AlignmentMap(source, target, np.eye(size)[::-1] * 0.75, "long")


class Table(HTMLParser):
    """Reads the map back out of a page: headings, weights, and every tag that was opened."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[float] = []
        self.texts: dict[str, list[str]] = {"col": [], "row": []}
        self.tags: list[str] = []
        self.links: list[str] = []
        self._scope: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.links += [str(found[name]) for name in ("src", "href") if name in found]
        if tag == "td" and (found.get("style") or "").startswith("--w:"):
            self.cells.append(float(str(found["style"])[4:]))
        if tag == "th":
            self._scope = found.get("scope") if found.get("class") != "corner" else None
            if self._scope:
                self.texts[self._scope].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "th":
            self._scope = None

    def handle_data(self, data: str) -> None:
        if self._scope:
            self.texts[self._scope][-1] += data


def test_page_holds_words_and_weights_and_fetches_nothing() -> None:
    page = CAT.to_html()
    table = Table(page)
    assert table.texts == {"col": ["the", "black", "cat"], "row": ["le", "chat", "noir"]}
    assert table.cells == pytest.approx(CAT.weights.flatten().tolist())
    assert table.links == [] and "http" not in page and "@import" not in page and "url(" not in page
    assert "prefers-color-scheme: dark" in page and "position: sticky" in page
    assert '<html lang="en">' in page and "aria-label=" in page and "<title>Alignment</title>" in page


@pytest.mark.parametrize("word", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&amp;", "a\x1b[31mb"])
def test_words_are_inert_everywhere(word: str) -> None:
    picture = AlignmentMap([word], [word], [[1.0]], title=word)
    harmless = Table(AlignmentMap(["a"], ["b"], [[1.0]]).to_html()).tags
    assert Table(picture.to_html()).tags == harmless
    assert Table(picture._repr_html_()).tags == Table(AlignmentMap(["a"], ["b"], [[1.0]])._repr_html_()).tags
    texts = [
        element.text for element in ElementTree.fromstring(picture.to_svg()).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts[0] == word.replace("\x1b", "�")
    assert "\x1b" not in picture.to_html() and "\x1b" not in picture.to_terminal(80, color=False)


def test_notebook_piece_needs_no_script_and_styles_nothing_else() -> None:
    piece = CAT._repr_html_()
    assert "<script" not in piece
    assert 'title="noir ← black: 0.850"' in piece
    style = re.sub(r"@media[^{]*", "", piece[piece.index("<style>") + 7 : piece.index("</style>")])
    for selectors in re.findall(r"([^{}]+)\{", style):
        assert selectors.strip() == "" or "harken-map" in selectors


def test_svg_is_xml_with_one_hint_for_each_cell() -> None:
    root = ElementTree.fromstring(CAT.to_svg())
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "chat ← cat: 0.800" in titles
    assert len([title for title in titles if title and "←" in title]) == 9
    opacities = [float(element.get("fill-opacity", "0")) for element in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert 0.85 in opacities
    assert root.get("role") == "img" and "3 target words by 3 source words" in str(root.get("aria-label"))


def test_png_is_a_picture_with_dark_cells_where_weights_are_large() -> None:
    import matplotlib.image

    content = long_map().to_png()
    assert content.startswith(b"\x89PNG")
    pixels = matplotlib.image.imread(io.BytesIO(content))
    height, width = pixels.shape[:2]
    assert height > 1500 and width > 1500
    wanted = np.array(palette.LIGHT.shade(0.75)) / 255
    dark = (np.abs(pixels[:, :, :3] - wanted) < 0.02).all(-1)
    down, across = np.nonzero(dark)
    assert np.corrcoef(down, across)[0, 1] < -0.99  # the diagonal rises from left to right, as the weights do


def test_pictures_do_not_touch_pyplot() -> None:
    import subprocess
    import sys

    program = (
        "import sys; from harken.inspection import AlignmentMap\n"
        "assert not {'matplotlib', 'rich'} & set(sys.modules)\n"
        "AlignmentMap(['$a'], ['é_$'], [[1.0]]).to_png(); assert 'matplotlib.pyplot' not in sys.modules"
    )
    source = Path(alignment.__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(source)})


def test_terminal_in_three_layouts() -> None:
    wide = CAT.to_terminal(width=40, color=False).splitlines()
    assert wide[0] == "      the   black cat" and wide[2] == "chat  · .00 ░ .20 █ .80"
    narrow = CAT.to_terminal(width=14, color=False).splitlines()
    assert [line[6:] for line in narrow[:5]] == ["  b", "  l", "t a c", "h c a", "e k t"]
    assert narrow[6] == "chat  · ░░██"
    numbered = CAT.to_terminal(width=9, color=False).splitlines()
    assert numbered[-1].endswith("3 cat") and numbered[-2:] == ["2 black", "3 cat"]


def test_sixty_words_fit_eighty_columns_in_one_panel() -> None:
    drawn = long_map().to_terminal(width=80, color=False).splitlines()
    assert len(drawn) == 1 + 2 + 60 + 1 + len(drawn[64:])
    assert drawn[3].startswith("mot0 ") and drawn[3].endswith("█  word59 .75")
    assert "60 word59" in drawn[-1]


@settings(max_examples=60, deadline=None)
@given(source=any_words, target=any_words, width=st.integers(12, 120), color=st.booleans(), seed=st.integers(0, 99))
def test_no_line_is_wider_than_asked(source: list[str], target: list[str], width: int, color: bool, seed: int) -> None:
    weights = np.random.default_rng(seed).random((len(target), len(source)))
    drawn = AlignmentMap(source, target, weights, "title").to_terminal(width, color)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", drawn)
    assert all(columns(line) <= width for line in plain.split("\n"))


def test_colour_and_rich() -> None:
    deep = ";".join(map(str, palette.DARK.shade(0.9)))
    assert f"48;2;{deep}m" in CAT.to_terminal(80, color=True)
    file = io.StringIO()
    Console(file=file, width=60, force_terminal=True, color_system="truecolor").print(CAT)
    assert f"48;2;{deep}m" in file.getvalue()
    plain = io.StringIO()
    Console(file=plain, width=60).print(CAT)
    assert "█ .80" in plain.getvalue() and "\x1b" not in plain.getvalue()
    assert str(CAT).count("\n") == 3


@pytest.mark.parametrize("ending", [".html", ".svg", ".png", ".HTML"])
def test_save_writes_whole_files_and_leaves_nothing_else(tmp_path: Path, ending: str) -> None:
    path = CAT.save(tmp_path / "new" / f"map{ending}")
    assert [entry.name for entry in path.parent.iterdir()] == [f"map{ending}"]
    assert path.read_bytes() == (
        CAT.to_png() if ending == ".png" else getattr(CAT, f"to_{ending[1:].lower()}")().encode()
    )
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = CAT.save(tmp_path / "map.svg")
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"map.svg cannot be written \(No space left on device\)"):
        long_map(3).save(path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'cannot be written as "\.pdf"'):
        CAT.save(tmp_path / "map.pdf")
    with pytest.raises(UserError, match="are 1 x 2 but the words ask for 2 x 1"):
        AlignmentMap(["a"], ["b", "c"], [[0.5, 0.5]])
    with pytest.raises(UserError, match=r"at \(0, 1\) is not a finite number"):
        AlignmentMap(["a", "b"], ["c"], [[0.5, float("nan")]])
    with pytest.raises(UserError, match="weight is 2; weights lie between 0 and 1"):
        AlignmentMap(["a"], ["b"], [[2.0]])


@pytest.mark.parametrize(("source", "target"), [([], []), (["a"], []), ([], ["b"])])
def test_empty_sentences_can_be_drawn(source: list[str], target: list[str]) -> None:
    picture = AlignmentMap(source, target, np.zeros((len(target), len(source))))
    assert (
        picture.to_png() and picture.to_html() and picture._repr_html_() and picture.to_terminal(40, False) is not None
    )
    ElementTree.fromstring(picture.to_svg())


def test_style_sheet_and_palette_agree() -> None:
    style = asset("map_style")
    for colours in (palette.LIGHT, palette.DARK):
        for name in ("paper", "ink", "text", "muted", "faint", "empty"):
            assert style.count(f"--{name}: {' '.join(map(str, getattr(colours, name)))};") == 2
