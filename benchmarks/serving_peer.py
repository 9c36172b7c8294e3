"""The peer of serving.py: CTranslate2 behind a minimal FastAPI app, with harken's tokenizers and the same weights.

    python benchmarks/serving_peer.py EXPORT_DIR MODEL_DIR

Each request is one call of `translate_batch` in a thread, as most such apps have it; requests are not batched together.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ctranslate2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from harken.tasks.artifacts import TokenizerPairArtifact

SOURCE, TARGET = TokenizerPairArtifact().load(Path(sys.argv[2]))
TRANSLATOR = ctranslate2.Translator(sys.argv[1], device="cpu", inter_threads=1, intra_threads=1, compute_type="float32")
app = FastAPI()


class Body(BaseModel):
    """What is read of a request."""

    text: list[str]


@app.post("/v1/translate")
def translate(body: Body) -> dict[str, Any]:
    """The best translation of every text."""
    tokens = [SOURCE.pieces(SOURCE.encode(text)) for text in body.text]
    results = TRANSLATOR.translate_batch(tokens, beam_size=5, max_batch_size=64)
    return {"results": [" ".join(result.hypotheses[0]) for result in results]}


class Server(uvicorn.Server):
    """Says when it is ready."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        address = self.servers[0].sockets[0].getsockname()
        print(f"http://{address[0]}:{address[1]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False)).run()
