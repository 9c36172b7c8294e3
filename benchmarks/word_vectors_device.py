"""Words a second of word2vec on a GPU and on the CPU beside it, on one text, and how good the vectors of both are.

    python benchmarks/word_vectors_device.py TEXT --tests DIR [--device cuda] [--epochs 5] [--repeat 1]

TEXT is a sentence a line, plain, .gz or .xz; `--repeat N` reads it N times over, for longer runs. Seconds are those of
training alone, with a GPU already woken up; `start` is how long waking it takes. `--batches` and `--most` try other
sizes of a batch and other bounds on what a row may take in of one (`harken.embeddings.word2vec.batch_kernel`). DIR has
EN-WS-353-ALL.txt, EN-MEN-TR-3k.txt and questions-words.txt.gz.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from word_vectors import score

from harken.embeddings.corpus import read_corpus
from harken.embeddings.training import Trained
from harken.embeddings.word2vec import batch_kernel
from harken.embeddings.word2vec import device as word2vec_device
from harken.embeddings.word2vec.device import train_on_device
from harken.embeddings.word2vec.settings import Settings
from harken.embeddings.word2vec.training import train_word2vec
from harken.machine import available_cores


def main() -> None:
    """The CPU once, the device for every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--methods", nargs="+", default=["skipgram", "cbow"])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--batches", type=int, nargs="+", default=[word2vec_device.BATCH])
    parser.add_argument("--most", type=float, nargs="+", default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--record", type=Path, help="write everything measured here, as JSON")
    options = parser.parse_args()
    corpus = read_corpus([options.text] * options.repeat)
    rows: list[dict[str, Any]] = [wake(options.device)]
    print(rows[0], flush=True)

    def measure(trained: Trained, settings: Settings, **facts: Any) -> None:
        vectors, progress = trained.vectors(corpus, settings), trained.progress
        scores = score(vectors, options.tests) if options.tests else {}
        speed = {"seconds": round(progress.seconds, 2), "words_per_second": round(progress.words_per_second)}
        rows.append({"method": settings.method, "seed": settings.seed, **facts, **speed, **scores})
        rows[-1]["losses"] = [round(loss, 4) for loss in progress.losses]
        print(rows[-1], flush=True)

    for method in options.methods:
        for seed in options.seeds:
            settings = Settings(method=method, epochs=options.epochs, threads=options.threads, seed=seed)
            measure(train_word2vec(corpus, settings), settings, device="cpu", threads=options.threads)
            for batch in options.batches:
                for most in options.most or [batch_kernel.MOST[method]]:
                    word2vec_device.BATCH, batch_kernel.MOST[method] = batch, most
                    try:
                        trained = train_on_device(corpus, settings, options.device)
                    except Exception as problem:  # a bound that is too large diverges: the others are still of use
                        print(method, batch, most, problem, flush=True)
                        continue
                    measure(trained, settings, device=options.device, batch=batch, most=most)
    if options.record:
        facts = {
            "text": options.text.name,
            "repeat": options.repeat,
            "words": corpus.words_read,
            "epochs": options.epochs,
        }
        options.record.write_text(json.dumps(facts | {"rows": rows}, indent=1) + "\n", encoding="utf-8")


def wake(device: str) -> dict[str, Any]:
    """How long it takes until the device has done something."""
    began = time.perf_counter()
    import torch

    values = torch.ones(2, 8, 8, device=device)
    float(torch.bmm(values, values).sum())
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    return {"device": name, "start": round(time.perf_counter() - began, 2)}


if __name__ == "__main__":
    main()
