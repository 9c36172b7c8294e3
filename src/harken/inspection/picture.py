"""What every picture can do: stand in a terminal, in a browser, in a notebook and on paper.

A subclass says how it is drawn as lines of text, as SVG and in dots; where it is written to is said here, and the page
around it, unless it has a page of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harken.errors import UserError
from harken.inspection.checks import atomic_write
from harken.inspection.page import page

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text


class Picture(ABC):
    """`print` draws it in a terminal, a notebook shows it, `save` writes .html, .svg or .png."""

    ending = ".svg"  # how it is written where nobody says
    title = ""

    @property
    def heading(self) -> str:
        """What stands above it."""
        return self.title

    @abstractmethod
    def lines(self, width: int, color: bool) -> list[Text]:
        """Lines for a terminal, of at most `width` columns."""

    @abstractmethod
    def to_svg(self) -> str:
        """A drawing for papers and web pages; follows the reader's light or dark setting."""

    @abstractmethod
    def to_png(self) -> bytes:
        """A picture of dots, for slides."""

    def to_terminal(self, width: int | None = None, color: bool | None = None) -> str:
        """Lines of text.

        Args:
            width: columns to keep within; by default those of the terminal.
            color: by default only where standard output is a terminal that shows colours.
        """
        from harken.inspection.terminal import as_text

        return as_text(self.lines, width, color)

    def to_html(self) -> str:
        """A whole page that needs no network: the drawing."""
        return page(self.heading, f'<div class="scroll">{self.to_svg()}</div>')

    def save(self, path: str | Path) -> Path:
        """Write the picture; the ending of the name says how: .html, .svg or .png.

        Raises:
            UserError: another ending, or a place that cannot be written.
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
        return self.to_svg()
