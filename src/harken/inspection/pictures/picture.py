"""The base class of pictures: printed in a terminal, shown in a notebook, and saved as .html, .svg or .png.

A subclass only describes what is drawn, as figures of `harken.inspection.figure`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.errors import UserError, require_extra
from harken.files import atomic_write
from harken.inspection.figure.spec import Figure
from harken.inspection.figure.values import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text


class Picture(ABC):
    """Something to look at; matplotlib and rich are loaded when it is drawn."""

    ending = ".svg"  # of the file where no name is given
    title = ""
    caption = ""  # one line: how to read the picture and what to see

    @property
    def heading(self) -> str:
        """The heading above the picture."""
        return self.title

    @abstractmethod
    def figures(self) -> list[Figure]:
        """The figures of the picture."""

    def terminal_figures(self) -> list[Figure]:
        """The figures in a terminal, where a picture needs less there."""
        return self.figures()

    def paper_figures(self) -> list[Figure]:
        """The figures in SVG and PNG, below the heading unless one of them has it for its title."""
        figures = self.figures()
        above = self.heading and all(figure.title != self.heading for figure in figures)
        return [Figure(self.heading), *figures] if above else figures

    def page_figures(self) -> list[Figure]:
        """The figures on the HTML page."""
        return self.figures()

    def page_tail(self) -> str:
        """HTML below the figures of the page."""
        return ""

    def lines(self, width: int, color: bool) -> list[Text]:
        """Lines for a terminal, of at most `width` columns."""
        from harken.inspection.figure.terminal import draw_lines

        return draw_lines(self._captioned(self.terminal_figures()), width, color)

    def to_terminal(self, width: int | None = None, color: bool | None = None) -> str:
        """Lines of text.

        Args:
            width: columns to keep within; by default those of the terminal.
            color: by default only where standard output is a terminal that shows colours.
        """
        from harken.inspection.figure.terminal import as_text

        return as_text(self.lines, width, color)

    def to_svg(self) -> str:
        """A drawing for papers and web pages; follows the reader's light or dark setting."""
        require_extra("matplotlib", "plot", "a picture")
        from harken.inspection.figure.paper import draw_svg

        return draw_svg(self._captioned(self.paper_figures()))

    def to_png(self, dpi: int = 144) -> bytes:
        """An image for slides, on light paper."""
        require_extra("matplotlib", "plot", "a picture")
        from harken.inspection.figure.paper import draw_png

        return draw_png(self._captioned(self.paper_figures()), dpi)

    def to_html(self) -> str:
        """A whole page that needs no network: point at a value to read it."""
        from harken.inspection.figure.page import draw_page

        return draw_page(self.heading, self._captioned(self.page_figures()), self.page_tail())

    def to_dict(self) -> dict[str, Any]:
        """Title, caption and the numbers that are drawn, for JSON."""
        return {"title": self.heading, "caption": self.caption, "figures": plain(self.figures())}

    def _captioned(self, figures: list[Figure]) -> list[Figure]:
        """The caption before the note of the last figure; of each where buttons show one at a time."""
        last = len(figures) - 1
        each = last > 0 and all(figure.name for figure in figures)
        return [
            replace(figure, note=f"{self.caption} {figure.note}".strip()) if each or at == last else figure
            for at, figure in enumerate(figures)
        ]

    def save(self, path: str | Path) -> Path:
        """Write the picture; the ending of the name says how: .html, .svg or .png.

        Raises:
            UserError: another ending, or a path that cannot be written.
        """
        path = Path(path)
        ending = path.suffix.lower()
        if ending not in (".html", ".svg", ".png"):
            raise UserError(f'{path}: a picture cannot be written as "{ending}"; name the file .html, .svg or .png')
        if ending == ".png":
            content = self.to_png()
        else:
            content = (self.to_html() if ending == ".html" else self.to_svg()).encode()
        atomic_write(path, content)
        return path

    def __str__(self) -> str:
        return self.to_terminal()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from self.lines(options.max_width, console.color_system is not None and not console.no_color)

    def _repr_html_(self) -> str:
        """An image in the text of the page: Jupyter shows it also in a notebook of others, where it drops `<svg>`."""
        drawing = b64encode(self.to_svg().encode()).decode()
        return f'<img alt="{escape(self.heading)}" src="data:image/svg+xml;base64,{drawing}" style="max-width:100%">'


class Plot(Picture):
    """Figures as they are described.

    >>> from harken.inspection.figure import Bars, Group
    >>> print(Plot([Figure("", [Bars("", "", "", ["a", "b"], [Group("", [1, 2])])])]).to_terminal(20, color=False))
    a  ███████         1
    b  ██████████████  2
    """

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._figures = list(figures)
        self.title = self._figures[0].title

    def figures(self) -> list[Figure]:
        return self._figures
