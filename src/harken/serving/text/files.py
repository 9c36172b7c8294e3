"""Files in, files out: only what is meant to be read is translated, everything else stays as it is.

.txt            lines
.html, .htm     `markup.py`
.po             msgstr of every message; headers, comments and references stay
.srt, .vtt      cue texts, which may have tags; times and settings stay
.docx           paragraphs of the document, its notes, headers and footers; runs keep their format

Messages and cues are matched by patterns and everything around them is copied, because libraries write files anew:
polib wraps lines of .po files that were not translated, and pysubs2 drops notes and the settings of cues from .vtt.

A worker process reads a file (`read_segments`) and later writes its translation (`write_file`); the server between them
sees segments alone. Both parse the file, in linear time, so that no worker has to remember it.

>>> (segment,) = read_segments(b"<p>le chat</p>", ".html")
>>> segment.text, write_file(b"<p>le chat</p>", ".html", [Translation([("the cat", None)])])
('le chat', b'<p>the cat</p>')
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from harken.serving.errors import ApiError
from harken.serving.text.documents import (
    Document,
    Segment,
    Translation,
    read_html,
    read_text,
    segments_of,
    write_documents,
)
from harken.serving.text.markup import Rules

SUFFIXES = (".txt", ".html", ".htm", ".po", ".srt", ".vtt", ".docx")


@dataclass(frozen=True)
class File:
    """A parsed file: its texts, and how it is written from their translations."""

    documents: list[Document]
    write: Callable[[list[str]], bytes]


def run_operation(operation: str, item: dict[str, Any]) -> dict[str, Any]:
    """An operation of a worker on an uploaded file.

    Args:
        operation: "read_document" or "write_document".
        item: `data`, the bytes; `name`, the ending; to write it `translations`, one for each segment.

    Returns: {"segments": [...]} or {"data": bytes}; {"error": (status, message)} where the file is refused.
    """
    try:
        if operation == "read_document":
            return {"segments": read_segments(item["data"], item["name"])}
        return {"data": write_file(item["data"], item["name"], item["translations"])}
    except ApiError as error:
        return {"error": (error.status, error.message)}


def read_segments(data: bytes, suffix: str) -> list[Segment]:
    """The text of a file with this ending that a model has to translate.

    Raises:
        ApiError: the file is none of that kind, or too large.
    """
    return list(segments_of(read_file(data, suffix).documents).values())


def write_file(data: bytes, suffix: str, translations: Sequence[Translation]) -> bytes:
    """A file from the translations of its segments.

    Raises:
        ApiError: as `read_segments`.
    """
    file = read_file(data, suffix)
    known = dict(zip(segments_of(file.documents), translations, strict=True))
    return file.write([best for best, *_ in write_documents(file.documents, known)])


def read_file(data: bytes, suffix: str) -> File:
    """The bytes of a file with this ending, parsed.

    Raises:
        ApiError: the file is none of that kind, or too large.
    """
    if suffix == ".docx":
        from harken.serving.text.docx import read_docx

        documents, write = read_docx(data)
        return File(documents, write)
    text, encode = _decoded(data, suffix)
    documents, write_text = READERS[suffix](text)
    return File(documents, lambda texts: encode(write_text(texts)))


# ---- encodings ------------------------------------------------------------------------------------------------------

MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
CHARSET = {
    ".html": re.compile(rb"""<meta\b[^>]{0,500}\bcharset\s{0,20}=\s{0,20}["']?([\w-]{1,40})""", re.IGNORECASE),
    ".po": re.compile(rb'Content-Type:[^"\n]{0,200}\bcharset=([\w-]{1,40})', re.IGNORECASE),
}
CHARSET_BYTES = 10_000  # at the beginning of a file that may name its encoding
LEGACY = re.compile(
    r"iso-?8859-?\d{1,2}|latin-?1|(us-)?ascii|windows-125\d|koi8-[ru]|shift_jis|euc-(jp|kr)|gbk|gb2312|big5"
)


def _decoded(data: bytes, suffix: str) -> tuple[str, Callable[[str], bytes]]:
    """The text of a file, and how a text is written as the same kind of file.

    Text is UTF-8, or UTF-16 with a byte order mark; a page may also be in the encoding that it names.

    Raises:
        ApiError: it is in another encoding.
    """
    mark = next((mark for mark in MARKS if data.startswith(mark)), None)
    if mark is not None:
        return _decode(data[len(mark) :], MARKS[mark]), lambda text: mark + text.encode(MARKS[mark])
    pattern = CHARSET.get(".html" if suffix == ".htm" else suffix)
    match = pattern.search(data, 0, CHARSET_BYTES) if pattern is not None else None
    charset = match[1].decode("ascii").lower() if match is not None else "utf-8"
    if LEGACY.fullmatch(charset):
        if suffix == ".po":
            raise ApiError(400, f"the .po file is in {charset}; convert it, as by msgconv --to-code=UTF-8")
        # Letters that the encoding does not have are written as character references.
        return _decode(data, charset), lambda text: text.encode(charset, "xmlcharrefreplace")
    return _decode(data, "utf-8"), str.encode


def _decode(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        text = "\0"
    if "\0" in text:
        raise ApiError(400, f"the file is not {encoding.upper()} text; save it as UTF-8")
    return text


# ---- texts and pages ------------------------------------------------------------------------------------------------

Parsed = tuple[list[Document], Callable[[list[str]], str]]


def _spliced(text: str, spans: Sequence[tuple[int, int]], contents: Sequence[str]) -> str:
    """A text with other contents in some spans, which follow each other."""
    parts, last = [], 0
    for (start, end), content in zip(spans, contents, strict=True):
        parts += [text[last:start], content]
        last = end
    return "".join([*parts, text[last:]])


# ---- gettext --------------------------------------------------------------------------------------------------------

STRING = r'"(?:[^"\\\n]|\\.)*+"'
ENTRY = re.compile(
    rf"^(?P<key>msgid|msgid_plural|msgstr(?:\[\d+\])?)[ \t]+(?P<strings>{STRING}(?:[ \t]*+\r?\n[ \t]*+{STRING})*+)",
    re.MULTILINE,
)


def read_po(text: str) -> Parsed:
    """Every message in the place of its msgstr; plural forms come from msgid_plural, but for the first.

    The header, whose msgid is empty, stays.
    """
    messages: list[str] = []
    spans: list[tuple[int, int]] = []
    singular = plural = ""
    for match in ENTRY.finditer(text):
        key, value = match["key"], _unquoted(match["strings"])
        if key == "msgid":
            singular = plural = value
        elif key == "msgid_plural":
            plural = value
        elif singular:
            messages.append(singular if key in ("msgstr", "msgstr[0]") else plural)
            spans.append(match.span("strings"))
    newline = "\r\n" if "\r\n" in text else "\n"

    def write(texts: list[str]) -> str:
        return _spliced(text, spans, [_quoted(translation, newline) for translation in texts])

    return [read_text(message) for message in messages], write


def _unquoted(strings: str) -> str:
    """The value of a string in several lines.

    >>> _unquoted('"a\\\\n"\\n"say \\\\"b\\\\""')
    'a\\nsay "b"'
    """
    whole = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*+)"', strings))
    known = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
    return re.sub(r"\\(.)", lambda match: known.get(match[1], match[0]), whole)


def _quoted(text: str, newline: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\r", "\\r")
    lines = escaped.split("\n")
    if len(lines) == 1:
        return f'"{lines[0]}"'
    rows = ['""', *(f'"{line}\\n"' for line in lines[:-1]), *([f'"{lines[-1]}"'] if lines[-1] else [])]
    return newline.join(rows)


# ---- subtitles ------------------------------------------------------------------------------------------------------

BLANK_LINES = re.compile(r"\r?\n[ \t]*+(?:\r?\n)++")
TIMES = re.compile(r"[ \t]*+(?:\d++:)?\d++:\d++[.,]\d++[ \t]*+-->")
CUE = Rules(frozenset(), frozenset(("br", "v")))  # all tags but those of speakers belong to words
TIME_TAG = re.compile(r"<(\d[\d:.]*+)>")  # when a word of a .vtt cue is sung
SPEAKER = re.compile(r"^([-–] *+)")
CLASS_TAG = re.compile(r"<([a-z]++)(\.[^\s<>]++)")  # <c.yellow> of .vtt, whose end is </c>
ENTITY = re.compile(r"&(?!(?:amp|lt|gt|nbsp|lrm|rlm);)")


def read_cues(text: str, has_entities: bool) -> Parsed:
    """The text of every cue; numbers and times stay, as do cues without text and, in .vtt, header, notes and styles.

    Args:
        has_entities: whether the text has those of .vtt.
    """
    spans: list[tuple[int, int]] = []
    gaps = [(0, 0), *(match.span() for match in BLANK_LINES.finditer(text)), (len(text), len(text))]
    for (_, start), (end, _) in pairwise(gaps):
        position, is_cue = start, False
        while position < end and not is_cue:
            line_end = text.find("\n", position, end) + 1 or end
            is_cue = TIMES.match(text, position, line_end) is not None
            position = line_end
        cue = text[position:end]
        if is_cue and cue.strip():
            spans.append((position + len(cue) - len(cue.lstrip()), position + len(cue.rstrip())))
    cues = [text[start:end] for start, end in spans]

    def write(texts: list[str]) -> str:
        rows = [_written_cue(cue, written, has_entities) for cue, written in zip(cues, texts, strict=True)]
        return _spliced(text, spans, rows)

    return [read_html(_markup_of(cue, has_entities), CUE) for cue in cues], write


def _markup_of(cue: str, has_entities: bool) -> str:
    """The lines of a cue as one text, as a sentence goes over its lines; of several speakers each has a line."""
    lines = [line.strip() for line in cue.splitlines()]
    dashes = [SPEAKER.match(line) for line in lines]
    if len(lines) > 1 and all(dashes):
        markup = "".join(SPEAKER.sub(r"<br \1/>", line) for line in lines)
    else:
        markup = " ".join(lines)
    markup = ENTITY.sub("&amp;", markup) if has_entities else markup.replace("&", "&amp;")
    return CLASS_TAG.sub(r"<\1 \2", TIME_TAG.sub(r"<time \1/>", markup))


def _written_cue(cue: str, markup: str, has_entities: bool) -> str:
    """`_markup_of` undone, in as many lines as the source."""
    text = re.sub(r"<([a-z]++) (\.[^\s<>]++)", r"<\1\2", re.sub(r"<time (\d[\d:.]*+)/>", r"<\1>", markup))
    if not has_entities:
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    elif "&amp;" not in cue:
        text = text.replace("&amp;", "&")
    newline = "\r\n" if "\r\n" in cue else "\n"
    if text.startswith("<br "):
        return re.sub(r"<br ([-–] *+)/>", newline + r"\1", text).removeprefix(newline)
    return newline.join(_wrapped(text, len(cue.splitlines())))


def _wrapped(text: str, count: int) -> list[str]:
    """A text in so many lines, each cut at the space that is nearest to its end.

    >>> _wrapped("one two three four", 2)
    ['one two', 'three four']
    """
    spaces = [match.start() for match in re.finditer(r"<[^<>]*+>| ", text) if match[0] == " "]
    size, rows, start = len(text) / count, list[str](), 0
    first = 0  # of the spaces after `start`
    while len(rows) < count - 1 and first < len(spaces):
        after = bisect_left(spaces, start + size, first)
        near = [index for index in (after - 1, after) if first <= index < len(spaces)]
        chosen = min(near, key=lambda index: abs(spaces[index] - start - size))
        rows.append(text[start : spaces[chosen]])
        start, first = spaces[chosen] + 1, chosen + 1
    return [*rows, text[start:]]


READERS: dict[str, Callable[[str], Parsed]] = {
    ".txt": lambda text: ([read_text(text)], "".join),
    ".html": lambda text: ([read_html(text)], "".join),
    ".htm": lambda text: ([read_html(text)], "".join),
    ".po": read_po,
    ".srt": partial(read_cues, has_entities=False),
    ".vtt": partial(read_cues, has_entities=True),
}
