"""What every picture can do: stand in a terminal, in a browser, in a notebook and on paper.

A subclass says how it is drawn in each place; where it is written to is said here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from harken.errors import UserError
from harken.inspection.checks import write_aside


class Picture(ABC):
    """`print` draws it in a terminal, a notebook shows it, `save` writes .html, .svg or .png."""

    ending = ".svg"  # how it is written where nobody says

    @abstractmethod
    def to_terminal(self, width: int | None = None, color: bool | None = None) -> str:
        """Lines of text of at most `width` columns; by default as wide and as colourful as the terminal is."""

    @abstractmethod
    def to_svg(self) -> str:
        """A drawing for papers and web pages; follows the reader's light or dark setting."""

    @abstractmethod
    def to_png(self) -> bytes:
        """A picture of dots, for slides."""

    @abstractmethod
    def to_html(self) -> str:
        """A whole page that needs no network."""

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
        write_aside(path, content)
        return path

    def __str__(self) -> str:
        return self.to_terminal()

    def _repr_html_(self) -> str:
        return self.to_svg()
