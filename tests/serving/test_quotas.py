"""The characters of a key: charged on every route, by one way in, and taken back where a request fails."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.serving.app import create_app
from harken.serving.engine.batching import Work
from harken.serving.errors import ApiError, WorkerFailed
from harken.serving.keys import new_key
from harken.serving.operations import DOCUMENT_OPERATIONS
from harken.serving.registry import ServedModel
from harken.serving.settings import ServerSettings
from harken.tasks.registry import JOBS

from .conftest import CapitalEngine

TestClient = pytest.importorskip("fastapi.testclient").TestClient
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx`")
TEXT = "the black cat sleeps"
MODEL = "phrasebook-transformer"
Routes = dict[str, tuple[dict[str, Any], int]]  # a request by its path, and the characters that it is charged for
FILE = {"files": {"file": ("a.txt", TEXT)}}
NATIVE: Routes = {
    "/v1/translate": ({"json": {"text": TEXT, "model": MODEL}}, 20),
    "/v1/translate#stream": ({"json": {"text": TEXT, "model": MODEL, "stream": True}}, 20),
    "/v1/beam": ({"json": {"text": TEXT, "model": MODEL}}, 20),
    "/v1/attention": ({"json": {"text": TEXT, "model": MODEL}}, 20),
    "/v1/alternatives": ({"json": {"text": TEXT, "model": MODEL}}, 20),
    "/v1/score": ({"json": {"text": TEXT, "target": TEXT, "model": MODEL}}, 40),
    "/v1/gates": ({"json": {"text": TEXT, "model": MODEL}}, 20),
    "/v1/predict": ({"json": {"text": TEXT, "model": MODEL}}, 20),
    "/v1/answer": ({"json": {"facts": [TEXT], "question": TEXT}}, 40),
    "/v1/generate": ({"json": {"text": TEXT}}, 20),
    "/v1/generate#stream": ({"json": {"text": TEXT, "stream": True}}, 20),
    **{
        f"/v1/{verb}": ({"json": {"text": TEXT}}, 20)
        for verb in ("classify", "regress", "tag", "fill", "vectors", "write")
    },
}
ROUTES: Routes = {
    "/translate": ({"json": {"q": TEXT, "source": "en", "target": "fr"}}, 20),
    "/v2/translate": ({"json": {"text": [TEXT], "source_lang": "EN", "target_lang": "FR"}}, 20),
    "/translate_file": ({**FILE, "data": {"source": "en", "target": "fr"}}, 20),
    **NATIVE,
}
WITHOUT_TEXT = {  # work whose input has no characters; rates and sizes are limited, and so is the queue
    "/v1/forecast": {"json": {"past": [1.0, 2.0]}},
    "/v1/transcribe": {"files": {"file": ("a.wav", b"RIFF")}},
    "/v1/caption": {"files": {"file": ("a.png", b"PNG")}},
}
DOCUMENTS = {"/v2/document"}  # see `test_a_document_is_charged_once`
NO_WORK = {  # routes that ask no model
    "/detect", "/suggest", "/v2/document/{document_id}", "/v2/document/{document_id}/result", "/v2/glossaries",
    "/v2/languages", "/v2/usage",
}  # fmt: skip


class AnyEngine(CapitalEngine):
    """Translates into capitals; every other operation gives an empty result."""

    async def submit(self, work: Work, seconds: float | None = None) -> list[Any]:
        is_known = work.operation in ("translate", *DOCUMENT_OPERATIONS)
        return await super().submit(work, seconds) if is_known else [{} for _ in work.items]


@pytest.fixture
def server(tiny_model: Callable[[str], Path], tmp_path: Path) -> Iterator[Any]:
    """A client, the server's state, and the headers of a key with 50 characters; there is a model of every job."""
    key = new_key(tmp_path / "keys.json", "bob", characters=50)
    settings = ServerSettings(api_keys=tmp_path / "keys.json", state=tmp_path)
    app = create_app([tiny_model(MODEL)], settings)
    serving = app.state.serving
    serving.engine = AnyEngine()
    for task in JOBS:
        serving.registry.models.setdefault(task, ServedModel(task, tmp_path, task, None))
    with TestClient(app) as client:
        yield client, serving, {"Authorization": f"Bearer {key}"}


def refusal_of(path: str) -> tuple[int, str]:
    """How a route answers where the characters are used up."""
    return (456, "Quota Exceeded") if path.startswith("/v2/") else (403, "the characters of this API key are used up")


def test_every_route_of_the_schema_is_known_here(server: Any) -> None:
    client, _, _ = server
    paths = {path for path, methods in client.app.openapi()["paths"].items() if "post" in methods}
    known = {route.partition("#")[0] for route in ROUTES} | WITHOUT_TEXT.keys() | DOCUMENTS | NO_WORK
    assert paths == known


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_charges_and_refuses(server: Any, route: str) -> None:
    client, serving, headers = server
    request, characters = ROUTES[route]
    path = route.partition("#")[0]
    serving.usage.characters["bob"] = 50 - characters
    first = client.post(path, headers=headers, **request)
    assert first.status_code == 200, first.text
    assert serving.usage.characters["bob"] == 50
    assert f"harken_characters_total {characters}.0" in client.get("/metrics").text
    second = client.post(path, headers=headers, **request)
    status, message = refusal_of(path)
    assert second.status_code == status and message in second.json().values(), second.text
    assert serving.usage.characters["bob"] == 50


@pytest.mark.parametrize("route", [*ROUTES, *WITHOUT_TEXT, "/v2/document"])
def test_every_route_has_the_rate_of_the_client(server: Any, route: str) -> None:
    client, serving, headers = server
    serving.settings.rate_limit = 1
    request = WITHOUT_TEXT.get(route) or ROUTES.get(route, [{}])[0]
    first, second = (client.post(route.partition("#")[0], headers=headers, **request) for _ in range(2))
    assert first.status_code == (400 if route == "/v2/document" else 200), first.text
    assert second.status_code == 429 and "Slowdown" in second.text and "retry-after" in second.headers


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "/translate_file"])
def test_every_route_tells_what_never_fits(server: Any, route: str) -> None:
    client, serving, headers = server
    serving.settings.max_characters = 10
    answer = client.post(route.partition("#")[0], headers=headers, **ROUTES[route][0])
    status = 400 if route == "/translate" else 413  # as LibreTranslate answers
    assert answer.status_code == status and "at most 10 at a time" in answer.text, answer.text
    assert "retry-after" not in answer.headers and serving.usage.characters["bob"] == 0


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_that_fails_is_not_charged(server: Any, route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, serving, headers = server

    async def submit(*given: Any) -> Any:
        raise ApiError(500, "no luck")

    async def stream(*given: Any) -> Any:
        raise ApiError(500, "no luck")
        yield

    monkeypatch.setattr(serving.engine, "submit", submit)
    monkeypatch.setattr(serving.engine, "stream", stream)
    assert client.post(route.partition("#")[0], headers=headers, **ROUTES[route][0]).status_code == 500
    assert serving.usage.characters["bob"] == 0


def test_a_stream_that_fails_in_the_middle_is_not_charged(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client, serving, headers = server

    async def stream(work: Work, seconds: float | None = None) -> Any:
        yield {"text": "le "}
        raise WorkerFailed()

    monkeypatch.setattr(serving.engine, "stream", stream)
    answer = client.post("/v1/translate", headers=headers, **ROUTES["/v1/translate#stream"][0])
    assert answer.status_code == 200 and "event: error" in answer.text and "event: done" not in answer.text
    assert serving.usage.characters["bob"] == 0 and "harken_characters_total 0.0" in client.get("/metrics").text


def test_a_document_is_charged_once(server: Any) -> None:
    client, serving, headers = server

    def translate() -> dict[str, Any]:
        body = {"source_lang": "EN", "target_lang": "FR"}
        sent = client.post("/v2/document", files={"file": ("a.txt", TEXT)}, data=body, headers=headers).json()
        key = {"document_key": sent["document_key"]}
        found: dict[str, Any] = client.post(f"/v2/document/{sent['document_id']}", json=key, headers=headers).json()
        return found

    serving.usage.characters["bob"] = 20
    done = translate()
    assert done["status"] == "done" and done["billed_characters"] == 20 and serving.usage.characters["bob"] == 40
    failed = translate()
    assert failed["status"] == "error" and failed["message"] == "Quota Exceeded"
    assert serving.usage.characters["bob"] == 40
