"""Time and memory of preparing a translation corpus that is larger than one would like to hold in memory.

    python benchmarks/preparing.py --pairs 10000000 --kind word
    python benchmarks/preparing.py --pairs 1000000 --kind bpe --base deu.txt.xz

Sentences of the base (two-column TSV; by default the generated phrasebook) are joined two by two at random to as many
pairs as are asked for. The corpus is prepared in a fresh process, then opened again in another one, as a second run or
a resumed one would. CPU seconds are those of the process and its children; a shared machine spoils wall time only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def make_corpus(folder: Path, pairs: int, base: Path | None) -> None:
    """Write train.en and train.fr."""
    from harken.data.io.files import read_lines
    from harken.data.synthetic.phrasebook import load_phrasebook

    if base is None:
        known = [(pair.source, pair.target) for pair in load_phrasebook(train=20_000).train]
    else:
        known = [(cells[0], cells[1]) for line in read_lines(base) if len(cells := line.split("\t")) > 1]
    chosen = random.Random(1)
    paths = folder / "train.en", folder / "train.fr"
    with open(paths[0], "w", encoding="utf-8") as sources, open(paths[1], "w", encoding="utf-8") as targets:
        for start in range(0, pairs, 100_000):
            count = min(100_000, pairs - start)
            joined = zip(chosen.choices(known, k=count), chosen.choices(known, k=count), strict=True)
            both = [(f"{a[0]} {b[0]}\n", f"{a[1]} {b[1]}\n") for a, b in joined]
            sources.writelines(source for source, _ in both)
            targets.writelines(target for _, target in both)


def anonymous_mb() -> float:
    """Memory of this process that is not a mapped file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0.0


def prepare(folder: Path, kind: str, size: int) -> dict[str, Any]:
    """One run as far as its first batch."""
    from harken.data.rows import rows_of
    from harken.data.text.config import DataConfig, TokenizerConfig
    from harken.data.text.parallel import read_corpus
    from harken.data.text.placeholders import Placeholders
    from harken.data.tokenizers.base import train_tokenizers
    from harken.tasks.translate.sources import encode_pairs

    phases: dict[str, Any] = {}

    def used() -> float:
        every = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in every)

    def done(name: str) -> None:
        nonlocal wall, cpu
        phases[name] = {"wall_s": round(time.perf_counter() - wall, 2), "cpu_s": round(used() - cpu, 2)}
        phases[name]["anonymous_mb"] = round(anonymous_mb())
        wall, cpu = time.perf_counter(), used()

    wall, cpu, began, before = time.perf_counter(), used(), time.perf_counter(), anonymous_mb()
    data = DataConfig(
        source=str(folder / "train.en"), target=str(folder / "train.fr"), prepared=str(folder / "prepared")
    )
    config = TokenizerConfig(kind=kind, size=size)
    corpus = read_corpus(data)
    done("rows and splits")
    rows = rows_of(corpus.train)
    learn = lambda: train_tokenizers(config, rows.column(0), rows.column(1))  # noqa: E731
    tokenizers = rows.cached_tokenizers(config.model_dump(), learn)
    done("tokenizer")
    ids = encode_pairs(corpus.train, *tokenizers, Placeholders())
    done("ids")
    batches = ids.batches(25_000, seed=1, epoch=0)
    done("order of an epoch")
    ids.batch(batches[0])
    done("first batch")
    return {
        "phases": phases,
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(sum(phase["cpu_s"] for phase in phases.values()), 2),
        "pairs": len(ids),
        "tokens": int(ids.source.offsets[-1] + ids.target.offsets[-1]),
        "vocabulary": tokenizers[0].size,
        "digest": corpus.train.digest(),
        "anonymous_mb_before": round(before),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "peak_rss_of_a_worker_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
    }


def main() -> None:
    """Make the corpus, prepare it, open it again."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=10_000_000)
    options.add_argument("--kind", default="word", choices=["word", "character", "bpe", "unigram"])
    options.add_argument("--size", type=int, default=32_000)
    options.add_argument("--base", type=Path, help="sentence pairs to make the corpus of: TSV")
    options.add_argument("--folder", type=Path, help="a corpus that was made before, or a place for it")
    options.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.inner:
        print(json.dumps(prepare(chosen.folder, chosen.kind, chosen.size)))
        return
    with tempfile.TemporaryDirectory(prefix="harken-preparing-") as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "train.en").is_file():
            make_corpus(folder, chosen.pairs, chosen.base)
        command = [sys.executable, __file__, "--inner", "--folder", str(folder)]
        command += ["--kind", chosen.kind, "--size", str(chosen.size)]
        runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(2)]
        lines, cores = 2 * runs[0]["pairs"], len(os.sched_getaffinity(0))
        size = sum(path.stat().st_size for path in folder.glob("train.*"))
        prepared = sum(path.stat().st_size for path in (folder / "prepared").rglob("*") if path.is_file())
        first = {"lines_per_second_and_core": round(lines / runs[0]["cpu_seconds"]), **runs[0]}
        sizes = {"text_mb": round(size / 1e6), "prepared_mb": round(prepared / 1e6), "cores": cores}
        print(json.dumps({"kind": chosen.kind, **sizes, "first run": first, "second run": runs[1]}, indent=1))


if __name__ == "__main__":
    main()
