"""Sentence pairs out of translation memories: TMX, and XLIFF 1.2 and 2.0, plain or compressed.

A unit is a text in two or more languages. Native codes inside a segment (`<bpt>`, `<ph>` ...) are left out, and the
text inside `<g>`, `<pc>`, `<hi>` and `<mrk>` is part of the segment.

>>> import io
>>> variants = '<tuv xml:lang="en"><seg>a <ph>%s</ph>cat</seg></tuv><tuv lang="fr"><seg>un chat</seg></tuv>'
>>> list(parse_units(io.BytesIO(f"<tmx><body><tu>{variants}</tu></body></tmx>".encode()), "memory.tmx"))
[{'en': 'a cat', 'fr': 'un chat'}]
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from lzma import LZMAError
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

from harken.data.io.files import open_bytes
from harken.errors import UserError

ENDINGS = (".tmx", ".xlf", ".xliff", ".sdlxliff", ".mqxliff")
CODES = {"bpt", "ept", "ph", "it", "ut", "x", "bx", "ex", "sc", "ec", "cp"}  # native codes, no text
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def read_units(path: str | Path) -> Iterator[dict[str, str]]:
    """The units of a file one by one, each as a text by its language code; "source" and "target" where none is named.

    Raises:
        UserError: the file cannot be read, or is no such XML.
    """
    with open_bytes(path) as stream:
        yield from parse_units(stream, str(path))


def parse_units(stream: BinaryIO, name: str) -> Iterator[dict[str, str]]:
    """The units of an open file; `name` is what errors call it."""
    languages = {"source": "source", "target": "target"}
    try:
        for event, element in ElementTree.iterparse(stream, events=("start", "end")):
            kind = _local(element.tag)
            if event == "start":
                if kind in ("file", "xliff"):
                    languages = {
                        "source": element.get("source-language") or element.get("srcLang") or languages["source"],
                        "target": element.get("target-language") or element.get("trgLang") or languages["target"],
                    }
            elif kind == "tu":
                yield {
                    (variant.get(XML_LANG) or variant.get("lang") or "").lower(): _text(segment)
                    for variant in element
                    for segment in variant
                    if _local(segment.tag) == "seg"
                }
                element.clear()
            elif kind in ("trans-unit", "segment"):
                yield {languages[side]: _text(part) for part in element if (side := _local(part.tag)) in languages}
                element.clear()
    except (ElementTree.ParseError, ValueError, RecursionError) as problem:
        raise UserError(f"{name} is no well-formed XML ({problem}); export the translation memory again") from None
    except (EOFError, OSError, LZMAError, zlib.error) as problem:
        raise UserError(f"{name} cannot be read ({problem}); copy or download the file again") from None


def _local(tag: str) -> str:
    """The name of an element without its namespace."""
    return tag.rpartition("}")[2]


def _text(element: ElementTree.Element) -> str:
    """The text of a segment, with white space as single spaces."""

    def pieces(part: ElementTree.Element) -> Iterator[str]:
        yield part.text or ""
        for child in part:
            if _local(child.tag) not in CODES:
                yield from pieces(child)
            yield child.tail or ""

    return " ".join("".join(pieces(element)).split())
