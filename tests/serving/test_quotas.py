"""The characters of a key: charged on every route, by one way in, and taken back where a request fails."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.serving.app import create_app
from harken.serving.errors import ApiError
from harken.serving.keys import new_key
from harken.serving.settings import ServerSettings

from .conftest import CapitalEngine

TestClient = pytest.importorskip("fastapi.testclient").TestClient
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx`")
TEXT = "the black cat sleeps"
MODEL = "phrasebook-transformer"
ROUTES = {
    "/translate": ({"json": {"q": TEXT, "source": "en", "target": "fr"}}, 403),
    "/v2/translate": ({"json": {"text": [TEXT], "source_lang": "EN", "target_lang": "FR"}}, 456),
    "/v1/translate": ({"json": {"text": TEXT, "model": MODEL}}, 403),
    "/v1/translate#stream": ({"json": {"text": TEXT, "model": MODEL, "stream": True}}, 403),
    "/v1/beam": ({"json": {"text": TEXT, "model": MODEL}}, 403),
    "/v1/attention": ({"json": {"text": TEXT, "model": MODEL}}, 403),
    "/v1/alternatives": ({"json": {"text": TEXT, "model": MODEL}}, 403),
    "/v1/score": ({"json": {"text": TEXT, "target": TEXT, "model": MODEL}}, 403),
    "/v1/gates": ({"json": {"text": TEXT, "model": MODEL}}, 403),
    "/translate_file": ({"files": {"file": ("a.txt", TEXT)}, "data": {"source": "en", "target": "fr"}}, 403),
}


@pytest.fixture
def server(tiny_model: Callable[[str], Path], tmp_path: Path) -> Iterator[Any]:
    """A client, the server's state, and the headers of a key with 50 characters."""
    key = new_key(tmp_path / "keys.json", "bob", characters=50)
    settings = ServerSettings(api_keys=tmp_path / "keys.json", state=tmp_path)
    app = create_app([tiny_model(MODEL)], settings)
    app.state.serving.engine = CapitalEngine()
    with TestClient(app) as client:
        yield client, app.state.serving, {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_charges_and_refuses(server: Any, route: str) -> None:
    client, serving, headers = server
    request, refused = ROUTES[route]
    path, characters = route.partition("#")[0], 40 if route == "/v1/score" else 20
    serving.usage.characters["bob"] = 50 - characters
    first = client.post(path, headers=headers, **request)
    assert first.status_code == 200, first.text
    assert serving.usage.characters["bob"] == 50
    assert f"harken_characters_total {characters}.0" in client.get("/metrics").text
    second = client.post(path, headers=headers, **request)
    assert second.status_code == refused, second.text
    message = "Quota Exceeded" if refused == 456 else "the characters of this API key are used up"
    assert message in second.json().values() and serving.usage.characters["bob"] == 50


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
