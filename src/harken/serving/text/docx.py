"""Word files: paragraphs translated, the format of their runs carried over by word alignments.

A .docx is a zip archive of XML. Every paragraph (w:p) is read as words whose tags are the runs (w:r) that they are in;
the translated words are written into runs of the same format. Anything else (pictures, fields, links) stays in its
order among the words; a line break or a tab ends a block, and the words of a link (w:hyperlink), of an insertion or of
a content control are translated as a paragraph of their own.

What is no text of a translated paragraph stays byte for byte: parts of the archive are copied, and new runs are spliced
into the XML as it was written. XML libraries write declarations, namespaces, quotes and empty elements anew; expat
checks here that a part is well-formed, and its tags are then matched by a pattern.

Archives that unpack to too much, XML with entities and XML that is nested too deeply are refused.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from xml.parsers import expat

from harken.serving.errors import ApiError
from harken.serving.text.atoms import Atom, atoms_of, has_letters
from harken.serving.text.documents import Document, Sentence, sentence_parts
from harken.serving.text.markup import merge_words
from harken.serving.text.rendering import model_text

NAMESPACES = (  # transitional and strict
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
PARTS = re.compile(r"word/(document|footnotes|endnotes|comments|header\d*|footer\d*)\.xml")
CONTAINERS = ("p", "hyperlink", "ins", "moveTo", "sdtContent", "smartTag", "fldSimple", "customXml")  # of runs
BREAKS = ("br", "cr", "tab", "ptab")
MAX_MEMBERS = 10_000
MAX_UNPACKED = 100_000_000  # bytes of all files in an archive
MAX_RATIO, SMALL = 200, 1_000_000  # of a file to its packed size, and bytes of those that may have a larger one
MAX_XML = 32_000_000  # bytes of those that are translated, before and after
MAX_DEPTH = 200  # elements around an element
MARK = "\x00"  # around the number of a run, and of an element that stays, in a rendered paragraph; XML cannot hold it
PIECE = re.compile(f"{MARK}([a-z]\\d*){MARK}|([^{MARK}]+)")
TOKEN = re.compile(
    r"""<(?:(?P<other>!--.*?--|!\[CDATA\[.*?\]\]|\?.*?\?)|(?P<name>/?[^\s/>!?]++)(?:[^>"']++|"[^"]*+"|'[^']*+')*+)>""",
    re.DOTALL,
)
REFERENCE = re.compile(r"&(?:#x0*+([0-9a-fA-F]+)|#0*+([0-9]+)|(amp|lt|gt|quot|apos));")
SECTION = re.compile(r"<!\[CDATA\[(.*?)\]\]>|<!--.*?-->|<[^>]*+>", re.DOTALL)
NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


def read_docx(data: bytes) -> tuple[list[Document], Callable[[list[str]], bytes]]:
    """The texts of a Word file, and how it is written from their translations.

    Raises:
        ApiError: it is none, or too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_members(archive)
            parts = {name: Part(archive.read(name)) for name in archive.namelist() if PARTS.fullmatch(name)}
    except DAMAGED:
        raise ApiError(400, "the file is no .docx file, or it is damaged or protected by a password") from None
    if "word/document.xml" not in parts:
        raise ApiError(400, "the file is no .docx file: it has no word/document.xml")
    return [block.document for part in parts.values() for block in part.blocks], lambda texts: _pack(data, parts, texts)


def _check_members(archive: zipfile.ZipFile) -> None:
    members = archive.infolist()
    names = [member.filename.lower() for member in members]
    texts = [member for member in members if PARTS.fullmatch(member.filename)]
    is_bomb = any(member.file_size > max(SMALL, MAX_RATIO * member.compress_size) for member in members)
    if is_bomb or len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > MAX_UNPACKED:
        raise ApiError(413, f"the .docx file unpacks to too much: at most {MAX_UNPACKED:,} bytes, {MAX_RATIO} to 1")
    if sum(member.file_size for member in texts) > MAX_XML:
        raise ApiError(413, f"the text of the .docx file has more than {MAX_XML:,} bytes of XML; split the file")
    if len(set(names)) < len(names):
        raise ApiError(400, "the .docx file has two parts of one name")
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise ApiError(400, "the .docx file is packed by a method other than deflate; save it anew")


def _pack(data: bytes, parts: dict[str, Part], texts: list[str]) -> bytes:
    """The archive with other texts; its members keep their order, times and attributes."""
    remaining, out = iter(texts), io.BytesIO()
    contents = {name: part.write([next(remaining) for _ in part.blocks]) for name, part in parts.items()}
    if sum(map(len, contents.values())) > MAX_XML:
        raise ApiError(413, f"the translated .docx file would have more than {MAX_XML:,} bytes of XML; split the file")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as archive:
            archive.comment = source.comment
            for member in source.infolist():
                content = contents.get(member.filename)
                archive.writestr(member, source.read(member) if content is None else content)
    except DAMAGED:
        raise ApiError(400, "the .docx file is damaged") from None
    return out.getvalue()


@dataclass(eq=False, slots=True)
class Element:
    """An open element: where it begins, and its runs or its texts as far as they are read."""

    name: str  # without the prefix of Word's namespace; of other namespaces with a colon
    start: int
    inside: int  # where its content begins
    children: list[Child] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Child:
    """A child of a run or of what has runs."""

    name: str
    start: int
    end: int
    text: str = ""  # of w:t
    children: list[Child] = field(default_factory=list)  # of w:r


class Part:
    """One XML file of an archive.

    Raises:
        ApiError: it is not well-formed, has entities, or is nested too deeply.
    """

    def __init__(self, data: bytes) -> None:
        self._prefixes = _check_xml(data)
        self.xml = data.decode()
        self._names: dict[str, str] = {}  # as written -> as in `Element`
        blocks = [Block(self, children) for children in self._containers()]
        self.blocks = sorted((block for block in blocks if block.has_words), key=lambda block: block.start)
        self._starts = [block.start for block in self.blocks]

    def _local(self, name: str) -> str:
        if name not in self._names:
            prefix, _, local = name.rpartition(":")
            self._names[name] = local if prefix in self._prefixes else f"{name}:"
        return self._names[name]

    def _containers(self) -> Iterator[list[Child]]:
        """The children of every element with runs, from its first run to its last."""
        stack = [Element("", 0, 0)]
        for match in TOKEN.finditer(self.xml):
            name = match["name"]
            if name is None:
                continue
            if name[0] != "/":
                stack.append(Element(self._local(name), match.start(), match.end()))
                if len(stack) > MAX_DEPTH:
                    raise ApiError(413, f"the XML of the .docx file is nested more than {MAX_DEPTH} elements deep")
                if self.xml[match.end() - 2] != "/":
                    continue
            element, parent = stack.pop(), stack[-1]
            if parent.name == "r" or element.name == "r" or parent.children:
                text = _text_of(self.xml[element.inside : match.start()]) if element.name == "t" else ""
                parent.children.append(Child(element.name, element.start, match.end(), text, element.children))
            if element.name in CONTAINERS and element.children:
                last = max(index for index, child in enumerate(element.children) if child.name == "r")
                yield element.children[: last + 1]

    def write(self, texts: list[str]) -> bytes:
        """The file with other texts in its blocks."""
        out: list[str] = []
        size = 0

        def copy(start: int, end: int) -> None:
            nonlocal size
            index = bisect_left(self._starts, start)
            while index < len(self.blocks) and self._starts[index] < end:
                block = self.blocks[index]
                out.append(self.xml[start : block.start])
                for piece in block.pieces(texts[index]):
                    if isinstance(piece, Child):
                        copy(piece.start, piece.end)
                    else:
                        out.append(piece)
                        size += len(piece)
                        if size > MAX_XML:
                            raise ApiError(413, f"the translated .docx file would have more than {MAX_XML:,} bytes")
                start = block.end
                index = bisect_left(self._starts, start)
            out.append(self.xml[start:end])

        copy(0, len(self.xml))
        return "".join(out).encode()


def _check_xml(data: bytes) -> set[str]:
    """The prefixes of Word's namespace in a file of UTF-8.

    Raises:
        ApiError: it is not well-formed, in another encoding, or has a document type, which may have entities.
    """
    uris: dict[str, set[str]] = {}
    parser = expat.ParserCreate(namespace_separator=" ")
    encodings: list[str] = []

    def refuse(*given: object) -> None:
        raise ApiError(400, "the .docx file has XML entities, which are refused")

    def declare(prefix: str | None, uri: str | None) -> None:
        uris.setdefault(prefix or "", set()).add(uri or "")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartNamespaceDeclHandler = declare
    parser.XmlDeclHandler = lambda version, encoding, standalone: encodings.append(encoding or "utf-8")
    try:
        parser.Parse(data, True)
        data.decode()
    except (expat.ExpatError, ValueError, LookupError):
        raise ApiError(400, "the .docx file has XML that cannot be read") from None
    if any(encoding.lower() not in ("utf-8", "us-ascii") for encoding in encodings):
        raise ApiError(400, "the .docx file has XML that is not UTF-8; save it anew")
    return {prefix for prefix, names in uris.items() if names <= set(NAMESPACES)}


def _text_of(xml: str) -> str:
    """The text in an element without children.

    >>> _text_of("a &amp; <![CDATA[&amp;]]><!-- b -->&#x63;")
    'a & &amp;c'
    """
    sections = SECTION.split(xml) if "<" in xml else [xml]  # by turns: text, and what is in a CDATA section
    sections[::2] = [REFERENCE.sub(_character, section) for section in sections[::2]]
    return "".join(section or "" for section in sections)


def _character(match: re.Match[str]) -> str:
    code, decimal, name = match.groups()
    return NAMED[name] if name else chr(int(code, 16) if code else int(decimal))


class Block:
    """The runs of a paragraph, of a link or the like, and what is between them."""

    def __init__(self, part: Part, children: list[Child]) -> None:
        self.start, self.end = children[0].start, children[-1].end
        self.runs: list[tuple[str, str, str]] = []  # start tag, properties and name
        self._kept: list[Child] = []
        self._parts: list[str | Sentence] = []
        self._atoms: list[Atom] = []
        self._space = False  # whether white space came last
        for child in children:
            if child.name == "r":
                self._read_run(part, child)
            elif child.name != "proofErr":  # marks of the spelling checker are dropped
                self._atoms.append(self._keep("p", child, ()))
        self._end_sentences()
        self.has_words = any(has_letters(model_text(part)) for part in self._parts if not isinstance(part, str))
        tags = [(f"{MARK}r{number}{MARK}", f"{MARK}e{MARK}") for number in range(len(self.runs))]
        self.document = Document(self._parts, tags, keeps_order=True)

    def _read_run(self, part: Part, run: Child) -> None:
        number, tag = len(self.runs), TOKEN.match(part.xml, run.start)
        assert tag is not None
        properties = "".join(part.xml[child.start : child.end] for child in run.children if child.name == "rPr")
        self.runs.append((tag[0].removesuffix("/>").removesuffix(">") + ">", properties, tag["name"]))
        for child in run.children:
            if child.name == "t":
                words = atoms_of(child.text, (number,), self._space or not self._atoms)
                if words and not self._atoms and (self._space or child.text[0].isspace()):
                    self._parts.append(" ")
                self._atoms += words
                self._space = child.text[-1:].isspace() or (self._space and not words)
            elif child.name in BREAKS:
                self._end_sentences()
                self._parts.append(_marked(self._keep("k", child, (number,))))
            elif child.name != "rPr":
                self._atoms.append(self._keep("k", child, (number,)))

    def _keep(self, kind: str, child: Child, tags: tuple[int, ...]) -> Atom:
        self._kept.append(child)
        space, self._space = self._space, False
        return Atom(f"{MARK}{kind}{len(self._kept) - 1}{MARK}", tags, space, opaque=True)

    def _end_sentences(self) -> None:
        atoms, self._atoms = merge_words(self._atoms, is_markup=False), []
        if any(not atom.opaque for atom in atoms):
            self._parts += sentence_parts(atoms)
        else:
            self._parts += map(_marked, atoms)
        if self._space:
            self._parts.append(" ")
        self._space = False

    def pieces(self, text: str) -> Iterator[str | Child]:
        """The XML of a translated paragraph: strings, and elements that stay."""
        last: int | None = None  # the run that is open in the XML
        for run, content in self._in_runs(text):
            if run != last and last is not None:
                yield f"</{self.runs[last][2]}>"
            if run != last and run is not None:
                yield "".join(self.runs[run][:2])
            last = run
            if run is None or isinstance(content, Child):
                yield content
            else:
                tag = self.runs[run][2][:-1] + "t"
                space = ' xml:space="preserve"' if content != content.strip() else ""
                yield f"<{tag}{space}>{escape(content, quote=False)}</{tag}>"
        if last is not None:
            yield f"</{self.runs[last][2]}>"

    def _joining_order(self, item: tuple[int | None, str | Child]) -> tuple[bool, int]:
        """The order in which spaces between runs are joined to them: words before elements, the least format first."""
        return isinstance(item[1], Child), len(self.runs[item[0] or 0][1])

    def _in_runs(self, text: str) -> Iterator[tuple[int | None, str | Child]]:
        """The words of a translated paragraph with the numbers of their runs, and elements between runs without one."""
        number: int | None = None
        items: list[tuple[int | None, str | Child]] = []
        for code, words in PIECE.findall(text):
            if words:
                items.append((number, words))
            elif code[0] in "re":
                number = int(code[1:]) if code[0] == "r" else None
            else:
                items.append((number if code[0] == "k" else None, self._kept[int(code[1:])]))
        for index, (run, content) in enumerate(items):
            if run is None and isinstance(content, str):  # spaces and marks between runs
                near = [item for item in items[max(0, index - 1) : index + 2] if item[0] is not None]
                items[index] = (min(near, key=self._joining_order, default=(0, ""))[0], content)
        for (run, _), group in groupby(items, key=lambda item: (item[0], isinstance(item[1], Child))):
            contents = [content for _, content in group]
            texts = [content for content in contents if isinstance(content, str)]
            yield from ((run, content) for content in (["".join(texts)] if texts else contents))


def _marked(atom: Atom) -> str:
    """An element that stays, in its run if it has one."""
    return f"{MARK}r{atom.tags[0]}{MARK}{atom.text}{MARK}e{MARK}" if atom.tags else atom.text
