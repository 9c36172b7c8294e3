"""DeepL's dialect: texts, tags, glossaries, usage and errors."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harken.serving.app import create_app
from harken.serving.glossaries import TermIndex
from harken.serving.keys import new_key
from harken.serving.settings import ServerSettings

from .conftest import CapitalEngine

TestClient = pytest.importorskip("fastapi.testclient").TestClient
ENTRIES = {"name": "animals", "source_lang": "en", "target_lang": "fr", "entries_format": "tsv"}


def translations(client: Any, **body: Any) -> list[dict[str, Any]]:
    answer = client.post("/v2/translate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"]


def test_texts_have_their_characters_and_language(capital_client: Any) -> None:
    found = translations(capital_client, text=["the cat", "A dog."], target_lang="FR", source_lang="EN")
    assert found == [
        {"detected_source_language": "EN", "text": "THE CAT", "billed_characters": 7},
        {"detected_source_language": "EN", "text": "A DOG.", "billed_characters": 6},
    ]
    (found,) = translations(capital_client, text=["the young queen reads"], target_lang="fr")
    assert (found["detected_source_language"], found["text"]) == ("EN", "THE YOUNG QUEEN READS")
    assert capital_client.get("/v2/usage").json() == {"character_count": 34, "character_limit": 10**12}


def test_a_form_with_several_texts(capital_client: Any) -> None:
    answer = capital_client.post(
        "/v2/translate", data={"text": ["one", "two"], "target_lang": "FR", "source_lang": "EN"}
    )
    assert [one["text"] for one in answer.json()["translations"]] == ["ONE", "TWO"]


def test_tags(capital_client: Any) -> None:
    given = {"target_lang": "FR", "source_lang": "EN"}
    (found,) = translations(capital_client, text=["<p>a <i>cat</i></p>"], tag_handling="html", **given)
    assert found["text"] == "<p>A <i>CAT</i></p>"
    body = {"text": ['a <x id="1">cat</x> <keep>here</keep>'], "tag_handling": "xml", "ignore_tags": ["keep"]}
    (found,) = translations(capital_client, **body, **given)
    assert found["text"] == 'A <x id="1">CAT</x> <keep>here</keep>'


def test_sentences_are_not_split_where_told(capital_client: Any, capitals: Any) -> None:
    given = {"target_lang": "FR", "source_lang": "EN", "text": ["One. Two."]}
    translations(capital_client, **given)
    translations(capital_client, **given, split_sentences="0")
    assert [[item["text"] for item in work.items] for work in capitals.works] == [["One.", "Two."], ["One. Two."]]


def test_options_that_are_ignored_are_named(capital_client: Any) -> None:
    body = {"text": ["a"], "target_lang": "FR", "source_lang": "EN", "context": "animals", "formality": "more"}
    assert capital_client.post("/v2/translate", json=body).headers["x-harken-ignored"] == "context, formality"


def test_glossaries_are_kept_on_disk_and_used(capital_client: Any, tmp_path: Path) -> None:
    answer = capital_client.post("/v2/glossaries", json={**ENTRIES, "entries": "cat\tminou\ndog\ttoutou"})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["entry_count"], made["ready"], made["name"]) == (2, True, "animals")
    number = made["glossary_id"]
    assert list((tmp_path / "state" / "glossaries").iterdir()) == [tmp_path / "state" / "glossaries" / f"{number}.json"]
    assert capital_client.get("/v2/glossaries").json() == {"glossaries": [made]}
    assert capital_client.get(f"/v2/glossaries/{number}").json() == made
    assert capital_client.get(f"/v2/glossaries/{number}/entries").text == "cat\tminou\ndog\ttoutou"
    body = {"text": ["a cat"], "target_lang": "FR", "source_lang": "EN", "glossary_id": number}
    assert translations(capital_client, **body)[0]["text"] == "A minou"
    without = capital_client.post("/v2/translate", json={**body, "source_lang": None})
    assert without.status_code == 400 and "source_lang" in without.json()["message"]
    assert capital_client.delete(f"/v2/glossaries/{number}").status_code == 204
    assert capital_client.get(f"/v2/glossaries/{number}").status_code == 404


@pytest.mark.parametrize(
    ("entries", "said"),
    [("cat", "entry 1"), ("cat\ta\ncat\tb", "there already"), ("\n", "not specified"), ("a\tb\n\tc", "entry 2")],
)
def test_bad_entries_are_refused(capital_client: Any, entries: str, said: str) -> None:
    answer = capital_client.post("/v2/glossaries", json={**ENTRIES, "entries": entries})
    assert answer.status_code == 400 and said in answer.json()["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"target_lang": "FR"}, "'text' not specified"),
        ({"text": ["a"]}, "'target_lang' not supported"),
        ({"text": ["a"], "target_lang": "XX"}, "'target_lang' not supported; served: en to fr"),
        ({"text": ["a"], "target_lang": "FR", "source_lang": "XX"}, "'source_lang' not supported; served: en to fr"),
        ({"text": ["a"], "target_lang": "FR", "tag_handling": "tex"}, "'tag_handling' not supported"),
        ({"text": ["a"], "target_lang": "EN", "source_lang": "FR"}, "no model translates from fr to en"),
    ],
)
def test_bad_requests(capital_client: Any, body: dict[str, Any], said: str) -> None:
    answer = capital_client.post("/v2/translate", json=body)
    assert answer.status_code == 400 and said in answer.json()["message"]


def test_languages(capital_client: Any) -> None:
    assert capital_client.get("/v2/languages").json() == [{"language": "EN", "name": "English"}]
    found = capital_client.get("/v2/languages", params={"type": "target"}).json()
    assert found == [{"language": "FR", "name": "French", "supports_formality": False}]


def test_languages_and_usage_can_be_asked_for_by_post(capital_client: Any) -> None:
    paths = capital_client.get("/openapi.json").json()["paths"]
    assert set(paths["/v2/languages"]) == set(paths["/v2/usage"]) == {"get", "post"}
    for given in ({}, {"json": {"type": "source"}}, {"data": {"type": "source"}}):
        assert capital_client.post("/v2/languages", **given).json() == [{"language": "EN", "name": "English"}]
    assert capital_client.post("/v2/languages", json={"type": "all"}).status_code == 400
    assert capital_client.post("/v2/usage").json()["character_count"] == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [({"text": ["a"] * 513}, "513 texts are too many"), ({"text": "a" * 50_001}, "50,001 characters are too many")],
)
def test_too_much_is_413(capital_client: Any, body: dict[str, Any], message: str) -> None:
    answer = capital_client.post("/v2/translate", json={"target_lang": "FR", "source_lang": "EN", **body})
    assert answer.status_code == 413 and message in answer.json()["message"]


@pytest.mark.parametrize("value", ["0", 0, False, "false"])
def test_splitting_is_switched_off_by_any_zero(capital_client: Any, capitals: Any, value: Any) -> None:
    translations(capital_client, text=["One. Two."], target_lang="FR", source_lang="EN", split_sentences=value)
    assert [item["text"] for item in capitals.works[0].items] == ["One. Two."]


def test_many_terms_and_sentences_take_linear_time() -> None:
    """Ten thousand terms and ten thousand sentences: 10**8 comparisons would take a minute."""
    index = TermIndex([(f"term {number}", f"terme {number}") for number in range(10_000)])
    started = time.process_time()
    matched = [index.terms_in(f"a Term {number}.") for number in range(10_000)]
    assert time.process_time() - started < 5
    assert matched[7] == [["term 7", "terme 7"]]


def upload(client: Any, data: bytes | str, name: str = "a.txt", **given: str) -> tuple[str, dict[str, str]]:
    body = {"source_lang": "EN", "target_lang": "FR", **given}
    answer = client.post("/v2/document", files={"file": (name, data)}, data=body)
    assert answer.status_code == 200, answer.text
    return f"/v2/document/{answer.json()['document_id']}", {"document_key": answer.json()["document_key"]}


def test_the_status_of_a_document_has_its_progress(
    capital_client: Any, capitals: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every window of sentences waits until the test lets it go on."""
    monkeypatch.setattr("harken.serving.dialects.deepl_documents.POLL_SECONDS", 0.05)
    monkeypatch.setattr("harken.serving.translating.FIRST_WINDOW", 8)
    run, released = capitals.submit, threading.Semaphore(0)

    async def submit(work: Any, seconds: float | None = None) -> list[Any]:
        while work.operation == "translate" and not released.acquire(blocking=False):
            await asyncio.sleep(0.01)
        return await run(work, seconds)

    capitals.submit = submit
    path, key = upload(capital_client, "\n".join(f"cat number {chr(97 + number)}" for number in range(20)))
    jobs = capital_client.app.state.serving.documents

    def status(done: int) -> dict[str, Any]:
        for _ in range(600):
            answer: dict[str, Any] = capital_client.post(path, json=key).json()
            if all(job.upload.done >= done for job in jobs.values()):
                return answer
            time.sleep(0.01)
        raise AssertionError("no progress")

    assert status(0)["status"] in ("queued", "translating")
    assert capital_client.post(f"{path}/result", json=key).status_code == 503
    released.release()
    answer = status(12)
    assert answer["status"] == "translating" and answer["seconds_remaining"] >= 1
    released.release(100)
    assert status(20 * 12)["status"] in ("translating", "done")
    for _ in range(600):
        if (answer := capital_client.post(path, json=key).json())["status"] == "done":
            break
    assert answer == {"document_id": path.rpartition("/")[2], "status": "done", "billed_characters": 20 * 12}
    assert capital_client.post(f"{path}/result", json=key).content.startswith(b"CAT NUMBER A\nCAT")


def test_a_glossary_is_used_for_documents(capital_client: Any) -> None:
    made = capital_client.post("/v2/glossaries", json={**ENTRIES, "entries": "cat\tminou"}).json()
    path, key = upload(capital_client, "a cat\n", glossary_id=made["glossary_id"])
    assert capital_client.post(path, json=key).json()["status"] == "done"
    assert capital_client.post(f"{path}/result", json=key).content == b"A minou\n"


def test_a_document_that_cannot_be_read_says_why_and_is_not_charged(capital_client: Any) -> None:
    path, key = upload(capital_client, b"no archive", "a.docx")
    answer = capital_client.post(path, json=key).json()
    assert answer["status"] == "error" and "is no .docx file" in answer["message"]
    assert capital_client.post("/v2/usage").json()["character_count"] == 0


def test_documents_are_forgotten_after_an_hour(capital_client: Any, tmp_path: Path) -> None:
    path, key = upload(capital_client, "a cat")
    assert capital_client.post(path, json=key).json()["status"] == "done"
    (job,) = capital_client.app.state.serving.documents.values()
    job.created -= 3601
    other, _ = upload(capital_client, "a dog")
    assert capital_client.post(path, json=key).status_code == 404 and other != path and not job.path.exists()


def test_keys_rates_and_quotas(tiny_model: Any, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    alice, bob = new_key(keys, "alice", per_minute=5), new_key(keys, "bob", characters=8)
    assert alice not in keys.read_text() and keys.stat().st_mode & 0o777 == 0o600
    app = create_app([tiny_model("phrasebook-transformer")], ServerSettings(api_keys=keys, state=tmp_path))
    app.state.serving.engine = CapitalEngine()
    body = {"text": ["a cat"], "target_lang": "FR", "source_lang": "EN"}
    with TestClient(app) as client:

        def status(key: str | None, scheme: str = "DeepL-Auth-Key") -> int:
            headers = {} if key is None else {"Authorization": f"{scheme} {key}"}
            return int(client.post("/v2/translate", json=body, headers=headers).status_code)

        assert status(None) == 403 and status("wrong") == 403 and status(bob, "Basic") == 403
        assert [status(bob), status(bob)] == [200, 456]
        assert [status(alice) for _ in range(6)] == [200] * 5 + [429]
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers={"Authorization": "Bearer x"}).status_code == 403
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {bob}"}).status_code == 200
        given = {"q": "a", "source": "en", "target": "fr"}
        assert client.post("/translate", json=given).status_code == 400
        assert client.post("/translate", json={**given, "api_key": "x"}).status_code == 403
        assert client.post("/translate", json={**given, "api_key": bob}).json() == {"translatedText": "A"}
        slow = client.post("/translate", json={**given, "api_key": alice})
        assert slow.status_code == 429 and "Slowdown" in slow.json()["error"] and int(slow.headers["retry-after"]) <= 12
