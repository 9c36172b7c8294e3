"""Word files: paragraphs translated, the format of their runs carried over by word alignments.

A .docx is a zip archive of XML. Every paragraph (w:p) is read as words whose tags are the runs (w:r) that they are in;
the translated words are written into copies of these runs. Anything else (breaks, pictures, fields, links) stays where
it is among the words; the words of a link (w:hyperlink) are translated as a paragraph of their own.
Archives that unpack to too much, and XML with entities, are refused.
"""

from __future__ import annotations

import copy
import io
import re
import zipfile
import zlib
from xml.etree import ElementTree

from harken.serving.errors import ApiError
from harken.serving.text.atoms import Atom, atoms_of
from harken.serving.text.documents import Document, Translate, translate_documents
from harken.serving.text.markup import merge_words
from harken.serving.text.sentences import sentences_of

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
PARTS = re.compile(r"word/(document|footnotes|endnotes|comments|header\d*|footer\d*)\.xml")
MAX_UNPACKED = 200_000_000  # bytes of all files in an archive
MAX_RATIO = 200  # of a file in it to its packed size
MARK = "\x00"  # around the number of a run, and of an element that stays, in a rendered paragraph


async def translate_docx(data: bytes, translate: Translate) -> bytes:
    """A Word file, translated.

    Raises:
        ApiError: it is none, or unpacks to too much.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            bombs = [
                one for one in members if one.file_size > 1_000_000 and one.file_size > MAX_RATIO * one.compress_size
            ]
            if total > MAX_UNPACKED or bombs or len(members) > 10_000:
                raise ApiError(400, "the .docx file unpacks to too much")
            contents = {member.filename: archive.read(member) for member in members}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        raise ApiError(400, "the file is no .docx file") from None
    if "word/document.xml" not in contents:
        raise ApiError(400, "the file is no .docx file")
    for name in contents:
        if PARTS.fullmatch(name):
            contents[name] = await _translate_part(contents[name], translate)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            archive.writestr(member, contents[member.filename], zipfile.ZIP_DEFLATED)
    return out.getvalue()


async def _translate_part(data: bytes, translate: Translate) -> bytes:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ApiError(400, "the .docx file has XML entities, which are refused")
    try:
        for _, (prefix, uri) in ElementTree.iterparse(io.BytesIO(data), events=("start-ns",)):
            if not re.fullmatch(r"ns\d+", prefix):  # such prefixes are ElementTree's own
                ElementTree.register_namespace(prefix, uri)
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError):
        raise ApiError(400, "the .docx file has XML that cannot be read") from None
    paragraphs = [_Paragraph(element) for element in root.iter() if element.tag in (f"{W}p", f"{W}hyperlink")]
    written = await translate_documents([one.document for one in paragraphs], translate)
    for paragraph, best in zip(paragraphs, written, strict=True):
        paragraph.write(best[0])
    return ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)


class _Paragraph:
    """One w:p: its runs as tags, what is no text as opaque pieces."""

    def __init__(self, element: ElementTree.Element) -> None:
        self.element = element
        self.runs: list[ElementTree.Element] = []
        self.kept: list[ElementTree.Element] = []  # what is no text, in runs and between them
        atoms: list[Atom] = []
        space = True
        self._children = _from_first_run(element)
        for child in self._children:
            if child.tag != f"{W}r":
                atoms.append(Atom(f"{MARK}p{len(self.kept)}{MARK}", (), space, opaque=True))
                self.kept.append(child)
                space = False
                continue
            number = len(self.runs)
            self.runs.append(child)
            for part in child:
                if part.tag == f"{W}t" and part.text:
                    found = atoms_of(part.text, (number,), space=space or not atoms)
                    atoms += found
                    space = part.text[-1].isspace() if found else (space or bool(part.text))
                elif part.tag not in (f"{W}t", f"{W}rPr"):
                    atoms.append(Atom(f"{MARK}k{len(self.kept)}{MARK}", (number,), space, opaque=True))
                    self.kept.append(part)
                    space = False
        self.atoms = merge_words(atoms)
        parts: list[str | tuple[Atom, ...]] = []
        for sentence in sentences_of(self.atoms):
            if parts and sentence[0].space:
                parts.append(" ")
            parts.append(tuple(sentence))
        tags = [(f"{MARK}r{number}{MARK}", f"{MARK}e{MARK}") for number in range(len(self.runs))]
        self.document = Document(parts, tags, is_html=bool(parts))

    def write(self, text: str) -> None:
        """Put the translated words into copies of the runs."""
        if not self._children or not self.atoms:
            return
        first = list(self.element).index(self._children[0])
        for run in self._children:
            self.element.remove(run)
        number, made = 0, list[ElementTree.Element]()
        is_open = False
        for part in re.split(f"({MARK}[a-z]\\d*{MARK})", text):
            code = part.strip(MARK)
            if part.startswith(MARK) and code[0] == "r":
                number, is_open = int(code[1:]), True
            elif part.startswith(MARK) and code[0] == "e":
                is_open = False
            elif part.startswith(MARK) and code[0] == "k":
                made.append(self._run(number, self.kept[int(code[1:])]))
            elif part.startswith(MARK) and code[0] == "p":
                made.append(self.kept[int(code[1:])])
            elif part and not part.startswith(MARK):
                letters = ElementTree.Element(f"{W}t", {SPACE: "preserve"})
                letters.text = part.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
                made.append(self._run(number if is_open else None, letters))  # spaces between runs have no format
        for offset, run in enumerate(made):
            self.element.insert(first + offset, run)

    def _run(self, number: int | None, child: ElementTree.Element) -> ElementTree.Element:
        run = ElementTree.Element(f"{W}r")
        form = None if number is None else self.runs[number].find(f"{W}rPr")
        if form is not None:
            run.append(copy.deepcopy(form))
        run.append(child)
        return run


def _from_first_run(element: ElementTree.Element) -> list[ElementTree.Element]:
    """The children of a paragraph from its first run to its last; marks of the spelling checker are removed."""
    for child in [child for child in element if child.tag == f"{W}proofErr"]:
        element.remove(child)
    children = list(element)
    places = [index for index, child in enumerate(children) if child.tag == f"{W}r"]
    return children[places[0] : places[-1] + 1] if places else []
