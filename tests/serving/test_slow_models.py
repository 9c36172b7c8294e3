"""Files on a slow model: windows follow its speed, and an idle server refuses nothing. The worker is a thread."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.serving import operations
from harken.serving.app import create_app
from harken.serving.engine.costs import estimate_tokens
from harken.serving.settings import ServerSettings

TestClient = pytest.importorskip("fastapi.testclient").TestClient
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx`")
SPEED, TIMEOUT = 60.0, 3.0  # tokens a second, and seconds: the first window of 256 tokens is late
TEXT = "\n".join(f"the cat number {number} sleeps" for number in range(45))  # 315 tokens


@pytest.fixture
def client(tiny_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of a server whose worker writes capitals, slowly."""

    def run_batch(model: Any, operation: str, items: list[Any], options: Any, cancelled: Callable[[], bool]) -> Any:
        if operation in operations.DOCUMENT_OPERATIONS:
            return run_original(model, operation, items, options)
        ends_at = time.monotonic() + sum(estimate_tokens(item["text"]) for item in items) / SPEED
        while time.monotonic() < ends_at and not cancelled():
            time.sleep(0.01)
        return [{"source": item["text"], "hypotheses": [{"text": item["text"].upper()}]} for item in items]

    run_original = operations.run_batch
    monkeypatch.setattr(operations, "run_batch", run_batch)
    settings = ServerSettings(workers=0, timeout=TIMEOUT, state=tmp_path, reload_seconds=0)
    with TestClient(create_app([tiny_model("phrasebook-transformer")], settings)) as client:
        yield client


def test_a_file_goes_through_and_says_how_far_it_is(client: Any) -> None:
    body = {"files": {"file": ("a.txt", TEXT)}, "data": {"source_lang": "EN", "target_lang": "FR"}}
    sent = client.post("/v2/document", **body).json()
    path, key = f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}
    states = []
    while not states or states[-1]["status"] in ("queued", "translating"):
        states.append(client.post(path, json=key).json())
    assert states[-1]["status"] == "done", states[-1]
    counts = [state["translated_characters"] for state in states[:-1]]
    assert (
        counts == sorted(counts)
        and len(set(counts)) > 2
        and all(state["seconds_remaining"] > 0 for state in states[:-1])
    )
    characters = len(TEXT.replace("\n", ""))
    assert states[-1]["billed_characters"] == characters == client.get("/v2/usage").json()["character_count"]
    assert client.post(f"{path}/result", json=key).text == TEXT.upper()
    metrics = client.get("/metrics").text
    assert "harken_rejected_total 0.0" in metrics and f"harken_characters_total {characters}.0" in metrics


def test_a_file_of_the_synchronous_route_goes_through(client: Any) -> None:
    for _ in range(10):  # the speed is measured
        assert client.post("/v1/translate", json={"text": "the black cat sleeps"}).status_code == 200
    body = {"files": {"file": ("a.txt", TEXT)}, "data": {"source": "en", "target": "fr"}}
    answer = client.post("/translate_file", **body)
    assert answer.status_code == 200, answer.text
    assert client.get(answer.json()["translatedFileUrl"]).text == TEXT.upper()


def test_a_request_that_was_too_slow_locks_nobody_out(client: Any) -> None:
    slow = client.post("/v1/translate", json={"text": [TEXT]})
    assert slow.status_code == 504
    statuses = [client.post("/v1/translate", json={"text": f"the cat {number}"}).status_code for number in range(10)]
    assert statuses == [200] * 10
