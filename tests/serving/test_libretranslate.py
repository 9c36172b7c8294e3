"""LibreTranslate's dialect: every way to send parameters, its answers and its errors."""

import io
import os
import shutil
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.serving.app import create_app
from harken.serving.detection import Detector
from harken.serving.settings import ServerSettings

TestClient = pytest.importorskip("fastapi.testclient").TestClient


def word_file(body: str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        file.writestr("word/document.xml", f"<w:a xmlns:w='urn:x'>{body}</w:a>")
    return out.getvalue()


def post(client: Any, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("way", ["json", "data", "params", "files"])
def test_parameters_come_as_json_form_or_query(capital_client: Any, way: str) -> None:
    given = {"q": "the cat", "source": "en", "target": "fr"}
    sent = {name: (None, value) for name, value in given.items()} if way == "files" else given
    answer = capital_client.post("/translate", **{way: sent})
    assert (answer.status_code, answer.json()) == (200, {"translatedText": "THE CAT"})


def test_a_list_is_translated_in_one_batch(capital_client: Any, capitals: Any) -> None:
    found = post(capital_client, "/translate", q=["one", "two. Three", "one"], source="en", target="fr")
    assert found == {"translatedText": ["ONE", "TWO. THREE", "ONE"]}
    assert [len(work.items) for work in capitals.works] == [3]


def test_html_keeps_tags_and_has_no_alternatives(capital_client: Any) -> None:
    body = {"q": "<p>a <b>cat</b></p>", "source": "en", "target": "fr", "format": "html", "alternatives": 2}
    assert post(capital_client, "/translate", **body) == {"translatedText": "<p>A <b>CAT</b></p>", "alternatives": []}


def test_alternatives_are_other_translations(capital_client: Any) -> None:
    found = post(capital_client, "/translate", q="a cat", source="en", target="fr", alternatives=2)
    assert found == {"translatedText": "A CAT", "alternatives": ["A CAT 1", "A CAT 2"]}
    found = post(capital_client, "/translate", q=["a", "b"], source="en", target="fr", alternatives=1)
    assert found["alternatives"] == [["A 1"], ["B 1"]]


def test_the_language_is_detected(capital_client: Any) -> None:
    found = post(capital_client, "/translate", q="the black cat sleeps", source="auto", target="fr")
    assert found["translatedText"] == "THE BLACK CAT SLEEPS" and found["detectedLanguage"]["language"] == "en"
    assert found["detectedLanguage"]["confidence"] > 95
    found = post(capital_client, "/translate", q=["le chat noir dort", "the cat"], source="auto", target="fr")
    assert found["translatedText"] == ["le chat noir dort", "THE CAT"]  # French stays as it is
    assert [one["language"] for one in found["detectedLanguage"]] == ["fr", "en"]
    found = post(capital_client, "/detect", q="la jeune reine lit un livre")
    assert found[0]["language"] == "fr" and found[0]["confidence"] > 95


def test_languages_and_settings(capital_client: Any) -> None:
    found = {one["code"]: one for one in capital_client.get("/languages").json()}
    assert found["en"] == {"code": "en", "name": "English", "targets": ["en", "fr"]}
    assert found["fr"]["targets"] == ["fr"]
    assert "/translate" in capital_client.get("/spec").json()["paths"]
    settings = capital_client.get("/frontend/settings").json()
    assert settings["language"]["target"] == {"code": "fr", "name": "French"} and not settings["keyRequired"]
    assert ".docx" in settings["supportedFilesFormat"] and settings["suggestions"] is False


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"source": "en", "target": "fr"}, "missing q"),
        ({"q": "", "source": "en", "target": "fr"}, "missing q"),
        ({"q": "a", "target": "fr"}, "missing source"),
        ({"q": "a", "source": "en"}, "missing target"),
        (
            {"q": "a", "source": "de", "target": "fr"},
            "de is not supported; served: en to fr (harken serve",
        ),
        (
            {"q": "a", "source": "fr", "target": "en"},
            "en is not available as a target language from fr; served:",
        ),
        ({"q": "a", "source": "en", "target": "fr", "format": "pdf"}, "pdf format is not supported"),
        ({"q": 7.5, "source": "en", "target": "fr"}, "neither a string nor a list"),
        ({"q": ["a", 1], "source": "en", "target": "fr"}, "neither a string nor a list"),
        ({"q": "a", "source": "en", "target": "fr", "alternatives": "many"}, "not a number"),
        ({"q": "a" * 50_001, "source": "en", "target": "fr"}, "too many"),
        ({"q": ["a"] * 513, "source": "en", "target": "fr"}, "too many"),
        ({"q": "a", "source": ["en"], "target": "fr"}, "source is not a string"),
        ({"q": "a", "source": True, "target": "fr"}, "source is not a string"),
    ],
)
def test_bad_requests_are_400_with_one_sentence(capital_client: Any, body: dict[str, Any], said: str) -> None:
    answer = capital_client.post("/translate", json=body)
    assert answer.status_code == 400 and said in answer.json()["error"]


@pytest.mark.parametrize("q", [False, 7, ["a"], {"a": "b"}])
def test_only_a_string_has_a_language(capital_client: Any, q: Any) -> None:
    answer = capital_client.post("/detect", json={"q": q})
    assert answer.status_code == 400 and "q is not a string" in answer.json()["error"]


def test_a_field_of_a_form_may_be_as_long_as_a_text(capital_client: Any) -> None:
    """A longer one is refused by the number of its characters, and not as a form that cannot be read."""
    files = {"q": (None, "a" * 2_000_000), "source": (None, "en"), "target": (None, "fr")}
    answer = capital_client.post("/translate", files=files)
    assert answer.status_code == 400 and "2,000,000 characters are too many" in answer.json()["error"]


def test_broken_json_is_400(capital_client: Any) -> None:
    for body in (b"{", b"[1]", b'{"q": ' + b"[" * 100_000):
        answer = capital_client.post("/translate", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()) == (400, {"error": "Invalid JSON format"})


def test_text_that_is_no_unicode_is_400(capital_client: Any) -> None:
    body = b'{"q": "a \\ud800 b", "source": "en", "target": "fr"}'
    answer = capital_client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "not valid Unicode" in answer.json()["error"]
    for path, given in (("/v1/translate", b'{"text": "\\ud800"}'), ("/v1/gates", b'{"text": "\\ud800"}')):
        answer = capital_client.post(path, content=given, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)


def test_suggestions_are_off_unless_there_is_a_file(capital_client: Any, tmp_path: Path) -> None:
    given = {"q": "a", "s": "b", "source": "en", "target": "fr"}
    assert capital_client.post("/suggest", json=given).status_code == 403
    capital_client.app.state.serving.settings.suggestions = tmp_path / "suggestions.jsonl"
    assert post(capital_client, "/suggest", **given) == {"success": True}
    assert (tmp_path / "suggestions.jsonl").read_text() == '{"q": "a", "s": "b", "source": "en", "target": "fr"}\n'


def test_a_file_is_translated_and_downloaded(capital_client: Any) -> None:
    files = {"file": ("my notes.txt", b"the cat\n\nsleeps\n")}
    answer = capital_client.post("/translate_file", files=files, data={"source": "en", "target": "fr"})
    assert answer.status_code == 200, answer.text
    url = answer.json()["translatedFileUrl"]
    found = capital_client.get(url)
    assert (
        found.content == b"THE CAT\n\nSLEEPS\n" and 'filename="mynotes_fr.txt"' in found.headers["content-disposition"]
    )
    assert capital_client.get("/download_file/../settings").status_code in (400, 404)
    assert capital_client.get("/download_file/nothing.txt").status_code == 400
    answer = capital_client.post(
        "/translate_file", files={"file": ("a.exe", b"x")}, data={"source": "en", "target": "fr"}
    )
    assert answer.status_code == 400 and "format not supported" in answer.json()["error"]


def test_the_server_itself_parses_no_file(capital_client: Any, capitals: Any) -> None:
    """A worker that can read anything: whatever is in the file, the server asks it."""
    operations = []

    async def submit(work: Any, seconds: float | None = None) -> list[Any]:
        operations.append(work.operation)
        if work.operation == "read_document":
            return [{"segments": [("the cat", False)]}]
        if work.operation == "write_document":
            (item,) = work.items
            return [{"data": item["data"] + item["translations"][0].hypotheses[0][0].encode()}]
        return [capitals.translated(item["text"], work.options, item) for item in work.items]

    capitals.submit = submit
    for suffix in (".docx", ".po", ".srt", ".html", ".txt"):
        answer = capital_client.post(
            "/translate_file", files={"file": (f"a{suffix}", b"\xff<:")}, data={"source": "auto", "target": "fr"}
        )
        assert answer.status_code == 200, answer.text
        assert capital_client.get(answer.json()["translatedFileUrl"]).content == b"\xff<:THE CAT"
    assert operations == ["read_document", "translate", "write_document"] * 5


@pytest.mark.parametrize(
    ("name", "data", "status", "message"),
    [
        ("a.docx", b"PK", 400, "is no .docx file"),
        ("a.txt", b"\xe9", 400, "not UTF-8 text"),
        ("a.html", b"<![CDATA[ secret words", 200, ""),
        ("a.docx", word_file("<w:x>" * 300 + "</w:x>" * 300), 413, "nested more than 200"),
        ("a.docx", word_file("<w:p></w:p>" * 400_000), 413, "unpacks to too much"),
        ("a.docx", word_file("<w:p></w:p>" * 400_000, zipfile.ZIP_STORED), 200, ""),
        ("a.txt", b"", 200, ""),
    ],
)
def test_files_are_translated_or_refused_by_a_sentence(
    capital_client: Any, name: str, data: bytes, status: int, message: str
) -> None:
    given = {"source": "en", "target": "fr"}
    answer = capital_client.post("/translate_file", files={"file": (name, data)}, data=given)
    assert answer.status_code == status and message in answer.json().get("error", ""), answer.text
    assert "secret" not in answer.text


def test_a_translated_file_is_removed_after_an_hour(capital_client: Any, tmp_path: Path) -> None:
    given = {"source": "en", "target": "fr"}
    url = capital_client.post("/translate_file", files={"file": ("a.txt", b"a")}, data=given).json()[
        "translatedFileUrl"
    ]
    (path,) = (tmp_path / "state" / "files").iterdir()
    os.utime(path, (time.time() - 3590, time.time() - 3590))
    assert capital_client.get(url).status_code == 200
    os.utime(path, (time.time() - 3601, time.time() - 3601))
    assert capital_client.get(url).json() == {"error": "Invalid filename"}
    capital_client.post("/translate_file", files={"file": ("b.txt", b"a")}, data=given)
    assert not path.exists()


def test_results_of_an_earlier_server_are_removed_in_time(tiny_model: Any, capitals: Any, tmp_path: Path) -> None:
    for name in ("files", "documents"):
        (tmp_path / name).mkdir()
        for age in (60, 7200):
            path = tmp_path / name / f"{age}.txt"
            path.write_bytes(b"a")
            os.utime(path, (time.time() - age, time.time() - age))
    app = create_app([tiny_model("phrasebook-transformer")], ServerSettings(state=tmp_path))
    app.state.serving.engine = capitals
    with TestClient(app):
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*.txt"))
    assert left == ["documents/60.txt", "files/60.txt"]


def test_no_more_is_stored_than_a_limit(capital_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.serving.dialects.uploads.MAX_STORED", 5)

    def send() -> int:
        given = {"source": "en", "target": "fr"}
        return int(capital_client.post("/translate_file", files={"file": ("a.txt", b"cat")}, data=given).status_code)

    assert [send(), send()] == [200, 429]


def test_the_schema_has_the_statuses_of_downloads(capital_client: Any) -> None:
    paths = capital_client.get("/openapi.json").json()["paths"]
    assert set(paths["/download_file/{name}"]["get"]["responses"]) >= {"200", "400"}
    os.utime(capital_client.app.state.serving.settings.state, (0, 0))
    for name in ("0", "%2e%2e", "..%2fglossaries", "a%00", "a" * 5000, "%2e"):
        assert capital_client.get(f"/download_file/{name}").status_code in (400, 404), name
    assert capital_client.get("/download_file/0").status_code == 400


def test_only_served_languages_are_detected() -> None:
    detector = Detector(["en", "fr", "nb", "unknown"])
    assert detector.languages == ["en", "fr", "nb"]
    assert {one.language for one in detector.detect("我们今天去学校")} == {"en", "fr", "nb"}
    assert [one.language for one in detector.detect("le chat dort", among=["en", "nb"])][-1] in ("en", "nb")
    assert [one.confidence for one in detector.detect("12 + 3")] == [33.3, 33.3, 33.3]
    assert Detector(["unknown"]).detect("the cat") == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the station?", "en"), ("Où est la gare ?", "fr"), ("Wo ist der Bahnhof?", "de"),
        ("¿Dónde está la estación?", "es"), ("駅はどこですか。", "ja"), ("Где вокзал?", "ru"),
    ],
)  # fmt: skip
def test_short_sentences_are_told_apart(text: str, language: str) -> None:
    assert Detector(["en", "fr", "de", "es", "ja", "ru"]).detect(text)[0].language == language


def test_a_model_by_its_name(tiny_model: Callable[[str], Path], capitals: Any, tmp_path: Path) -> None:
    """Adapters of one pair are chosen by a request, in LibreTranslate's form and in DeepL's."""
    base = tiny_model("phrasebook-transformer")
    legal = shutil.copytree(base, tmp_path / "legal")
    app = create_app([base, legal, f"{legal}@fr-en"], ServerSettings(state=tmp_path / "state"))
    app.state.serving.engine = capitals
    with TestClient(app) as client:
        assert [language["targets"] for language in client.get("/languages").json()] == [["en", "fr"], ["fr", "en"]]
        asked = {"q": "the cat", "source": "en", "target": "fr"}
        deepl = {"text": ["the cat"], "source_lang": "EN", "target_lang": "FR"}
        for model in ({}, {"model": "legal"}):
            assert client.post("/translate", json=asked | model).json() == {"translatedText": "THE CAT"}
            assert client.post("/v2/translate", json=deepl | model).json()["translations"][0]["text"] == "THE CAT"
        assert [work.model for work in capitals.works] == [base.name] * 2 + ["legal"] * 2
        capitals.works.clear()
        for model in ({}, {"model": ""}, {"model": "legal"}):
            same = client.post("/translate", json={**asked, **model, "q": "le chat", "source": "fr"})
            assert same.json() == {"translatedText": "le chat"}
        assert client.post("/translate", json=asked | {"model": ""}).json() == {"translatedText": "THE CAT"}
        assert client.post("/v2/translate", json=deepl | {"model": ""}).json()["translations"][0]["text"] == "THE CAT"
        assert [work.model for work in capitals.works] == [base.name] * 2
        other = client.post("/translate", json=asked | {"model": "legal-2"})
        assert (other.status_code, other.json()["error"]) == (400, "the model 'legal-2' is for fr-en, not en-fr")
        unknown = client.post("/v2/translate", json=deepl | {"model": "medical"})
        assert unknown.status_code == 400 and "no model called 'medical'" in unknown.text
