"""The routes of the studio, and the files of the page."""

import contextlib
import gzip
import inspect
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.routing import Match

from harken.serving.app import create_app
from harken.serving.context import Admission
from harken.serving.errors import ApiError
from harken.serving.keys import new_key
from harken.serving.limits import hosts_of
from harken.serving.metrics import Metrics
from harken.serving.settings import ServerSettings
from harken.serving.transport import HttpConfig
from harken.studio.app import create_studio_app, serving_studio
from harken.studio.routes import POLICY, create_studio, static_file, static_names
from harken.studio.workers import Message, WorkerPool

from .test_workers import is_gone

TestClient = pytest.importorskip("fastapi.testclient").TestClient
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx`")
TEXT = "the black cat sleeps"
WORK = [
    *(("GET", f"/studio/{name}") for name in ("models", "runs", "metrics", "documents", "lab", "input")),
    *(("POST", f"/studio/{name}") for name in ("translate", "alternatives", "inside", "gates", "gradients")),
    *(("POST", f"/studio/{name}") for name in ("neighbours", "beam", "lab/run", "lab/explore", "example", "answer")),
    ("GET", "/studio/learn"), *(("POST", f"/studio/learn/{name}") for name in ("live", "check", "run")),
]  # fmt: skip


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[Any]:
    with TestClient(create_studio_app(runs), base_url="http://127.0.0.1") as found:
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
    with TestClient(create_studio_app(runs), base_url="http://evil.example") as found:
        assert found.get("/studio/models").status_code == 400


def test_a_translation_streams_and_ends_with_the_whole(client: Any) -> None:
    answer = client.post("/studio/translate", json={"model": "transformer", "text": TEXT, "nbest": 2})
    found = events(answer)
    assert set(found[-1]) == {"done"} and len(found[-1]["done"]) == 2
    assert all(set(one) == {"part"} for one in found[:-1])
    answer = client.post("/studio/translate", json={"model": "attention", "text": TEXT, "glossary": "cat = qqq"})
    sentence = "the model's vocabulary cannot write 'qqq'; leave that phrase out"
    assert (answer.status_code, answer.json()) == (400, {"error": sentence})


def test_a_users_error_is_one_sentence_with_400(client: Any) -> None:
    answer = client.post("/studio/beam", json={"model": "transformer", "text": " "})
    assert (answer.status_code, answer.json()) == (400, {"error": "the sentence has no words; give some"})
    answer = client.post("/studio/translate", json={"model": "opinions", "text": TEXT})
    assert answer.status_code == 400 and "whose job has no 'translate'; choose another model" in answer.json()["error"]
    assert client.post("/studio/gates", json={"model": "transformer", "text": TEXT}).status_code == 400
    assert client.get("/studio/metrics", params={"name": "../.."}).status_code == 400
    assert client.post("/studio/beam", json={"model": "transformer", "text": TEXT, "beam": 0}).status_code == 422


def test_names_of_files_that_there_are_not_are_forgotten() -> None:
    """Anybody may ask for them, without a key."""
    assert not any(static_file(f"{number}.js") for number in range(400))
    assert static_file.cache_info().currsize <= 256


def test_gates_have_a_figure_for_each_layer_and_the_words_below(client: Any) -> None:
    found = client.post("/studio/gates", json={"model": "attention", "text": TEXT}).json()["figures"]
    assert [one["name"] for one in found] == ["encoder.layers.0 →", "encoder.layers.0 ←", "decoder"]
    panel = found[0]["panels"][0]
    assert panel["kind"] == "heat" and len(panel["columns"]) == 5 and panel["columns"][-1] == "</s>"
    assert all(0 <= strength <= 1 for row in panel["strengths"] for strength in row)


def test_neighbours_say_how_many_examples_they_were_learned_from(client: Any) -> None:
    answered = client.post("/studio/neighbours", json={"model": "attention", "word": "cat", "count": 3}).json()
    assert answered["examples"] == 200 and len(answered["neighbours"]) == 3


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
    assert found["values"] == {"s": 0.5, "width": 8, "network": "no input"} and "vanishes" in found["said"]
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


@pytest.mark.parametrize("number", ["NaN", '"nan"', '"x"'])
def test_what_is_no_number_leaves_a_slider_at_its_default(client: Any, number: str) -> None:
    for name, key, default in (("next-word", "temperature", 1.0), ("block", "words", 6)):
        body = f'{{"name": "{name}", "values": {{"{key}": {number}}}}}'
        answer = client.post("/studio/learn/live", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 200 and answer.json()["values"][key] == default, answer.text


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("run", {"number": 10**400}, "number: "),
        ("run", {"number": 0}, "number: "),
        ("live", {"name": "x" * 101}, "name: "),
        ("live", {"name": "block", "values": {str(number): 1 for number in range(51)}}, "values: "),
    ],
)
def test_what_the_course_takes_is_bounded(client: Any, path: str, body: dict[str, Any], message: str) -> None:
    answer = client.post(f"/studio/learn/{path}", json=body)
    assert answer.status_code == 422 and answer.json()["error"].startswith(message)


def test_the_course_has_chapters_live_figures_and_answers(client: Any) -> None:
    chapters = client.get("/studio/learn").json()["chapters"]
    assert [chapter["number"] for chapter in chapters] == list(range(1, 9))
    found = client.post("/studio/learn/live", json={"name": "gates", "values": {"output": 5}}).json()
    assert found["values"]["output"] == 1.0 and found["figures"][0]["panels"][0]["kind"] == "lines"
    assert client.post("/studio/learn/live", json={"name": "gru"}).status_code == 400
    answer = client.post("/studio/learn/check", json={"name": "ex4c", "text": "(1 - z) * h + z * n"})
    assert answer.json() == {"right": True, "said": "Right. Where z is 0 the state stays, where z is 1 it is replaced."}
    answer = client.post("/studio/learn/check", json={"name": "ex1a", "text": "__import__('os').getpid()"})
    assert not answer.json()["right"] and "cannot be read" in answer.json()["said"]
    assert client.post("/studio/learn/check", json={"name": "ex0a", "text": "1"}).status_code == 400
    assert client.post("/studio/learn/check", json={"name": "ex1a", "text": "1" * 501}).status_code == 422
    answer = client.post("/studio/learn/run", json={"number": 99})
    assert (answer.status_code, answer.json()) == (400, {"error": "there is no chapter 99; they are 1 to 8"})


def test_a_classifier_answers_with_probabilities_and_weights_over_words(client: Any) -> None:
    form = {"model": "opinions", "text": "the film was not good"}
    found = client.post("/studio/answer", data=form).json()
    assert sum(row["value"] for row in found["rows"]) == pytest.approx(1, abs=1e-3)
    heat = found["figures"][0]["panels"][0]
    assert heat["kind"] == "heat" and heat["columns"] == ["the", "film", "was", "not", "good"]
    assert client.get("/studio/input", params={"model": "opinions"}).json()["file"] == []
    answer = client.post("/studio/answer", data=form, files={"file": ("a.exe", b"x")})
    assert answer.status_code == 400 and "cannot read 'a.exe'" in answer.json()["error"]


@pytest.mark.parametrize("options", ["[" * 100_000, "{", "[]", "1"])
def test_options_that_are_no_object_are_refused(client: Any, options: str) -> None:
    answer = client.post("/studio/answer", data={"model": "opinions", "text": "good", "options": options})
    assert answer.status_code == 400 and answer.json()["error"] == "the options are no JSON object"


def test_the_server_asks_the_studio_for_its_key(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    key = new_key(tmp_path / "keys.json", "alice")
    settings = ServerSettings(api_keys=tmp_path / "keys.json", device="cpu")
    client = TestClient(create_app([tiny_model("phrasebook-transformer")], settings, [serving_studio]))
    assert client.get("/").status_code == 200 == client.get("/studio/static/main.js").status_code
    for method, path in WORK:
        assert client.request(method, path).status_code == 401, path
        assert client.request(method, path, headers={"Authorization": "Bearer wrong"}).status_code == 403, path
    found = client.get("/studio/models", headers={"Authorization": f"Bearer {key}"}).json()
    assert [one["name"] for one in found["models"]] == ["phrasebook-transformer"] and found["api"]


def test_every_route_but_those_of_the_page_is_tested_for_its_key(library: Any) -> None:
    router = create_studio(library, Admission(ServerSettings(), Metrics()))
    app = FastAPI()
    app.include_router(router)
    open_paths = ["/", "/favicon.ico", "/studio/static/main.js"]
    for method in ("GET", "POST"):
        for path in [*open_paths, *(path for _, path in WORK)]:
            scope = {"type": "http", "path": path, "method": method, "headers": [], "root_path": ""}
            is_route = any(route.matches(scope)[0] is Match.FULL for route in app.routes)
            assert is_route == ((method, path) in WORK or (method == "GET" and path in open_paths)), path
    source = Path(inspect.getsourcefile(create_studio) or "").read_text(encoding="utf-8")
    assert len(re.findall(r"^    (?:@router\.|post\()", source, re.MULTILINE)) == len(WORK)
    assert source.count("@pages.") == len(open_paths)


def test_a_request_counts_once_for_the_rate_of_its_client(runs: Path) -> None:
    settings = ServerSettings(rate_limit=1, allowed_hosts=hosts_of("127.0.0.1"))
    with TestClient(create_studio_app(runs, settings), base_url="http://127.0.0.1") as client:
        body = {"model": "transformer", "text": TEXT}
        assert [client.post("/studio/beam", json=body).status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize("name", ["translate", "alternatives", "inside", "gates", "beam", "answer"])
@pytest.mark.parametrize("beside_the_api", [True, False])
def test_what_a_model_reads_is_charged_as_in_the_api(
    name: str, beside_the_api: bool, tiny_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(pool: WorkerPool, client: str, task: str, body: dict[str, Any]) -> str:
        if body["model"] == "broken":
            raise ApiError(500, "no luck")
        return "{}"

    async def stream(pool: WorkerPool, client: str, task: str, body: dict[str, Any]) -> Any:
        yield Message("event", "{}")
        yield Message("result", await run(pool, client, task, body))

    monkeypatch.setattr(WorkerPool, "run", run)
    monkeypatch.setattr(WorkerPool, "stream", stream)
    key = new_key(tmp_path / "keys.json", "bob", characters=50)
    settings = ServerSettings(api_keys=tmp_path / "keys.json", device="cpu", state=tmp_path)
    folder = tiny_model("phrasebook-transformer")
    app = create_app([folder], settings, [serving_studio]) if beside_the_api else create_studio_app(folder, settings)
    client = TestClient(app, headers={"Authorization": f"Bearer {key}"})

    def ask(model: str) -> Any:
        body = {"model": model, "text": TEXT}
        return client.post(f"/studio/{name}", **{"data" if name == "answer" else "json": body})

    for _ in range(4):
        assert "no luck" in ask("broken").text
    assert [ask("m").status_code for _ in range(3)] == [200, 200, 403]
    refused = ask("m")
    assert refused.json() == {"error": "Quota Exceeded"} or "used up" in refused.text
    assert client.post("/studio/neighbours", json={"model": "m", "word": "cat"}).status_code == 200
    if beside_the_api:
        assert app.state.serving.usage.characters["bob"] == 2 * len(TEXT)


def test_models_are_opened_by_workers_alone(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise AssertionError("a model was opened in the HTTP process")

    monkeypatch.setattr("harken.studio.library.Library.open", refuse)
    with TestClient(create_studio_app(runs), base_url="http://127.0.0.1") as client:
        assert client.post("/studio/beam", json={"model": "transformer", "text": TEXT}).status_code == 200


def test_a_server_has_no_studio_unless_asked(tiny_model: Callable[[str], Path]) -> None:
    app = create_app([tiny_model("phrasebook-transformer")], ServerSettings(device="cpu"))
    client = TestClient(app)
    for method, path in [*WORK, ("GET", "/studio/static/main.js")]:
        assert client.request(method, path).status_code == 404, path
    index = client.get("/", follow_redirects=False)
    assert index.is_redirect and client.get(index.headers["Location"]).status_code == 200


def test_eight_experiments_are_one_process(runs: Path) -> None:
    """Those of one client are refused past the second, and whoever leaves ends the experiment."""
    with listening(create_studio_app(runs)) as url, httpx.Client(base_url=url, timeout=120) as client:
        body = {"name": "vanishing", "quick": False}
        before = children()
        statuses: list[int] = []
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                answer = stack.enter_context(client.stream("POST", "/studio/lab/run", json=body))
                statuses.append(answer.status_code)
            workers = {pid for pid in children() - before if "harken.studio.worker" in command_of(pid)}
            leaders = {pid for pid in workers if os.getpgid(pid) == pid}
            assert statuses == [200, 200, *[429] * 6] and len(leaders) == 1
        (leader,) = leaders
        assert is_gone(leader)


@contextlib.contextmanager
def listening(app: Any) -> Iterator[str]:
    """The app on a free port of this machine, with the connections of `harken studio`."""
    server = uvicorn.Server(HttpConfig(app, app.state.settings))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def children() -> set[int]:
    """Every process below this one."""
    below, waiting = set[int](), [os.getpid()]
    while waiting:
        parent = waiting.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                pids = set(map(int, Path(f"/proc/{parent}/task/{task}/children").read_text().split()))
                waiting += pids - below
                below |= pids
    return below


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""
