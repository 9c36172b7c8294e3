"""Translated files: what is text changes, everything else stays."""

import asyncio
import io
import zipfile
from typing import Any

import pytest

from harken.serving.errors import ApiError
from harken.serving.text.files import translate_file

from .test_documents import Capitals

PO = r"""# a comment
msgid ""
msgstr ""
"Language: fr\n"

#: src/a.c:1
msgid "Open %s"
msgstr ""

msgctxt "menu"
msgid ""
"Two lines\n"
"of \"text\"\n"
msgstr "old"

msgid "one file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
"""
PO_OUT = r"""# a comment
msgid ""
msgstr ""
"Language: fr\n"

#: src/a.c:1
msgid "Open %s"
msgstr "OPEN %s"

msgctxt "menu"
msgid ""
"Two lines\n"
"of \"text\"\n"
msgstr ""
"TWO LINES\n"
"OF \"TEXT\"\n"

msgid "one file"
msgid_plural "%d files"
msgstr[0] "ONE FILE"
msgstr[1] "%d FILES"
"""
SRT = "1\n00:00:01,000 --> 00:00:02,500\nthe cat\n<i>sleeps</i> now\n\n2\n00:00:03,000 --> 00:00:04,000\n- one\n- two\n"
SRT_OUT = SRT.replace("the cat\n<i>sleeps</i> now", "THE CAT\n<i>SLEEPS</i> NOW").replace("one\n- two", "ONE\n- TWO")
VTT = "WEBVTT\n\nNOTE keep this\n\n00:01.000 --> 00:02.000 align:start\nblack & white\n"


def translated(data: str | bytes, suffix: str) -> bytes:
    content = data.encode() if isinstance(data, str) else data
    return asyncio.run(translate_file(content, suffix, Capitals()))


@pytest.mark.parametrize(
    ("suffix", "given", "wanted"),
    [
        (".txt", "one\r\n\r\ntwo", "ONE\r\n\r\nTWO"),
        (".html", "<p>one <b>two</b></p>", "<p>ONE <b>TWO</b></p>"),
        (".po", PO, PO_OUT),
        (".srt", SRT, SRT_OUT),
        (".vtt", VTT, VTT.replace("black & white", "BLACK & WHITE")),
        (".txt", "", ""),
    ],
)
def test_text_formats(suffix: str, given: str, wanted: str) -> None:
    assert translated(given, suffix).decode() == wanted


def test_a_byte_order_mark_is_kept_and_other_encodings_are_refused() -> None:
    assert translated(b"\xef\xbb\xbfone", ".txt") == b"\xef\xbb\xbfONE"
    with pytest.raises(ApiError, match="not UTF-8"):
        translated("été".encode("latin-1"), ".txt")


def test_a_word_file_keeps_its_format() -> None:
    docx: Any = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("the title", 1)
    paragraph = document.add_paragraph("the ")
    paragraph.add_run("black").bold = True
    paragraph.add_run(" cat & dog. A second sentence")
    document.add_table(1, 1).cell(0, 0).text = "in a table"
    data = io.BytesIO()
    document.save(data)
    found = docx.Document(io.BytesIO(translated(data.getvalue(), ".docx")))
    assert [one.text for one in found.paragraphs] == ["THE TITLE", "THE BLACK CAT & DOG. A SECOND SENTENCE"]
    assert found.paragraphs[0].style.name == "Heading 1"
    assert [run.text for run in found.paragraphs[1].runs if run.bold] == ["BLACK"]
    assert found.tables[0].cell(0, 0).text == "IN A TABLE"


def test_links_in_a_word_file_stay_between_their_words() -> None:
    w = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = (
        f'<w:document xmlns:w="{w}"><w:body><w:p><w:pPr/><w:r><w:t xml:space="preserve">see </w:t></w:r>'
        "<w:proofErr/><w:hyperlink w:anchor='a'><w:r><w:t>this page</w:t></w:r></w:hyperlink>"
        '<w:r><w:br/><w:t xml:space="preserve"> now</w:t></w:r></w:p></w:body></w:document>'
    )
    found = translated(archive(**{"word__document.xml": body.encode()}), ".docx")
    with zipfile.ZipFile(io.BytesIO(found)) as made:
        text = made.read("word/document.xml").decode()
    order = [text.index(part) for part in ("SEE", "w:anchor", "THIS", "PAGE", "w:br", "NOW")]
    assert order == sorted(order) and "proofErr" not in text


def archive(method: int = zipfile.ZIP_DEFLATED, **files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, content in files.items():
            made.writestr(name.replace("__", "/"), content)
    return out.getvalue()


def damaged(method: int) -> bytes:
    """An archive with zeros in the middle of its packed document."""
    whole = archive(method, **{"word__document.xml": bytes(range(256)) * 40})
    start = 30 + len("word/document.xml") + 20
    return whole[:start] + bytes(60) + whole[start + 60 :]


def test_a_word_file_keeps_namespaces_and_parts_without_text() -> None:
    """`mc:Ignorable` names prefixes, so a file without their declarations is malformed."""
    etree = pytest.importorskip("lxml.etree")
    w = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    head = f'<w:document xmlns:w="{w}" xmlns:mc="urn:mc" xmlns:w14="urn:w14" mc:Ignorable="w14">'
    body = f"{head}<w:body><w:p><w:r><w:t>one</w:t></w:r></w:p></w:body></w:document>".encode()
    footer = f"<w:ftr xmlns:w='{w}'><w:p></w:p></w:ftr>".encode()
    with zipfile.ZipFile(
        io.BytesIO(translated(archive(**{"word__document.xml": body, "word__footer1.xml": footer}), ".docx"))
    ) as made:
        root = etree.fromstring(made.read("word/document.xml"))
        assert made.read("word/footer1.xml") == footer
    assert root.nsmap == {"w": w, "mc": "urn:mc", "w14": "urn:w14"}
    assert b'mc:Ignorable="w14"' in etree.tostring(root) and "".join(root.itertext()) == "ONE"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no archive", "is no .docx"),
        (archive(a=b"b"), "is no .docx"),
        (archive(**{"word__document.xml": b"<w:p"}), "cannot be read"),
        (archive(**{"word__document.xml": b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}), "entities"),
        (archive(**{"word__document.xml": b"<a>" * 5000 + b"</a>" * 5000}), "cannot be read"),
        (archive(**{"word__document.xml": b'<?xml version="1.0" encoding="nonsense"?><a/>'}), "cannot be read"),
        (archive(**{"word__document.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'.encode("utf-16")}), "entities"),
        (damaged(zipfile.ZIP_LZMA), "is no .docx"),
        (damaged(zipfile.ZIP_BZIP2), "is no .docx"),
        (archive(**{"word__document.xml": b"<a/>", "zeros": bytes(50_000_000)}), "unpacks to too much"),
    ],
)
def test_hostile_word_files_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(ApiError, match=said):
        translated(data, ".docx")
