"""LibreTranslate's dialect: every way to send parameters, its answers and its errors."""

from pathlib import Path
from typing import Any

import pytest

from harken.serving.detection import Detector


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
        ({"q": "a", "source": "de", "target": "fr"}, "de is not supported"),
        ({"q": "a", "source": "fr", "target": "en"}, "en is not available as a target language from fr"),
        ({"q": "a", "source": "en", "target": "fr", "format": "pdf"}, "pdf format is not supported"),
        ({"q": 7.5, "source": "en", "target": "fr"}, "neither a string nor a list"),
        ({"q": ["a", 1], "source": "en", "target": "fr"}, "neither a string nor a list"),
        ({"q": "a", "source": "en", "target": "fr", "alternatives": "many"}, "not a number"),
        ({"q": "a", "source": ["en"], "target": "fr"}, "source is not a string"),
    ],
)
def test_bad_requests_are_400_with_one_sentence(capital_client: Any, body: dict[str, Any], said: str) -> None:
    answer = capital_client.post("/translate", json=body)
    assert answer.status_code == 400 and said in answer.json()["error"]


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
