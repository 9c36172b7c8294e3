"""What clients send to a server: the work to parse and to write it grows no faster than its size.

Two measures. The lines of Python that are run are counted, which is exact, but sees no work inside of a call such as
`in` or a regular expression; ten times the input may take forty times the lines, as short inputs skip some of them.
The time of the process is measured over sizes that differ by a factor of 64 or 100, so that quadratic work takes that
many times as long as linear work; six or ten times as long is allowed.
"""

from __future__ import annotations

import io
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from harken.serving.errors import TooLarge
from harken.serving.text.documents import (
    Document,
    Translation,
    read_html,
    read_text,
    segments_of,
    write_documents,
)
from harken.serving.text.files import read_segments, write_file
from harken.serving.text.markup import Rules

Run = Callable[[str], object]
TEXT = [
    "word ", "a", "Dr. ", "End. ", "One! ", "😀", "😀\u200d", "🇫🇷", "%", "%s ", "%0", "%(a", "{", "{x}",
    "{x} ", "}", "${", "www.",
    "http://", "https://a.org/b. ", "a@", "a@b.c ", ".", "...", "\n", "\r\n", "\t", " ", "。", "国。", "国",
    "é\u0301", "12 ", "1,5",
    "(", "“", "„ ", "-", "'", "\u2028", "\x0b", "x" * 30, "$", "@", "/",
]  # fmt: skip
HTML = [
    "<b>", "</b>", "<b>a</b>", "<b>a ", "<p>", "</p>", "<p>a", "<a ", "<a b='", "<a b=\"", "<a b=c d>",
    "<a href=x>a</a> ",
    "<", ">", "</", "<!", "<!--", "-->", "<!-- a -->", "<![CDATA[", "]]>", "<![", "<?", "<?a?>",
    "<script>", "</script>",
    "<style>a", "<code>", "</code>", "<svg>", "</svg>", "<pre>a", "<br>", "<img>", "<x/>", "&", "&amp;",
    "&#", "&#9", "9", "&lt;",
    "&notin", "<p translate=no>", "</a>", "<i class='notranslate'>", "<table><tr><td>", "{x}<b>.</b>",
    "<b>{x}</b> a ", "=", "'",
]  # fmt: skip
PO = [
    'msgid "a"\n', 'msgstr ""\n', '"a"\n', '"', "\\", 'msgid ""\n"a %s"\nmsgstr ""\n\n', "#: a\n",
    "msgstr[1]", " ", "\t", "\r\n",
    'msgid "a\\n"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n',
]  # fmt: skip
CUES = [
    "1\n", "00:00:01,000 --> 00:00:02,000\n", "a b\n", "\n", "\r\n", " ", "1", ":", "<i>", "</i>", "- a\n",
    "<00:01.000>", "<c.a>",
    "1\n00:00:01,000 --> 00:00:02,000\na {x} b\nc\n\n", "&", "<", "a",
]  # fmt: skip
WORD = [
    "<w:p/>", "<w:p></w:p>", "<w:p><w:r><w:t>a b</w:t></w:r></w:p>", "<w:r><w:t>a</w:t></w:r>",
    "<w:r><w:tab/></w:r>",
    "<w:r><w:rPr><w:b/></w:rPr><w:t xml:space='preserve'> a. </w:t><w:br/></w:r>",
    "<w:hyperlink><w:r><w:t>a</w:t></w:r></w:hyperlink>",
    "<w:proofErr/>", "<w:bookmarkStart/>", "<!-- a -->", "<w:t>&amp;</w:t>", "<w:t><![CDATA[a]]></w:t>",
    "<w:r/>", "text", "&#65;",
    "<w:r><w:fldChar/></w:r>", "<w:r><w:drawing><w:p><w:r><w:t>a</w:t></w:r></w:p></w:drawing></w:r>",
    "<a b='c' d=\"e\"/>",
]  # fmt: skip
NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
XML = Rules(frozenset(("keep",)), frozenset(("p",)))


def write(document: Document) -> list[str]:
    """A document translated into itself, without attention and by the order of its words."""
    segments = segments_of([document])
    known = {sentence: Translation([(segment.text, None)]) for sentence, segment in segments.items()}
    return write_documents([document], known)[0]


def translate_file(data: bytes, suffix: str) -> bytes:
    return write_file(data, suffix, [Translation([(segment.text, None)]) for segment in read_segments(data, suffix)])


def word_file(body: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        xml = f"<w:document xmlns:w='{NAMESPACE}'><w:body><w:p>{body}</w:p></w:body></w:document>"
        archive.writestr("word/document.xml", xml)
    return out.getvalue()


KINDS: dict[str, tuple[list[str], Run]] = {
    "text": (TEXT, lambda text: write(read_text(text))),
    "text that is not split": (TEXT, lambda text: write(read_text(text, split=False))),
    "html": ([*HTML, "a ", "A. ", "{x} "], lambda text: write(read_html(text))),
    "xml": ([*HTML, "a ", "<keep>"], lambda text: write(read_html(text, XML))),
    "po": (PO, lambda text: translate_file(text.encode(), ".po")),
    "srt": (CUES, lambda text: translate_file(b"1\n00:00:01,000 --> 00:00:02,000\n" + text.encode(), ".srt")),
    "vtt": (CUES, lambda text: translate_file(b"WEBVTT\n\n00:01.000 --> 00:02.000\n" + text.encode(), ".vtt")),
    "docx": (WORD, lambda text: translate_file(word_file(text), ".docx")),
}


def count_lines(run: Run, text: str) -> int:
    """The lines of Python that `run` runs."""
    count = 0

    def trace(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_lines_that_are_run_grow_no_faster_than_the_input(kind: str) -> None:
    pieces, run = KINDS[kind]

    @settings(max_examples=12, derandomize=True, database=None)
    @given(
        st.lists(st.sampled_from(pieces), max_size=2).map("".join),
        st.lists(st.sampled_from(pieces), min_size=1, max_size=3).map("".join),
        st.lists(st.sampled_from(pieces), min_size=1, max_size=3).map("".join),
    )
    def check(start: str, unit: str, end: str) -> None:
        small, large = (count_lines(run, start + unit * count + end * count) for count in (32, 320))
        assert large <= 4 * 10 * small, (start, unit, end)

    run("a")  # modules are imported, patterns compiled
    check()


def process_seconds(run: Run, text: str) -> float:
    started = time.process_time()
    with suppress(TooLarge):  # as tags around many sentences are
        run(text)
    return time.process_time() - started


PAIRS = {  # inputs whose second half meets what the first has opened
    "html": [
        ("<svg><a>", "</b>"), ("<b>", "a "), ("<code>", "</svg>"), ("<b>", "</b>"), ("<i>", "</b>"),
        ("<p>{x} a <b>b", "</b>"),
        ("<a>", "<p>b"), ("<keep>", "</a>"),
    ],
    "text": [("{", "}"), ("a@", "."), ("%", "s"), ("(", "a. "), ("www.", "."), ("a", "。")],
    "po": [('msgid "a"\n', '"b"\n'), ('msgid "', '\n"')],
    "srt": [("a\n", "b "), ("<i>", "a "), ("<", " ")],
    "docx": [("<w:r><w:t>a </w:t><w:fldChar/></w:r>", "<w:proofErr/>")],
}  # fmt: skip


def check_time(run: Run, unit: str, end: str, characters: int, factor: int, margin: int) -> None:
    """Whether the time for an input that is `factor` times as long is at most `margin` times what linear work takes."""
    count = max(1, characters // len(unit + end))
    small = process_seconds(run, unit * count + end * count)
    large = process_seconds(run, unit * count * factor + end * count * factor)
    assert large < margin * factor * max(small, 0.001), (unit, end, small, large)


@pytest.mark.parametrize("kind", KINDS)
def test_the_time_grows_no_faster_than_the_input(kind: str) -> None:
    pieces, run = KINDS[kind]
    run("a")
    for piece in pieces:
        check_time(run, piece, "", characters=600, factor=100, margin=10)
    for unit, end in PAIRS.get(kind, ()):
        check_time(run, unit, end, characters=3000, factor=64, margin=6)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("html", "<b>" * 5000 + "a " * 17_000),
        ("html", "<a " * 16_000),
        ("html", "<a b='" * 8000),
        ("html", "<svg>" + "<a>" * 7000 + "</b>" * 7000),
        ("html", "".join(f"<p>{{a{number}}} x <b>y</b></p>" for number in range(2000))),
        ("text", "%" * 50_000),
        ("text that is not split", "1 " * 25_000),
        ("docx", "<w:p></w:p>" * 400_000),
    ],
)
def test_inputs_that_once_stopped_a_server(kind: str, text: str) -> None:
    assert process_seconds(KINDS[kind][1], text) < 5  # a tenth of that, or a fifth, where nothing else runs


@pytest.mark.parametrize("block", ["Going home! ", "a<br>", "<p>a</p>"])
def test_tags_around_many_sentences_make_no_answer_of_a_thousand_times_the_request(block: str) -> None:
    tag = "<span class='" + "x" * 25_000 + "'>"
    with pytest.raises(TooLarge, match="tags around many sentences"):
        write(read_html(tag + block * 2000))
    assert len(write(read_html(tag + block * 10))[0]) < 300_000
    usual = "<span style='font-size: 11pt; font-family: Calibri, sans-serif'>"
    assert write(read_html(usual + block * 4000))[0].count("</span>") > 200


def test_many_short_documents_with_such_tags_are_refused_together() -> None:
    cue = "<font color='" + "x" * 900 + "'>" + "Go home! " * 100 + "</font>"
    file = "\n".join(f"{number}\n00:00:01,000 --> 00:00:02,000\n{cue}\n" for number in range(100))
    with pytest.raises(TooLarge, match="tags around many sentences"):
        translate_file(file.encode(), ".srt")
    usual = file.replace("x" * 900, "red")
    assert translate_file(usual.encode(), ".srt").count(b"</font>") == 100 * 100


def test_a_number_that_is_no_character_is_text() -> None:
    """Python refuses to read a number of so many digits."""
    assert write(read_html("<p>a &#" + "9" * 5000 + "; b &#x" + "f" * 5000 + ";</p>")) == ["<p>a \ufffd b \ufffd</p>"]


@pytest.mark.parametrize("split", [True, False])
def test_no_model_gets_more_than_a_sentence_may_have(split: bool) -> None:
    for text in (
        "a " * 25_000,
        "a" * 50_000,
        "国" * 50_000,
        "https://a.org/" + "a" * 40_000 + " is long",
        "ab" * 400 + " ",
    ):
        document = read_text(text, split)
        for segment in segments_of([document]).values():
            assert len(segment.text) <= 2300 and len(segment.text.split()) <= 240
        assert write(document) == [text]
