"""Files in, files out: only what is meant to be read is translated, everything else stays as it is.

.txt            lines
.html, .htm     `markup.py`
.po             msgstr of every message; headers, comments and references stay
.srt, .vtt      cue texts, which may have tags; times and settings stay
.docx           paragraphs of the document, its notes, headers and footers; runs keep their format

Messages and cues are matched by patterns and everything around them is copied, because libraries write files anew:
polib wraps lines of .po files that were not translated, and pysubs2 drops notes and the settings of cues from .vtt.
"""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
import zlib
from collections.abc import Awaitable, Callable

from harken.serving.errors import ApiError
from harken.serving.text.documents import Document, Translate, read_html, read_text, translate_documents

SUFFIXES = (".txt", ".html", ".htm", ".po", ".srt", ".vtt", ".docx")
SAMPLE_BYTES, SAMPLE_CHARACTERS = 200_000, 4000  # of a file that its language is detected by


async def translate_file(data: bytes, suffix: str, translate: Translate) -> bytes:
    """The bytes of a file with this ending, translated.

    Raises:
        ApiError: the file is none of that kind.
    """
    if suffix == ".docx":
        from harken.serving.text.docx import translate_docx

        return await translate_docx(data, translate)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ApiError(400, "the file is not UTF-8 text") from None
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    kinds: dict[str, Callable[[str, Translate], Awaitable[str]]] = {
        ".txt": _plain,
        ".html": _page,
        ".htm": _page,
        ".po": translate_po,
        ".srt": translate_srt,
        ".vtt": translate_vtt,
    }
    return mark + (await kinds[suffix](text, translate)).encode("utf-8")


def sample_of(data: bytes, suffix: str) -> str:
    """Some text of a file, to detect its language by.

    >>> sample_of(b"<p>le chat</p>", ".html")
    ' le chat '
    """
    if suffix == ".docx":
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as file, file.open("word/document.xml") as part:
                data = part.read(SAMPLE_BYTES)
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, OSError, ValueError, RuntimeError):
            return ""
    text = data[:SAMPLE_BYTES].decode("utf-8", "replace")
    return (re.sub(r"<[^>]*>", " ", text) if suffix in (".docx", ".html", ".htm") else text)[:SAMPLE_CHARACTERS]


async def _plain(text: str, translate: Translate) -> str:
    return (await translate_documents([read_text(text)], translate))[0][0]


async def _page(text: str, translate: Translate) -> str:
    return (await translate_documents([await asyncio.to_thread(read_html, text)], translate))[0][0]


async def _each(documents: list[Document], translate: Translate) -> list[str]:
    return [best[0] for best in await translate_documents(documents, translate)]


# ---- gettext --------------------------------------------------------------------------------------------------------

STRING = r'"(?:[^"\\\n]|\\.)*"'
ENTRY = re.compile(
    rf"^(?P<key>msgid|msgid_plural|msgstr(?:\[\d+\])?)[ \t]+(?P<strings>{STRING}(?:[ \t]*\r?\n[ \t]*{STRING})*)",
    re.MULTILINE,
)


async def translate_po(text: str, translate: Translate) -> str:
    """Every message in the place of its msgstr; plural forms come from msgid_plural, but for the first.

    The header, whose msgid is empty, stays.
    """
    matches = list(ENTRY.finditer(text))
    messages: list[str] = []
    spans: list[tuple[int, int, str]] = []
    singular = plural = ""
    for match in matches:
        key, value = match["key"], _unquoted(match["strings"])
        if key == "msgid":
            singular = plural = value
        elif key == "msgid_plural":
            plural = value
        elif singular:
            messages.append(singular if key in ("msgstr", "msgstr[0]") else plural)
            spans.append((match.start("strings"), match.end("strings"), messages[-1]))
    translations = await _each([read_text(message) for message in messages], translate)
    parts, last = [], 0
    for (start, end, _), translation in zip(spans, translations, strict=True):
        parts += [text[last:start], _quoted(translation)]
        last = end
    return "".join([*parts, text[last:]])


def _unquoted(strings: str) -> str:
    """The value of a string in several lines.

    >>> _unquoted('"a\\\\n"\\n"say \\\\"b\\\\""')
    'a\\nsay "b"'
    """
    whole = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', strings))
    known = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
    return re.sub(r"\\(.)", lambda match: known.get(match[1], match[0]), whole)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\r", "\\r")
    lines = escaped.split("\n")
    if len(lines) == 1:
        return f'"{lines[0]}"'
    return '""\n' + "\n".join(f'"{line}\\n"' for line in lines[:-1]) + (f'\n"{lines[-1]}"' if lines[-1] else "")


# ---- subtitles ------------------------------------------------------------------------------------------------------

TIMES = re.compile(r"^\s*(?:\d+:)?\d+:\d+[.,]\d+\s*-->")
BLOCKS = re.compile(r"(\r?\n[ \t]*(?:\r?\n)+)")


async def translate_srt(text: str, translate: Translate) -> str:
    """The text of every cue; numbers and times stay, as do cues without text."""
    parts = BLOCKS.split(text)  # blocks and what separates them, by turns
    cues: list[tuple[int, str, str]] = []  # index of the part, its head, its text
    for index, part in enumerate(parts[::2]):
        lines = part.splitlines(keepends=True)
        time = next((number for number, line in enumerate(lines) if TIMES.match(line)), None)
        if time is not None and "".join(lines[time + 1 :]).strip():
            cues.append((2 * index, "".join(lines[: time + 1]), "".join(lines[time + 1 :])))
    translations = await _each([read_html(_joined(cue)) for _, _, cue in cues], translate)
    for (index, head, cue), translation in zip(cues, translations, strict=True):
        end = cue[len(cue.rstrip()) :]
        parts[index] = head + _wrapped(_plain_marks(translation), len(cue.strip().splitlines())) + end
    return "".join(parts)


translate_vtt = translate_srt  # WEBVTT's header, notes and styles have no times, so they stay


def _joined(cue: str) -> str:
    """The lines of a cue as one text, as a sentence goes over its lines; & is text in subtitles."""
    dashes = [line.strip() for line in cue.strip().splitlines()]
    spoken = len(dashes) > 1 and all(line.startswith(("-", "–")) for line in dashes)  # two speakers, a line each
    return re.sub("&(?!amp;|lt;|gt;|nbsp;)", "&amp;", ("<br>" if spoken else " ").join(dashes))


def _plain_marks(text: str) -> str:
    return text.replace("<br>", "\n").replace("&amp;", "&")


def _wrapped(text: str, lines: int) -> str:
    """A text in as many lines as its source, cut at the space nearest to the middle.

    >>> _wrapped("one two three four", 2)
    'one two\\nthree four'
    """
    if "\n" in text or lines < 2 or " " not in text:
        return text
    size, rows = len(text) / lines, []
    while lines > 1 and " " in text:
        spaces = [match.start() for match in re.finditer(r" (?![^<]{0,200}>)", text)]
        if not spaces:
            break
        cut = min(spaces, key=lambda position: abs(position - size))
        rows.append(text[:cut])
        text, lines = text[cut + 1 :], lines - 1
    return "\n".join([*rows, text])
