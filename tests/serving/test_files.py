"""Translated files: what is text changes, everything else stays."""

import asyncio
import io
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.serving.errors import ApiError
from harken.serving.text.documents import Translation, translate_segments
from harken.serving.text.files import read_segments, write_file

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
    segments = read_segments(content, suffix)
    return write_file(content, suffix, asyncio.run(translate_segments(segments, Capitals())))


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


@pytest.mark.parametrize(
    ("suffix", "given", "result"),
    [
        (".txt", b"\xef\xbb\xbfone", b"\xef\xbb\xbfONE"),
        (".txt", "\ufeffété\r\n".encode("utf-16-le"), "\ufeffÉTÉ\r\n".encode("utf-16-le")),
        (".srt", "\ufeff1\n00:01:00,000 --> 00:02:00,000\none".encode("utf-16-be"),
         "\ufeff1\n00:01:00,000 --> 00:02:00,000\nONE".encode("utf-16-be")),
        (".html", "<meta charset='iso-8859-1'><p>été &euro;</p>".encode("latin-1"),
         "<meta charset='iso-8859-1'><p>ÉTÉ &#8364;</p>".encode("latin-1")),
        (".htm", "<meta http-equiv=a content='text/html; charset=Shift_JIS'>あa".encode("shift_jis"),
         "<meta http-equiv=a content='text/html; charset=Shift_JIS'>あA".encode("shift_jis")),
        (".html", "<meta charset=utf-8>été".encode(), "<meta charset=utf-8>ÉTÉ".encode()),
        (".html", "<meta charset=punycode>été".encode(), "<meta charset=punycode>ÉTÉ".encode()),
        (".po", b'msgid "a"\r\nmsgstr ""\r\n"b\\n"\r\n\r\nmsgid "c\\n"\r\n"d"\r\nmsgstr ""\r\n',
         b'msgid "a"\r\nmsgstr "A"\r\n\r\nmsgid "c\\n"\r\n"d"\r\nmsgstr ""\r\n"C\\n"\r\n"D"\r\n'),
        (".srt", b"1\r\n00:01:00,000 --> 00:02:00,000\r\none\r\ntwo\r\n\r\n",
         b"1\r\n00:01:00,000 --> 00:02:00,000\r\nONE\r\nTWO\r\n\r\n"),
        (".srt", b"1\n00:01:00,000 --> 00:02:00,000\na < b & c &lt; {\\an8}",
         b"1\n00:01:00,000 --> 00:02:00,000\nA < B & C &LT; {\\an8}"),
        (".vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\n<v.loud Bob>one <00:01.500>two <c.yellow>three</c> &amp; &lt;\n",
         b"WEBVTT\n\n00:01.000 --> 00:02.000\n<v.loud Bob>ONE <00:01.500>TWO <c.yellow>THREE</c> &amp; &lt;\n"),
        (".txt", b"", b""),
        (".txt", b"12 + 3\r\n\r\n", b"12 + 3\r\n\r\n"),
        (".po", b"", b""),
        (".srt", b"no cues\n\n\n", b"no cues\n\n\n"),
        (".html", b"<p></p>", b"<p></p>"),
    ],
)  # fmt: skip
def test_encodings_line_ends_and_files_without_text(suffix: str, given: bytes, result: bytes) -> None:
    assert translated(given, suffix) == result


def test_dashes_of_speakers_are_not_for_the_model() -> None:
    cue = "1\r\n00:01:00,000 --> 00:02:00,000\r\n- the cat\r\n–  a <i>dog</i>\r\n"
    assert [segment.text for segment in read_segments(cue.encode(), ".srt")] == ["the cat", "a dog"]
    assert translated(cue, ".srt").decode() == cue.replace("the cat", "THE CAT").replace("a <i>dog", "A <i>DOG")


@pytest.mark.parametrize(
    ("suffix", "given", "message"),
    [
        (".txt", "été".encode("latin-1"), "not UTF-8 text; save it as UTF-8"),
        (".txt", b"\xff\xfea", "not UTF-16-LE text; save it as UTF-8"),
        (".txt", "one".encode("utf-32"), "not UTF-16-LE text"),
        (".html", "<p>été</p>".encode("latin-1"), "not UTF-8"),
        (".html", b"<meta charset=iso-8859-12><p>a</p>", "not ISO-8859-12 text"),
        (".po", b'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n', "msgconv --to-code=UTF-8"),
    ],
)
def test_other_encodings_are_refused(suffix: str, given: bytes, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        translated(given, suffix)


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


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DECLARATION = "<?xml version='1.0' encoding='utf-8'  standalone=\"yes\"?>\r\n<?pi <w:p> ?><!-- <w:p> -->\r\n"
ROOT = f"<w:document xmlns:w='{W}' xmlns:mc=\"urn:mc\"\n xmlns:w14='urn:w14' mc:Ignorable='w14'>"


def word_file(body: str, **files: bytes) -> bytes:
    """A .docx file whose document has this body."""
    text = f"{DECLARATION}{ROOT}<w:body>{body}</w:body></w:document>\n"
    return archive(**{"word__document.xml": text.encode(), **files})


def document_of(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return file.read("word/document.xml").decode()


def without_texts(xml: str) -> str:
    """XML with nothing in its w:t, whether or not they keep their spaces."""
    return re.sub(r"<w:t(?: xml:space=.preserve.)?>[^<]*</w:t>", "<w:t/>", xml)


BODY = (
    "<w:p w14:paraId = '1' ><w:pPr><w:rPr/></w:pPr><w:bookmarkStart w:id='0'/>"
    "<w:r  w:rsidR='00A'><w:rPr><w:b w:val=\"1\"></w:b></w:rPr><w:t>the &quot;black&quot; cat</w:t></w:r>"
    "<w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText> HYPERLINK &quot;a&quot; </w:instrText></w:r>"
    "<w:r><w:fldChar w:fldCharType='separate'/></w:r><w:r><w:t xml:space='preserve'> sleeps </w:t></w:r>"
    "<w:r><w:fldChar w:fldCharType='end'/></w:r><w:r><w:tab/><w:t>here &#38; there</w:t></w:r>"
    "<w:bookmarkEnd w:id='0'/></w:p><w:p></w:p><w:p/><w:p><w:r><w:t>12,5 %</w:t></w:r></w:p>"
    "<w:p><w:r><w:t>a note</w:t><mc:AlternateContent><mc:Choice Requires='w14'><w:txbxContent><w:p><w:r><w:t>in a box"
    "</w:t></w:r></w:p></w:txbxContent></mc:Choice></mc:AlternateContent></w:r></w:p><w:sectPr/>"
)


def test_all_but_the_text_of_a_word_file_stays_byte_for_byte() -> None:
    parts = {
        "word__footer1.xml": f"<w:ftr xmlns:w='{W}'><w:p></w:p></w:ftr>".encode(),
        "word__media__a.png": b"\x89PNG",
    }
    given = word_file(BODY, **parts)
    result = translated(given, ".docx")
    with zipfile.ZipFile(io.BytesIO(given)) as before, zipfile.ZipFile(io.BytesIO(result)) as after:
        assert before.namelist() == after.namelist()
        for old, new in zip(before.infolist(), after.infolist(), strict=True):
            assert (old.date_time, old.compress_type) == (new.date_time, new.compress_type)
            assert old.filename == "word/document.xml" or before.read(old) == after.read(new)
    before_text, after_text = document_of(given), document_of(result)
    assert without_texts(after_text) == without_texts(before_text)
    texts = re.findall("<w:t(?: [^>]*)?>([^<]*)</w:t>", after_text)
    assert texts == ['THE "BLACK" CAT', " SLEEPS ", "HERE &amp; THERE", "12,5 %", "A NOTE", "IN A BOX"]


def test_a_word_file_without_text_comes_back_as_it_is() -> None:
    given = word_file("<w:p/><w:p><w:r><w:t>12</w:t></w:r></w:p>")
    assert read_segments(given, ".docx") == [] and document_of(translated(given, ".docx")) == document_of(given)


@pytest.mark.parametrize("prefix", ["w:", ""])
def test_word_files_of_the_strict_kind_and_without_a_prefix(prefix: str) -> None:
    namespace = "http://purl.oclc.org/ooxml/wordprocessingml/main"
    xml = f"<w:document xmlns{':w' if prefix else ''}='{namespace}'><w:p><w:r><w:t>one</w:t></w:r></w:p></w:document>"
    xml = xml.replace("w:", prefix) if not prefix else xml
    assert document_of(translated(archive(**{"word__document.xml": xml.encode()}), ".docx")) == xml.replace(
        "one", "ONE"
    )


def test_fields_keep_the_order_of_their_marks_where_words_are_reordered() -> None:
    marks = ["begin", "separate", "end"]
    runs = [
        f"<w:r><w:fldChar w:fldCharType='{mark}'/></w:r><w:r><w:t xml:space='preserve'> {mark} </w:t></w:r>"
        for mark in marks
    ]
    given = word_file(f"<w:p><w:r><w:t>one</w:t></w:r>{''.join(runs)}</w:p>")
    segments = read_segments(given, ".docx")
    result = write_file(given, ".docx", asyncio.run(translate_segments(segments, Capitals(reverse=True))))
    assert re.findall("fldCharType='(.*?)'", document_of(result)) == marks
    assert re.findall("[A-Z]{2,}", re.sub("<[^>]*>", "", document_of(result))) == ["END", "SEPARATE", "BEGIN", "ONE"]


def test_words_of_insertions_and_content_controls_are_translated() -> None:
    run = "<w:r><w:t>word</w:t></w:r>"
    given = word_file(
        f"<w:p><w:ins w:id='1'>{run}</w:ins><w:sdt><w:sdtContent>{run}</w:sdtContent></w:sdt>"
        "<w:del w:id='2'><w:r><w:delText>word</w:delText></w:r></w:del></w:p>"
    )
    assert re.findall("word|WORD", document_of(translated(given, ".docx")).partition("<w:body>")[2]) == [
        "WORD",
        "WORD",
        "word",
    ]


@pytest.mark.slow
def test_a_translated_word_file_opens_in_libreoffice(tmp_path: Path) -> None:
    office = shutil.which("soffice")
    if office is None:
        pytest.skip("LibreOffice is not installed")
    docx: Any = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("the title", 1)
    paragraph = document.add_paragraph("the ")
    paragraph.add_run("black").bold = True
    paragraph.add_run(" cat & dog")
    document.add_table(1, 1).cell(0, 0).text = "in a table"
    document.sections[0].header.paragraphs[0].text = "in the header"
    document.save(tmp_path / "before.docx")
    (tmp_path / "after.docx").write_bytes(translated((tmp_path / "before.docx").read_bytes(), ".docx"))
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    command = [office, profile, "--headless", "--convert-to", "txt:Text", "--outdir", str(tmp_path)]
    subprocess.run([*command, str(tmp_path / "after.docx")], check=True, timeout=600, capture_output=True)
    lines = (tmp_path / "after.txt").read_text(encoding="utf-8-sig").splitlines()
    assert lines == ["THE TITLE", "THE BLACK CAT & DOG", "IN A TABLE"]


ENTITY = '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'


def two_parts_of_one_name() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for _ in range(2):
                file.writestr("word/document.xml", b"<a/>")
    return out.getvalue()


def damaged_crc() -> bytes:
    whole = bytearray(archive(zipfile.ZIP_STORED, **{"word__document.xml": b"<a>text</a>"}))
    whole[whole.index(b"text")] = ord("T")
    return bytes(whole)


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"", 400, "is no .docx"),
        (b"no archive", 400, "is no .docx"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 100, 400, "protected by a password"),
        (archive(a=b"b"), 400, "is no .docx"),
        (damaged_crc(), 400, "is no .docx"),
        (damaged(zipfile.ZIP_DEFLATED), 400, "is no .docx"),
        (archive(**{"word__document.xml": b"<w:p"}), 400, "cannot be read"),
        (archive(**{"word__document.xml": b"<a>&nbsp;</a>"}), 400, "cannot be read"),
        (archive(**{"word__document.xml": b"<a>\xff</a>"}), 400, "cannot be read"),
        (archive(**{"word__document.xml": ENTITY.encode()}), 400, "entities"),
        (archive(**{"word__document.xml": b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'}), 400, "entities"),
        (archive(**{"word__document.xml": ENTITY.encode("utf-16")}), 400, "entities"),
        (archive(**{"word__document.xml": "<a/>".encode("utf-16")}), 400, "cannot be read"),
        (archive(**{"word__document.xml": b'<?xml version="1.0" encoding="nonsense"?><a/>'}), 400, "cannot be read"),
        (archive(**{"word__document.xml": b'<?xml version="1.0" encoding="latin-1"?><a/>'}), 400, "not UTF-8"),
        (archive(**{"word__document.xml": b"<a>" * 5000 + b"</a>" * 5000}), 413, "nested more than 200"),
        (damaged(zipfile.ZIP_LZMA), 400, "other than deflate"),
        (damaged(zipfile.ZIP_BZIP2), 400, "other than deflate"),
        (archive(**{"word__document.xml": b"<a/>", "zeros": bytes(50_000_000)}), 413, "unpacks to too much"),
        (archive(0, **{"word__document.xml": b"<a>" + b" " * 33_000_000 + b"</a>"}), 413, "32,000,000 bytes of XML"),
        (two_parts_of_one_name(), 400, "two parts of one name"),
    ],
)  # fmt: skip
def test_hostile_word_files_are_refused(data: bytes, status: int, message: str) -> None:
    with pytest.raises(ApiError, match=message) as error:
        translated(data, ".docx")
    assert error.value.status == status


def test_a_format_that_would_be_copied_too_often_is_refused() -> None:
    """Words of two runs by turns: every one of them takes a copy of its large properties."""
    runs = "".join(f"<w:r><w:rPr><w:a v='{'x' * 400_000}'/></w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"
                   for text in ("a " * 100, "b " * 100))  # fmt: skip
    given = word_file(f"<w:p>{runs}</w:p>")
    (segment,) = read_segments(given, ".docx")
    links = np.zeros((200, 200))
    links[range(200), [index // 2 + 100 * (index % 2) for index in range(200)]] = 1
    with pytest.raises(ApiError, match="file would have more than"):
        write_file(given, ".docx", [Translation([(segment.text, links)])])


def test_a_worker_process_reads_and_writes_documents(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server could not: here its reader fails, which the worker process does not know."""
    from fastapi.testclient import TestClient

    from harken.serving.app import create_app
    from harken.serving.settings import ServerSettings

    monkeypatch.setattr("harken.serving.text.files.read_file", None)
    app = create_app([tiny_model("phrasebook-transformer")], ServerSettings(workers=1, reload_seconds=0))
    given = word_file("<w:p><w:r><w:t>the black cat</w:t><w:tab/><w:t>12</w:t></w:r></w:p>")
    with TestClient(app) as client:
        files, data = {"file": ("a.docx", given)}, {"source": "en", "target": "fr"}
        answer = client.post("/translate_file", files=files, data=data)
        assert answer.status_code == 200, answer.text
        result = document_of(client.get(answer.json()["translatedFileUrl"]).content)
        assert result.partition("<w:t>")[0] == document_of(given).partition("<w:t>")[0]
        assert result.endswith("<w:tab/><w:t>12</w:t></w:r></w:p></w:body></w:document>\n")
        damaged_file = client.post("/translate_file", files={"file": ("a.docx", damaged(zipfile.ZIP_LZMA))}, data=data)
        assert damaged_file.status_code == 400 and "other than deflate" in damaged_file.json()["error"]
