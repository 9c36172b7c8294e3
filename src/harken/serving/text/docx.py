"""Word files: paragraphs translated, the format of their runs carried over by word alignments.

A .docx is a zip archive of XML. Every paragraph (w:p) is read as words whose tags are the runs (w:r) that they are in;
the translated words are written into copies of these runs. Anything else (breaks, pictures, fields, links) stays where
it is among the words; the words of a link (w:hyperlink) are translated as a paragraph of their own. Parts of the
archive without text stay as they are.
Archives that unpack to too much, and XML with entities, are refused.
"""

from __future__ import annotations

import asyncio
import copy
import io
import lzma
import re
import zipfile
import zlib
from typing import Any

from lxml import etree

from harken.serving.errors import ApiError
from harken.serving.text.atoms import Atom, atoms_of
from harken.serving.text.documents import Document, Translate, sentence_parts, translate_documents
from harken.serving.text.markup import merge_words

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
PARTS = re.compile(r"word/(document|footnotes|endnotes|comments|header\d*|footer\d*)\.xml")
MAX_UNPACKED = 200_000_000  # bytes of all files in an archive
MAX_RATIO = 200  # of a file in it to its packed size
MARK = "\x00"  # around the number of a run, and of an element that stays, in a rendered paragraph; XML cannot hold it
DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip
Element = Any  # lxml has no types


async def translate_docx(data: bytes, translate: Translate) -> bytes:
    """A Word file, translated.

    Raises:
        ApiError: it is none, or unpacks to too much.
    """
    members, contents = await asyncio.to_thread(_unpack, data)
    for name in contents:
        if PARTS.fullmatch(name):
            contents[name] = await _translate_part(contents[name], translate)
    return await asyncio.to_thread(_pack, members, contents)


def _unpack(data: bytes) -> tuple[list[zipfile.ZipInfo], dict[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            is_bomb = any(
                member.file_size > 1_000_000 and member.file_size > MAX_RATIO * member.compress_size
                for member in members
            )
            if is_bomb or sum(member.file_size for member in members) > MAX_UNPACKED or len(members) > 10_000:
                raise ApiError(400, "the .docx file unpacks to too much")
            contents = {member.filename: archive.read(member) for member in members}
    except DAMAGED:
        raise ApiError(400, "the file is no .docx file") from None
    if "word/document.xml" not in contents:
        raise ApiError(400, "the file is no .docx file")
    return members, contents


def _pack(members: list[zipfile.ZipInfo], contents: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            archive.writestr(member, contents[member.filename], zipfile.ZIP_DEFLATED)
    return out.getvalue()


async def _translate_part(data: bytes, translate: Translate) -> bytes:
    tree, paragraphs = await asyncio.to_thread(_parse, data)
    if not paragraphs:
        return data
    written = await translate_documents([paragraph.document for paragraph in paragraphs], translate)

    def write() -> bytes:
        for paragraph, best in zip(paragraphs, written, strict=True):
            paragraph.write(best[0])
        content: bytes = etree.tostring(
            tree, encoding="UTF-8", xml_declaration=True, standalone=tree.docinfo.standalone
        )
        return content

    return await asyncio.to_thread(write)


def _parse(data: bytes) -> tuple[Element, list[_Paragraph]]:
    """The tree of a part, and its paragraphs with text."""
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    try:
        tree = etree.ElementTree(etree.fromstring(data, parser))
    except (etree.XMLSyntaxError, ValueError, LookupError):
        raise ApiError(400, "the .docx file has XML that cannot be read") from None
    if tree.docinfo.doctype:
        raise ApiError(400, "the .docx file has XML entities, which are refused")
    paragraphs = [_Paragraph(element) for element in tree.iter(f"{W}p", f"{W}hyperlink")]
    return tree, [paragraph for paragraph in paragraphs if paragraph.has_words]


class _Paragraph:
    """One w:p: its runs as tags, what is no text as opaque pieces."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.runs: list[Element] = []
        self.kept: list[Element] = []  # what is no text, in runs and between them
        self._children = _from_first_run(element)
        atoms: list[Atom] = []
        space = True
        for child in self._children:
            if child.tag != f"{W}r":
                atoms.append(self._keep("p", child, (), space))
                space = False
                continue
            number = len(self.runs)
            self.runs.append(child)
            for part in child:
                if part.tag == f"{W}t" and part.text:
                    words = atoms_of(part.text, (number,), space=space or not atoms)
                    atoms += words
                    space = part.text[-1].isspace() if words else True
                elif part.tag not in (f"{W}t", f"{W}rPr"):
                    atoms.append(self._keep("k", part, (number,), space))
                    space = False
        self.has_words = any(not atom.opaque for atom in atoms)
        tags = [(f"{MARK}r{number}{MARK}", f"{MARK}e{MARK}") for number in range(len(self.runs))]
        self.document = Document(sentence_parts(merge_words(atoms, is_markup=False)), tags)

    def _keep(self, kind: str, element: Element, tags: tuple[int, ...], space: bool) -> Atom:
        self.kept.append(element)
        return Atom(f"{MARK}{kind}{len(self.kept) - 1}{MARK}", tags, space, opaque=True)

    def write(self, text: str) -> None:
        """Put the translated words into copies of the runs."""
        first = self.element.index(self._children[0])
        for child in self._children:
            self.element.remove(child)
        number: int | None = None  # of the run whose words are written; spaces between runs have no format
        children: list[Element] = []
        for code, letters in re.findall(f"{MARK}([a-z]\\d*){MARK}|([^{MARK}]+)", text):
            if letters:
                content = etree.Element(f"{W}t", {SPACE: "preserve"})
                content.text = letters
                children.append(self._run(number, content))
            elif code[0] == "r":
                number = int(code[1:])
            elif code[0] == "e":
                number = None
            elif code[0] == "k":
                children.append(self._run(number, self.kept[int(code[1:])]))
            else:
                children.append(self.kept[int(code[1:])])
        self.element[first:first] = children

    def _run(self, number: int | None, child: Element) -> Element:
        run = etree.Element(f"{W}r")
        properties = None if number is None else self.runs[number].find(f"{W}rPr")
        if properties is not None:
            run.append(copy.deepcopy(properties))
        run.append(child)
        return run


def _from_first_run(element: Element) -> list[Element]:
    """The children of a paragraph from its first run to its last; marks of the spelling checker are removed."""
    for child in element.findall(f"{W}proofErr"):
        element.remove(child)
    children = list(element)
    runs = [index for index, child in enumerate(children) if child.tag == f"{W}r"]
    return children[runs[0] : runs[-1] + 1] if runs else []
