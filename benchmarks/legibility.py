"""How legible a penman's writing is at several biases, read by a recogniser that was trained on real strokes alone.

    python benchmarks/legibility.py runs/pen
    python benchmarks/legibility.py runs/pen --biases 0 0.5 1 2 --texts 400 --out legibility.json

The recogniser (`harken.tasks.handwriting.legibility`) is trained where the folder has none yet: on the font's lines
from another seed, or on the training drawings of another corpus. Its own accuracy on test drawings, which neither model
saw, stands first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import torch

import harken
from harken.data.strokes.corpus import read_strokes_corpus
from harken.metrics.interval import bootstrap
from harken.tasks.handwriting.legibility import Reading, read_drawings, recogniser_for


def confusions(reading: Reading, most: int = 8) -> list[str]:
    """What was read for what, the most frequent first: "q>g 5"."""
    counts: Counter[str] = Counter()
    for text, read in zip(reading.texts, reading.read, strict=True):
        for kind, start, end, other, last in SequenceMatcher(None, text, read, autojunk=False).get_opcodes():
            if kind != "equal":
                counts[f"{text[start:end] or '-'}>{read[other:last] or '-'}"] += 1
    return [f"{pair} {count}" for pair, count in counts.most_common(most)]


def described(name: str, reading: Reading) -> dict[str, Any]:
    """Share of characters read right, with its interval."""
    interval = bootstrap(reading.right, reading.lengths)
    return {
        "what": name,
        "texts": len(reading.texts),
        "characters": int(reading.lengths.sum()),
        "right": interval.value,
        "interval": [interval.low, interval.high],
        "whole_texts": sum(text == read for text, read in zip(reading.texts, reading.read, strict=True)),
        "confusions": confusions(reading),
    }


def main() -> None:
    """Measure, print a table, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--biases", type=float, nargs="+", default=[0.0, 0.5, 1.0, 2.0])
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    penman = harken.load(options.model, "cpu")
    if penman.tokenizer is None:
        sys.exit(f"{options.model} writes no texts, so there is nothing to read")
    recogniser = recogniser_for(penman)
    drawings = read_strokes_corpus(penman.recipe.data)["test"][: options.texts]
    rows = [described("real strokes", read_drawings(recogniser, drawings, penman.tokenizer))]
    texts = [drawing.text for drawing in drawings]
    for bias in options.biases:
        written = penman.write(texts, bias=bias, seed=options.seed)
        reading = read_drawings(recogniser, [text.drawing() for text in written], penman.tokenizer)
        row = described(f"bias {bias:g}", reading)
        rows.append({**row, "unfinished": sum(not text.finished for text in written)})
    for row in rows:
        low, high = row["interval"]
        print(
            f"{row['what']:<14} {100 * row['right']:5.1f}% of {row['characters']:,} characters ({100 * low:.1f} to "
            f"{100 * high:.1f}), {row['whole_texts']} of {row['texts']} texts whole; {', '.join(row['confusions'])}"
        )
    if options.out is not None:
        options.out.write_text(json.dumps({"model": options.model.name, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
