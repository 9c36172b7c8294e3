"""The server around its dialects: limits, logs, CORS, pivots, changed models, real clients over a socket."""

import asyncio
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import harken
from harken.serving.app import create_app
from harken.serving.limits import hosts_of
from harken.serving.registry import Registry, ServedModel
from harken.serving.settings import ServerSettings
from harken.serving.transport import JoinedWrites
from harken.training.weights import load_tensors, save_tensors

from .conftest import CapitalEngine, listening

TestClient = pytest.importorskip("fastapi.testclient").TestClient
GIVEN = {"q": "the secret cat", "source": "en", "target": "fr"}


def capital_app(folders: list[Any], engine: CapitalEngine | None = None, **settings: Any) -> Any:
    app = create_app(folders, ServerSettings(**settings))
    app.state.serving.engine = engine or CapitalEngine()
    return app


def test_large_bodies_are_refused(tiny_model: Callable[[str], Path]) -> None:
    with TestClient(capital_app([tiny_model("phrasebook-transformer")], max_body=1000)) as client:
        answer = client.post("/translate", json={**GIVEN, "q": "a" * 2000})
        assert answer.status_code == 413 and "1,000 bytes" in answer.json()["error"]

        def parts() -> Iterator[bytes]:  # without a content-length
            yield from [b"x" * 600] * 3

        assert client.post("/translate", content=parts()).status_code == 413


def test_no_text_of_a_request_is_logged(tiny_model: Callable[[str], Path], caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG, "harken"),
        TestClient(capital_app([tiny_model("phrasebook-transformer")], access_log=True)) as client,
    ):
        client.post("/translate", params=GIVEN)
        client.post("/translate", json=GIVEN)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("harken")]
    assert len(lines) == 2 and all("POST /translate 200" in line and "secret" not in line for line in lines)


def test_work_is_cancelled_where_the_client_leaves(tiny_model: Callable[[str], Path]) -> None:
    httpx = pytest.importorskip("httpx")
    entered, left = threading.Event(), threading.Event()

    class SlowEngine(CapitalEngine):
        async def submit(self, work: Any, seconds: float | None = None) -> list[Any]:
            entered.set()
            try:
                await asyncio.sleep(60)
            finally:
                left.set()
            return []

    async def leave(url: str, path: str, body: dict[str, Any]) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            request = asyncio.create_task(client.post(f"{url}{path}", json=body))
            assert await asyncio.to_thread(entered.wait, 60)
            request.cancel()

    with listening(capital_app([tiny_model("phrasebook-transformer")], SlowEngine())) as url:
        for path, body in (("/translate", GIVEN), ("/v1/translate", {"text": "a"})):
            entered.clear()
            left.clear()
            asyncio.run(leave(url, path, body))
            assert left.wait(30)


def test_browsers_of_other_origins_are_let_in_only_where_told(tiny_model: Callable[[str], Path]) -> None:
    for origins, wanted in (([], None), (["https://a.org"], "https://a.org")):
        with TestClient(capital_app([tiny_model("phrasebook-transformer")], cors=origins)) as client:
            answer = client.post("/translate", json=GIVEN, headers={"Origin": "https://a.org"})
            assert answer.headers.get("access-control-allow-origin") == wanted


def test_a_server_on_the_loopback_address_answers_to_its_own_names(tiny_model: Callable[[str], Path]) -> None:
    hosts = hosts_of("::1", ["Translate.example.org"])
    with TestClient(capital_app([tiny_model("phrasebook-transformer")], allowed_hosts=hosts)) as client:
        for host in ("localhost", "127.0.0.1:5000", "[::1]:5000", "[::1]", "translate.example.org:443", "LOCALHOST."):
            assert client.get("/health", headers={"Host": host}).status_code == 200, host
        for host in ("attacker.example", "localhost.attacker.example", "127.0.0.1.nip.io:5000", "[::2]:5000", ""):
            answer = client.post("/v1/translate", json={"text": "a"}, headers={"Host": host})
            assert answer.status_code == 400 and "host name" in answer.json()["error"], host
        assert 'path="other",status="400"} 5.0' in client.get("/metrics", headers={"Host": "localhost"}).text
    assert hosts_of("0.0.0.0") is None and hosts_of("localhost") == hosts_of("127.0.0.2")


def test_head_and_body_of_an_answer_leave_in_one_write() -> None:
    class Socket:
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def write(self, data: bytes) -> None:
            self.calls.append(data)

        def close(self) -> None:
            self.calls.append("closed")

    async def main() -> list[Any]:
        socket = Socket()
        transport: Any = JoinedWrites(socket)  # type: ignore[arg-type]
        transport.write(b"head ")
        transport.write(b"body")
        assert transport.calls == []
        await asyncio.sleep(0)
        transport.write(b"more")
        transport.close()
        return socket.calls

    assert asyncio.run(main()) == [b"head body", b"more", "closed"]


def test_a_third_language_joins_two_models(tiny_model: Callable[[str], Path]) -> None:
    folder = tiny_model("phrasebook-transformer")
    engine = CapitalEngine(order=lambda places: places[::-1])
    with TestClient(capital_app([f"{folder}@de-en", f"{folder}@en-fr"], engine)) as client:
        found = client.get("/languages").json()
        assert {one["code"]: one["targets"] for one in found}["de"] == ["de", "en", "fr"]
        answer = client.post(
            "/translate", json={"q": "a <b>cat</b> here", "source": "de", "target": "fr", "format": "html"}
        )
        assert answer.json() == {"translatedText": "A <b>CAT</b> HERE"}  # reversed twice, the tag with its word
        assert [work.model for work in engine.works] == ["phrasebook-transformer", "phrasebook-transformer-2"]


def test_the_native_api_goes_through_a_third_language(tiny_model: Callable[[str], Path]) -> None:
    folder = tiny_model("phrasebook-transformer")
    engine = CapitalEngine(order=lambda places: places[::-1])
    with TestClient(capital_app([f"{folder}@de-en", f"{folder}@en-fr"], engine)) as client:
        body = {"text": ["ein kater", "b"], "source": "de", "target": "FR", "nbest": 2, "glossary": [["KATER", "chat"]]}
        found = client.post("/v1/translate", json=body).json()
        assert found["model"] == "phrasebook-transformer-2"
        first, second = found["results"]
        assert (first["source"], first["pivots"], second["pivots"]) == ("ein kater", ["KATER EIN"], ["B"])
        assert [one["text"] for one in first["hypotheses"]] == ["EIN chat", "EIN chat 1"]
        assert [(work.options["nbest"], work.is_continued) for work in engine.works] == [(1, False), (2, True)]
        for wrong, said in (({"target": "de"}, "in de already"), ({"target": "xx"}, "from de to xx")):
            answer = client.post("/v1/translate", json={**body, **wrong})
            assert answer.status_code == 400 and said in answer.json()["error"]
        assert client.post("/v1/translate", json={**body, "stream": True, "text": "a"}).status_code == 400


def test_a_route_is_the_shortest(tiny_model: Callable[[str], Path]) -> None:
    folder = tiny_model("phrasebook-transformer")
    registry = Registry([f"{folder}@{pair}" for pair in ("a-b", "b-c", "c-d", "a-c")])
    assert [(one.source, one.target) for one in registry.route("a", "d")] == [("a", "c"), ("c", "d")]
    assert registry.route("d", "d") == [] and registry.targets("b") == ["c", "d"]
    with pytest.raises(harken.UserError, match=r"from d to a; served: a to b, b to c, c to d, a to c .*FOLDER@de-en"):
        registry.route("d", "a")


def test_languages_that_are_not_known_are_to_be_named(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model("phrasebook-transformer"), tmp_path / "mine")
    assert ServedModel.open(folder).advice == "" == ServedModel("tagger", folder, "tag", None).advice
    recipe = (folder / "recipe.toml").read_text(encoding="utf-8")
    files = recipe.replace('corpus = "phrasebook"', 'source = "a.en"\ntarget = "a.fr"')
    (folder / "recipe.toml").write_text(files, encoding="utf-8")
    model = ServedModel.open(folder)
    assert (model.source, model.target) == ("source", "target")
    assert model.advice.endswith(f"name them by harken serve {folder}@de-en")
    assert ServedModel.open(f"{folder}@de-en").advice == ""
    named = files.replace("[data]", '[data]\nsource_language = "de"\ntarget_language = "en"')
    (folder / "recipe.toml").write_text(named, encoding="utf-8")
    assert (ServedModel.open(folder).source, ServedModel.open(folder).target) == ("de", "en")


def test_a_changed_folder_is_loaded_again_while_requests_go_on(
    tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model("phrasebook-transformer"), folder)
    with TestClient(create_app([folder], ServerSettings(workers=0, reload_seconds=0.05))) as client:

        def score() -> float:
            answer = client.post("/v1/translate", json={"text": "the cat"})
            assert answer.status_code == 200
            return float(answer.json()["results"][0]["hypotheses"][0]["score"])

        before = score()
        path = folder / "model.safetensors"
        tensors, _ = load_tensors(path)
        save_tensors(path, {name: tensor / 2 for name, tensor in tensors.items()})
        wanted = harken.load(folder).translate("the cat").score
        for _ in range(200):
            if score() != before:
                break
            time.sleep(0.05)
        assert score() == pytest.approx(wanted, abs=1e-5) != pytest.approx(before, abs=1e-5)
        path.write_bytes(b"damaged")
        time.sleep(0.3)
        assert score() == pytest.approx(wanted, abs=1e-5)  # the old model is kept
        assert "harken_reloads_total 1.0" in client.get("/metrics").text


def test_the_client_libretranslatepy(tiny_model: Callable[[str], Path]) -> None:
    api = pytest.importorskip("libretranslatepy").LibreTranslateAPI
    with listening(capital_app([tiny_model("phrasebook-transformer")])) as url:
        client = api(url)
        assert client.translate("the cat", "en", "fr") == "THE CAT"
        assert client.detect("the black cat sleeps")[0]["language"] == "en"
        assert [one["code"] for one in client.languages()] == ["en", "fr"]
        with pytest.raises(Exception, match="400"):
            client.translate("the cat", "en", "xx")


def test_the_client_deepl(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    deepl = pytest.importorskip("deepl")
    with listening(capital_app([tiny_model("phrasebook-transformer")], state=tmp_path)) as url:
        client = deepl.Translator("any", server_url=url)
        found = client.translate_text(["the cat", "<b>a</b> dog"], target_lang="FR", tag_handling="html")
        assert [(one.text, one.detected_source_lang, one.billed_characters) for one in found] == [
            ("THE CAT", "EN", 7),
            ("<b>A</b> DOG", "EN", 12),
        ]
        assert [one.code for one in client.get_source_languages()] == ["EN"]
        assert [one.code for one in client.get_target_languages()] == ["FR"]
        assert client.get_usage().character.count == 19
        made = client.create_glossary("animals", "EN", "FR", {"cat": "minou"})
        assert client.translate_text("a cat", source_lang="EN", target_lang="FR", glossary=made).text == "A minou"
        assert client.get_glossary_entries(made) == {"cat": "minou"}
        assert [one.glossary_id for one in client.list_glossaries()] == [made.glossary_id]
        assert [(one.source_lang, one.target_lang) for one in client.get_glossary_languages()] == [("en", "fr")]
        client.delete_glossary(made)
        with pytest.raises(deepl.GlossaryNotFoundException):
            client.get_glossary(made.glossary_id)


def test_documents_of_the_client_deepl(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    deepl, docx = pytest.importorskip("deepl"), pytest.importorskip("docx")
    made = docx.Document()
    made.add_paragraph("the black cat sleeps")
    made.save(tmp_path / "in.docx")
    (tmp_path / "in.txt").write_text("a cat\n\nthe dog\n", encoding="utf-8")
    with listening(capital_app([tiny_model("phrasebook-transformer")], state=tmp_path / "state")) as url:
        client = deepl.Translator("any", server_url=url)
        for name in ("in.txt", "in.docx"):
            done = client.translate_document_from_filepath(tmp_path / name, tmp_path / f"out.{name}", target_lang="FR")
            assert done.done and done.billed_characters in (len("a catthe dog"), len("the black cat sleeps"))
        assert (tmp_path / "out.in.txt").read_text(encoding="utf-8") == "A CAT\n\nTHE DOG\n"
        assert docx.Document(tmp_path / "out.in.docx").paragraphs[0].text == "THE BLACK CAT SLEEPS"
        assert list((tmp_path / "state" / "documents").iterdir()) == []  # each was downloaded
        handle = client.translate_document_upload("a cat", filename="a.txt", source_lang="EN", target_lang="FR")
        wrong = deepl.DocumentHandle(handle.document_id, "x")
        with pytest.raises(deepl.DeepLException, match="Document not found"):
            client.translate_document_get_status(wrong)
        assert client.translate_document_get_status(handle).done
        client.translate_document_download(handle)
        with pytest.raises(deepl.DocumentNotReadyException):
            client.translate_document_download(handle)
        with pytest.raises(deepl.DeepLException, match="Unsupported document type"):
            client.translate_document_upload("a", filename="a.exe", target_lang="FR")


def test_a_client_that_sends_batches_as_weblate_does(tiny_model: Callable[[str], Path]) -> None:
    httpx = pytest.importorskip("httpx")
    engine = CapitalEngine()
    with (
        listening(capital_app([tiny_model("phrasebook-transformer")], engine)) as url,
        httpx.Client(base_url=url) as client,
    ):
        pairs = [(one["code"], target) for one in client.get("/languages").json() for target in one["targets"]]
        assert ("en", "fr") in pairs
        texts = [f"Open file {number} in %s" for number in range(20)]
        body = {"q": texts, "source": "en", "target": "fr", "api_key": ""}
        found = client.post("/translate", json=body).json()["translatedText"]
        assert found == [f"OPEN FILE {number} IN %s" for number in range(20)]


@pytest.mark.slow
def test_a_killed_worker_process_loses_no_request(tiny_model: Callable[[str], Path]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with TestClient(create_app([tiny_model("phrasebook-transformer")], ServerSettings(workers=2))) as client:
        slots = client.app.state.serving.engine.supervisor.slots

        def send(number: int) -> int:
            if number in (20, 60):
                while slots[0].worker is None:  # the one that was killed first is still being replaced
                    time.sleep(0.01)
                slots[0].worker.kill()
            return int(client.post("/v1/translate", json={"text": [f"the cat {number}"] * 4}).status_code)

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(send, range(100))) == {200}
        assert 'harken_worker_restarts_total{worker="0"} 2.0' in client.get("/metrics").text
