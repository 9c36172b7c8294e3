"""The routes of the studio, and the files of the page."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.studio.app import create_studio_app, serving_studio
from harken.studio.page import POLICY, static_file, static_names
from harken.studio.routes import _translation_events

TestClient = pytest.importorskip("fastapi.testclient").TestClient
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx`")
TEXT = "the black cat sleeps"


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[Any]:
    with TestClient(create_studio_app(runs, "cpu"), base_url="http://127.0.0.1") as found:
        yield found


def events(answer: Any) -> list[dict[str, Any]]:
    return [json.loads(part[6:]) for part in answer.text.split("\n\n") if part]


def test_the_page_is_small_and_allows_no_other_host(client: Any) -> None:
    total = 0
    for name in static_names():
        answer = client.get(f"/studio/static/{name}")
        assert answer.status_code == 200 and answer.headers["Content-Security-Policy"] == POLICY
        total += len(gzip.compress(answer.content))
        assert "http://" not in answer.text.replace("http://www.w3.org/", "").replace("http://www.apache.org/", "")
    assert total < 150 * 1024
    assert client.get("/").text == (static_file("index.html") or (b"", {}))[0].decode()
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY


def test_browsers_get_an_icon(client: Any) -> None:
    answer = client.get("/favicon.ico")
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/svg+xml" and b"<svg" in answer.content


def test_only_files_of_the_page_are_served(client: Any) -> None:
    for name in ("../routes.py", "%2e%2e/routes.py", "/etc/passwd", "nothing.js", ""):
        assert client.get(f"/studio/static/{name}").status_code == 404


def test_other_names_of_this_machine_are_refused(runs: Path) -> None:
    with TestClient(create_studio_app(runs, "cpu"), base_url="http://evil.example") as found:
        assert found.get("/studio/models").status_code == 400


def test_a_translation_streams_and_ends_with_the_whole(client: Any) -> None:
    answer = client.post("/studio/translate", json={"model": "transformer", "text": TEXT, "nbest": 2})
    found = events(answer)
    assert set(found[-1]) == {"done"} and len(found[-1]["done"]) == 2
    assert all(set(one) == {"part"} for one in found[:-1])
    assert events(
        client.post("/studio/translate", json={"model": "attention", "text": TEXT, "glossary": "cat = qqq"})
    ) == [{"error": "the model's vocabulary cannot write 'qqq'; leave that phrase out"}]


def test_leaving_a_stream_cancels_its_search(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    ended = threading.Event()

    def search(model: Any, asked: Any, emit: Callable[[str], None], cancelled: Callable[[], bool]) -> list[Any]:
        emit("le")
        while not cancelled():
            time.sleep(0.005)
        ended.set()
        return []

    async def leave() -> str:
        events = _translation_events(library.open("transformer"), None)
        first = await anext(events)
        await events.aclose()  # type: ignore[attr-defined]
        return first

    monkeypatch.setattr("harken.studio.translating.translate", search)
    assert asyncio.run(leave()) == 'data: {"part": "le"}\n\n'
    lock = library.open("transformer").lock
    assert ended.wait(10) and lock.acquire(timeout=10)  # and the next request may have the model
    lock.release()


def test_a_users_error_is_one_sentence_with_400(client: Any) -> None:
    answer = client.post("/studio/beam", json={"model": "transformer", "text": " "})
    assert (answer.status_code, answer.json()) == (400, {"error": "the sentence has no words; give some"})
    answer = client.post("/studio/translate", json={"model": "opinions", "text": TEXT})
    assert answer.status_code == 400 and "this view needs a translator" in answer.json()["error"]
    assert client.post("/studio/gates", json={"model": "transformer", "text": TEXT}).status_code == 400
    assert client.get("/studio/metrics", params={"name": "../.."}).status_code == 400
    assert client.post("/studio/beam", json={"model": "transformer", "text": TEXT, "beam": 0}).status_code == 422


def test_gates_have_a_figure_for_each_layer_and_the_words_below(client: Any) -> None:
    found = client.post("/studio/gates", json={"model": "attention", "text": TEXT}).json()["figures"]
    assert [one["name"] for one in found] == ["encoder.layers.0 →", "encoder.layers.0 ←", "decoder"]
    panel = found[0]["panels"][0]
    assert panel["kind"] == "heat" and len(panel["columns"]) == 5 and panel["columns"][-1] == "</s>"
    assert all(0 <= strength <= 1 for row in panel["strengths"] for strength in row)


def test_gradients_have_a_verdict(client: Any) -> None:
    found = client.post("/studio/gradients", json={"model": "attention", "sentences": 8}).json()
    verdict = found["verdicts"]["attention"]
    assert verdict["sentence"].split(": ")[1].startswith(verdict["kind"])
    assert len(found["rows"]) == 3 and len(found["rows"][0]) == len(found["columns"])


def test_a_claim_with_sliders_is_measured(client: Any) -> None:
    claims = {one["name"]: one for one in client.get("/studio/lab").json()["claims"]}
    assert len(claims) == 18 and claims["vanishing"]["exploration"]["sliders"][0]["key"] == "s"
    found = client.post("/studio/lab/explore", json={"name": "vanishing", "values": {"s": 0.5, "width": 8}}).json()
    measured, bound = found["figures"][0]["panels"][0]["series"]
    assert found["values"] == {"s": 0.5, "width": 8, "way": "quiet"} and "vanishes" in found["said"]
    assert measured["y"][10] == pytest.approx(0.5**10, rel=1e-3) and bound["y"][10] == pytest.approx(0.5**10, rel=1e-3)
    answer = client.post("/studio/lab/explore", json={"name": "gru"})
    assert answer.status_code == 400 and "gru has no sliders" in answer.json()["error"]


@pytest.mark.parametrize(
    "name",
    [
        "clipping",
        "long-memory",
        "cell-memory",
        "path-length",
        "quadratic",
        "both-ways",
        "saturation",
        "averaging",
        "deep-stacks",
    ],
)
def test_every_claim_with_sliders_draws_a_figure(client: Any, name: str) -> None:
    given = {"updates": 20, "delay": 2, "depth": 2, "length": 64, "width": 16}
    found = client.post("/studio/lab/explore", json={"name": name, "values": given}).json()
    assert found["said"].endswith(".") and found["figures"][0]["panels"]


def test_a_classifier_answers_with_probabilities_and_weights_over_words(client: Any) -> None:
    form = {"model": "opinions", "text": "the film was not good"}
    found = client.post("/studio/answer", data=form).json()
    assert sum(row["value"] for row in found["rows"]) == pytest.approx(1, abs=1e-3)
    heat = found["figures"][0]["panels"][0]
    assert heat["kind"] == "heat" and heat["columns"] == ["the", "film", "was", "not", "good"]
    assert client.get("/studio/input", params={"model": "opinions"}).json()["file"] == []
    answer = client.post("/studio/answer", data=form, files={"file": ("a.exe", b"x")})
    assert answer.status_code == 400 and "cannot read 'a.exe'" in answer.json()["error"]


def test_the_server_asks_the_studio_for_its_key(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    from harken.serving.app import create_app
    from harken.serving.keys import new_key
    from harken.serving.settings import ServerSettings

    key = new_key(tmp_path / "keys.json", "alice")
    settings = ServerSettings(api_keys=tmp_path / "keys.json", device="cpu")
    client = TestClient(create_app([tiny_model("phrasebook-transformer")], settings, [serving_studio]))
    assert client.get("/").status_code == 200 == client.get("/studio/static/main.js").status_code
    assert client.get("/studio/models").status_code == 401
    assert client.get("/studio/models", headers={"Authorization": "Bearer wrong"}).status_code == 403
    found = client.get("/studio/models", headers={"Authorization": f"Bearer {key}"}).json()
    assert [one["name"] for one in found["models"]] == ["phrasebook-transformer"] and found["api"]


def test_a_server_has_no_studio_unless_asked(tiny_model: Callable[[str], Path]) -> None:
    from harken.serving.app import create_app
    from harken.serving.settings import ServerSettings

    app = create_app([tiny_model("phrasebook-transformer")], ServerSettings(device="cpu"))
    client = TestClient(app)
    assert [route.path for route in app.routes if "studio" in getattr(route, "path", "")] == []
    assert client.get("/studio/models").status_code == 404 == client.get("/studio/static/main.js").status_code
    assert client.post("/studio/lab/run", json={"name": "bow"}).status_code == 404
    index = client.get("/", follow_redirects=False)
    assert index.is_redirect and client.get(index.headers["Location"]).status_code == 200
