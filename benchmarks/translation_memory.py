"""Translators of own data beside a translation memory: BLEU with its signature, chrF, and markup that is kept.

    python benchmarks/translation_memory.py tanaka ../shared/data/tanaka-enja-50k --out runs/memory
    python benchmarks/translation_memory.py markup ../shared/data/python-docs-fr/en-fr.tsv.xz --out runs/memory

tanaka   English and Japanese, both directions, with the corpus's own parts; the spaces between Japanese words are
         removed, as text has none. The recipe names the files, the languages, the time and what --set says.
markup   one file of pairs, of which 500 are held out to test on. Markup are :role:`...`, ``...``, `...`, *...*, {...},
         <...> and %s; it is kept where a translation has the same pieces as its source, in any order.

The memory gives each test source the target of the training source with the largest cosine of TF-IDF over 1 to 4
characters.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from records import facts_of, machine, rows_table, write
from sklearn.feature_extraction.text import TfidfVectorizer

import harken
from harken.data.io.files import read_lines
from harken.data.text.pairs import Pair
from harken.metrics import compare_systems, corpus_bleu, corpus_chrf
from harken.tasks.translate.job import JOB
from harken.training.log import read_metrics

TEST = 500  # pairs held out of a file
QUERIES = 64  # sources that are looked up at once
NGRAMS = 1, 4  # characters
MARKUP = re.compile(r":[\w:+-]+:`[^`]+`|``[^`]+``|`[^`]+`_?|\*\*?[^\s*][^*]*\*\*?|\{[^{}\s]*\}|<[^<>]+>|%\(?\w+\)?")


class TranslationMemory:
    """The target of the training pair whose source is most similar: cosine of TF-IDF over characters, any script."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.features = TfidfVectorizer(analyzer="char", ngram_range=NGRAMS, sublinear_tf=True)
        self.memory = self.features.fit_transform(sources)  # (N, F), rows of norm 1
        self.targets = list(targets)

    def translate(self, sources: Sequence[str]) -> list[str]:
        """The target of the nearest neighbour of every source; of equally near ones the first."""
        nearest: list[int] = []
        for start in range(0, len(sources), QUERIES):
            similarity = self.features.transform(sources[start : start + QUERIES]) @ self.memory.T
            nearest += np.asarray(similarity.toarray().argmax(1)).tolist()
        return [self.targets[index] for index in nearest]


def without_spaces(folder: Path, out: Path) -> dict[str, dict[str, str]]:
    """The corpus's files, with Japanese as it is written: part -> language -> path."""
    files: dict[str, dict[str, str]] = {}
    for part, ending in (("train", "xz"), ("dev", "gz"), ("test", "gz")):
        for language in ("en", "ja"):
            lines = list(read_lines(folder / f"{part}.{language}.{ending}"))
            path = out / f"{part}.{language}"
            path.write_text("".join(f"{''.join(line.split()) if language == 'ja' else line}\n" for line in lines))
            files.setdefault(part, {})[language] = str(path.resolve())
    return files


def markup_kept(sources: Sequence[str], outputs: Sequence[str]) -> tuple[int, int]:
    """Sentences whose output has the markup of its source, of those that have any."""
    both = zip(sources, outputs, strict=True)
    pieces = [(Counter(MARKUP.findall(source)), Counter(MARKUP.findall(output))) for source, output in both]
    marked = [(source, output) for source, output in pieces if source]
    return sum(source == output for source, output in marked), len(marked)


def measure(name: str, data: dict[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Train, and score the test part beside the memory."""
    recipe, out = {"task": "translate", "data": data, "train": {"max_minutes": options.minutes}}, options.out
    model = harken.train(recipe, out / name, overrides=options.set, restart=True, progress=False)
    test: Sequence[Pair] = JOB.examples(model, "test")
    train = JOB.load_data(model.recipe).train
    sources, references = [pair.source for pair in test], [pair.target for pair in test]
    memory = TranslationMemory([pair.source for pair in train], [pair.target for pair in train]).translate(sources)
    outputs = [translation.text for translation in model.translate(sources, attention=False)]
    print(*(f"{a}\n  {b}\n  {c}" for a, b, c in zip(sources[:8], outputs, references, strict=False)), sep="\n")
    comparison = compare_systems(outputs, memory, references)
    rows = []
    for system, texts in (("harken", outputs), ("translation memory", memory), ("reference", references)):
        bleu, chrf = corpus_bleu(texts, references), corpus_chrf(texts, references)
        row = {"data": name, "system": system, "BLEU": round(bleu.value, 2), "chrF": round(chrf.value, 2)}
        equal, marked = markup_kept(sources, texts)
        row |= {"markup kept": f"{equal} of {marked}"} if marked > TEST / 10 else {}
        if system == "harken":
            last = read_metrics(out / name)[-1]
            row |= {"p": round(comparison.p_value, 4), "updates": last["step"], "seconds": round(last["seconds"])}
            row |= {"BLEU signature": bleu.signature, "chrF signature": chrf.signature, "train pairs": len(train)}
        rows.append(row)
    return rows[:-1] if "markup kept" not in rows[-1] else rows


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["tanaka", "markup"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--directions", nargs="*", default=["en-ja", "ja-en"])
    parser.add_argument("--set", action="append", default=[], help="a key of the recipe, as in harken train")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    if options.kind == "tanaka":
        files = without_spaces(options.data, options.out)
        for direction in options.directions:
            source, target = direction.split("-")
            sides = {part: {"source": paths[source], "target": paths[target]} for part, paths in files.items()}
            languages = {"source_language": source, "target_language": target}
            data = {**sides["train"], "valid": sides["dev"], "test": sides["test"], **languages}
            rows += measure(f"tanaka-{direction}", data, options)
    else:
        source, target = options.data.name.split(".")[0].split("-")
        languages = {"source_language": source, "target_language": target}
        data = {"source": str(options.data.resolve()), "format": "tsv", "test_size": TEST, **languages}
        rows += measure(f"{options.data.parent.name}-{source}-{target}", data, options)
    record = {**machine("sacrebleu", "scikit-learn", "sentencepiece"), "minutes": options.minutes, "rows": rows}
    heads = [key for key in dict.fromkeys(key for row in rows for key in row) if "signature" not in key]
    signatures = dict.fromkeys(f"{row['BLEU signature']}; {row['chrF signature']}" for row in rows if "p" in row)
    page = f"# Translators beside a translation memory\n\n{rows_table(rows, heads)}\n\n"
    page += "".join(f"Signatures: `{signature}`.\n" for signature in signatures)
    name = "tanaka" if options.kind == "tanaka" else options.data.parent.name
    write(
        f"memory-{name}", record, f"{page}\n{facts_of(record)}", data=options.data.resolve(), out=options.out.resolve()
    )


if __name__ == "__main__":
    main()
