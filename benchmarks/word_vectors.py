"""Words a second of word2vec here and in gensim, in turns, on one text; and how good the vectors of both are.

    python benchmarks/word_vectors.py TEXT --gensim PYTHON_WITH_GENSIM [--rounds 3] [--epochs 5] [--tests DIR]

TEXT is cut at blanks by both, a sentence a line. PYTHON_WITH_GENSIM is an interpreter with gensim 4.4 installed (in an
environment of its own). Each round trains both tools once for each method, each in a process of its own; the words a
second are those of training alone, without reading the text, and count every word of the text. With `--tests`, a folder
with EN-WS-353-ALL.txt, EN-MEN-TR-3k.txt and questions-words.txt.gz, the vectors of the last round are scored by harken.
`--glove` times GloVe, counting included, in the place of the rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TESTS = ("EN-WS-353-ALL.txt", "EN-MEN-TR-3k.txt", "questions-words.txt.gz")
GENSIM = """
import json, sys, time
from gensim.models.word2vec import Word2Vec
text, method, epochs, threads, rate, seed, out = sys.argv[1:]
model = Word2Vec(vector_size=100, window=5, negative=5, hs=0, min_count=5, sample=1e-3, sg=int(method == "skipgram"),
                 workers=int(threads), epochs=int(epochs), alpha=float(rate), seed=int(seed))
model.build_vocab(corpus_file=text)
began = time.perf_counter()
model.train(corpus_file=text, total_examples=model.corpus_count, total_words=model.corpus_total_words,
            epochs=model.epochs)
seconds = time.perf_counter() - began
model.wv.save_word2vec_format(out, binary=True)
print(json.dumps({"seconds": seconds, "words_per_second": model.corpus_total_words * model.epochs / seconds}))
"""


def train_here(text: str, method: str, epochs: int, threads: int, rate: float, seed: int, out: str) -> None:
    """What the child process of harken runs."""
    from harken.embeddings.corpus import read_corpus
    from harken.embeddings.word2vec.settings import Settings
    from harken.embeddings.word2vec.training import train_word2vec

    corpus = read_corpus([text], tokens="spaces", lower=False)
    settings = Settings(method=method, epochs=epochs, threads=threads, rate=rate, seed=seed)
    trained = train_word2vec(corpus, settings)
    trained.vectors(corpus, settings).save(out)
    progress = trained.progress
    print(json.dumps({"seconds": progress.seconds, "words_per_second": progress.words_per_second}))


def train_glove_here(text: str, epochs: int, threads: int, out: str) -> None:
    """GloVe end to end, and what its parts take."""
    from harken.embeddings.corpus import read_corpus
    from harken.embeddings.glove.training import GloveSettings, count_pairs, train_glove

    began = time.perf_counter()
    corpus = read_corpus([text], tokens="spaces", lower=False)
    read = time.perf_counter()
    count_pairs(corpus, window=10, cap=10.0, power=0.75, threads=threads, seed=1)
    counted = time.perf_counter()
    settings = GloveSettings(epochs=epochs, threads=threads)
    trained = train_glove(corpus, settings)
    trained.vectors(corpus, settings).save(out)
    progress = trained.progress
    parts = {
        "read": read - began,
        "count_and_shuffle": counted - read,
        "iteration": progress.seconds / epochs,
        "pairs_per_second": progress.words_per_second,
        "pairs": progress.total // epochs,
        "epochs": epochs,
    }
    print(json.dumps(parts))


def run(command: list[str]) -> dict[str, Any]:
    """The last line a child prints, as JSON."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:3])} ... failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def score(vectors: Any, tests: Path) -> dict[str, float]:
    """The tests of word vectors, or of a file of them, by harken's own evaluation, for all tools alike."""
    from harken.embeddings.evaluation import evaluate_file
    from harken.embeddings.vectors import WordVectors

    loaded = vectors if isinstance(vectors, WordVectors) else WordVectors.load(vectors)
    return {name: float(evaluate_file(loaded, tests / name)[-1].score or 0.0) for name in TESTS}


def compare(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """All rounds: for each method and rate the words a second of both, their ratio, and the scores."""
    # gensim's rates fall less within an epoch (`harken.embeddings.word2vec.settings`), so that ours is higher for like
    # work
    cases = [("skipgram", 0.025, 0.025), ("cbow", 0.06, 0.05)]
    speeds: dict[tuple[str, str], list[float]] = {}
    scores: dict[tuple[str, str], list[dict[str, float | None]]] = {}
    for number in range(options.rounds):
        for method, *rates in cases:
            for tool, rate in zip(("harken", "gensim"), rates, strict=True):
                out = str(work / f"{tool}-{method}")
                words = [options.text, method, options.epochs, options.threads, rate, number + 1, out]
                child = [sys.executable, __file__, "--child"] if tool == "harken" else [options.gensim, "-c", GENSIM]
                results = run([*child, *map(str, words)])
                speeds.setdefault((tool, method), []).append(results["words_per_second"])
                speed = f"{results['words_per_second']:>10,.0f} words/s"
                print(f"round {number + 1}  {tool:7} {method:9} rate {rate}  {speed}")
                if options.tests:
                    scores.setdefault((tool, method), []).append(score(out, options.tests))
    rows = []
    for method, *rates in cases:
        ours, theirs = speeds["harken", method], speeds["gensim", method]
        ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
        rows.append({"method": method, "rates": rates, "harken": ours, "gensim": theirs, "ratios": ratios})
        middle = {name: statistics.median(values) for name, values in (("harken", ours), ("gensim", theirs))}
        print(
            f"{method:9} rates {rates[0]} and {rates[1]}: {middle['harken']:,.0f} against {middle['gensim']:,.0f} "
            f"words/s, {statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
        )
        for tool in ("harken", "gensim"):
            results = scores.get((tool, method), [])
            if results:
                mean = {name: statistics.mean(own[name] or 0 for own in results) for name in TESTS}
                rows[-1][f"{tool}_scores"] = results
                print(f"  {tool:7} " + "  ".join(f"{name.split('.')[0]} {value:.4f}" for name, value in mean.items()))
    settings = {name: getattr(options, name) for name in ("rounds", "epochs", "threads")}
    return {"text": Path(options.text).name, "options": settings, "rows": rows}


def main() -> None:
    """Parse, run, print, and write the record."""
    if sys.argv[1:2] == ["--child"]:
        text, method, epochs, threads, rate, seed, out = sys.argv[2:]
        train_here(text, method, int(epochs), int(threads), float(rate), int(seed), out)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--gensim", help="Python interpreter that has gensim")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--glove", action="store_true")
    parser.add_argument("--record", type=Path, help="write everything measured here, as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="harken-words-") as work:
        if options.glove:
            train_glove_here(options.text, options.epochs, options.threads, f"{work}/glove")
            if options.tests:
                print(json.dumps(score(f"{work}/glove", options.tests)))
            return
        if not options.gensim:
            parser.error("--gensim is wanted: a Python interpreter that has gensim")
        record = compare(options, Path(work))
    if options.record:
        options.record.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
