"""Servers for tests: one with real, barely trained models, and one whose engine translates into capitals."""

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.serving.engine.batching import Work
from harken.serving.operations import DOCUMENT_OPERATIONS, run_batch

TestClient = pytest.importorskip("fastapi.testclient").TestClient
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx`")


class CapitalEngine:
    """In the place of `Engine`: every word in capitals, the words in the order that `order` gives, aligned as such."""

    def __init__(self, order: Callable[[list[int]], list[int]] = list) -> None:
        self.order, self.works, self.facts, self.problem = order, list[Work](), {}, None
        self.is_live = self.is_ready = True
        self.batcher = type("Batcher", (), {"waiting": 0})()
        self.drops: Callable[[str], bool] = lambda word: "{" in word or "@" in word or "/" in word

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def submit(self, work: Work, seconds: float | None = None) -> list[Any]:
        if work.operation in DOCUMENT_OPERATIONS:
            return run_batch(None, work.operation, work.items, work.options)
        self.works.append(work)
        return [self.translated(item["text"], work.options, item) for item in work.items]

    async def stream(self, work: Work, seconds: float | None = None) -> AsyncIterator[Any]:
        for word in work.items[0]["text"].split():
            yield {"text": word.upper() + " "}

    def translated(self, text: str, options: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
        words = text.split()
        terms = dict(item.get("glossary") or [])
        order = [index for index in self.order(list(range(len(words)))) if not self.drops(words[index])]
        attention = np.eye(len(words))[order] if order else np.zeros((0, len(words)))
        found = [terms.get(words[index], words[index].upper()) for index in order]
        best = {"text": " ".join(found), "score": -1.0, "source_words": words, "target_words": found}
        best |= {"attention": attention.tolist(), "alignment": [[s, t] for t, s in enumerate(order)]}
        more = [{**best, "text": f"{best['text']} {number}"} for number in range(1, options.get("nbest", 1))]
        return {"source": text, "hypotheses": [best, *more]}


@pytest.fixture
def capitals() -> CapitalEngine:
    return CapitalEngine()


@pytest.fixture
def capital_client(tiny_model: Callable[[str], Path], capitals: CapitalEngine, tmp_path: Path) -> Iterator[Any]:
    """A client of a server en -> fr that translates into capitals."""
    from harken.serving.app import create_app
    from harken.serving.settings import ServerSettings

    app = create_app([tiny_model("phrasebook-transformer")], ServerSettings(state=tmp_path / "state"))
    app.state.serving.engine = capitals
    with TestClient(app) as client:
        yield client


@contextlib.contextmanager
def listening(app: Any) -> Iterator[str]:
    """The app on a free port of this machine."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        for _ in range(600):
            if server.started:
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
