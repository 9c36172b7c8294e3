"""GloVe's training as its paper and program say it, one pair after the other, beside harken's: are the vectors as good?

    python benchmarks/glove_quality.py TEXT --tests DIR [--epochs 15] [--width 100] [--seeds 1 2] [--record FILE]

The plain one: all pairs shuffled together once, then stepped through in that order by one thread, in float64, AdaGrad
with sums that begin at 1, both vectors of a word added at the end; which is what the reference program does, but for
its threads. harken's: pairs shuffled within tiles of 512 x 512 words, tiles in another order every epoch, float32. Both
train on the same counts, whose making is tested against their definition (`tests/embeddings/test_glove.py`). DIR has
EN-WS-353-ALL.txt, EN-MEN-TR-3k.txt and questions-words.txt.gz.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from word_vectors import TESTS, score

from harken.embeddings.corpus import Corpus, read_corpus
from harken.embeddings.glove.training import GloveSettings, count_pairs, train_glove
from harken.embeddings.vectors import WordVectors


@numba.njit
def plain_epoch(
    rows: Any, columns: Any, logs: Any, weights: Any, words: Any, contexts: Any, word_squares: Any,
    context_squares: Any, rate: float,
) -> float:  # fmt: skip
    """Every pair once; vectors (V, D + 1) end with the bias; the summed loss."""
    loss, width = 0.0, words.shape[1] - 1
    for pair in range(len(rows)):
        i, j = rows[pair], columns[pair]
        difference = words[i, width] + contexts[j, width] - logs[pair]
        for d in range(width):
            difference += words[i, d] * contexts[j, d]
        loss += weights[pair] * difference * difference
        part = rate * weights[pair] * difference
        for d in range(width + 1):
            for_word = part * (contexts[j, d] if d < width else 1.0)
            for_context = part * (words[i, d] if d < width else 1.0)
            words[i, d] -= for_word / np.sqrt(word_squares[i, d])
            contexts[j, d] -= for_context / np.sqrt(context_squares[j, d])
            word_squares[i, d] += for_word * for_word
            context_squares[j, d] += for_context * for_context
    return loss


def plain_glove(corpus: Corpus, settings: GloveSettings) -> tuple[np.ndarray, list[float]]:
    """The vectors (V, D), and the mean loss of each epoch."""
    pairs = count_pairs(
        corpus, window=settings.window, cap=settings.cap, power=settings.power, threads=1, seed=settings.seed
    )
    generator = np.random.default_rng(settings.seed)
    order = generator.permutation(len(pairs))
    columns = [np.ascontiguousarray(column[order]) for column in (pairs.rows, pairs.columns, pairs.logs, pairs.weights)]
    size = len(corpus.vocabulary), settings.width + 1
    words, contexts = ((generator.random(size) - 0.5) / settings.width for _ in range(2))
    squares = [np.ones(size) for _ in range(2)]
    losses = [
        plain_epoch(*columns, words, contexts, *squares, settings.rate) / len(pairs) for _ in range(settings.epochs)
    ]
    return (words + contexts)[:, :-1].astype(np.float32), losses


def main() -> None:
    """Both, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--tests", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--record", type=Path, help="write everything measured here, as JSON")
    options = parser.parse_args()
    corpus = read_corpus([options.text])
    results: dict[str, list[dict[str, Any]]] = {"harken": [], "plain": []}
    for seed in options.seeds:
        settings = GloveSettings(width=options.width, epochs=options.epochs, threads=1, seed=seed)
        for kind in results:
            began = time.process_time()
            if kind == "harken":
                trained = train_glove(corpus, settings)
                vectors, losses = trained.vectors(corpus, settings), trained.progress.losses
            else:
                matrix, losses = plain_glove(corpus, settings)
                vectors = WordVectors(corpus.vocabulary.words, matrix, corpus.vocabulary.counts)
            row_of_seed = {"seed": seed, "seconds": round(time.process_time() - began, 1), "losses": losses}
            results[kind].append(row_of_seed | score(vectors, options.tests))
            print(kind, results[kind][-1], flush=True)
    for kind, rows in results.items():
        print(kind, {name: round(statistics.mean(row[name] for row in rows), 4) for name in TESTS})
    if options.record:
        facts = {"text": options.text.name, "epochs": options.epochs, "width": options.width}
        options.record.write_text(json.dumps(facts | results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
