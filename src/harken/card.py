"""card.md: what a model is, what it was trained on, how good it is and what it cost."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path
from typing import Any

import torch

from harken.data.pairs import Corpus
from harken.metrics import corpus_bleu
from harken.recipe import Recipe
from harken.training.checkpoints import Progress
from harken.training.log import read_metrics

CARD = "card.md"
NOTE = """Scores on test sets: `harken evaluate`. The recipe is in `recipe.toml`; `harken.load` reads this folder and
can run no code from it."""


def write_card(
    folder: Path, recipe: Recipe, corpus: Corpus, model: torch.nn.Module, state: Progress, source: int, target: int
) -> None:
    """Write the card; the last thing a run does."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    best: dict[str, Any] = next((entry for entry in reversed(read_metrics(folder)) if entry.get("best")), {})
    operations = 6 * multiplied(model) * state.tokens
    train = recipe.train
    signature = corpus_bleu(["one"], ["one"]).signature.replace("|", r"\|")  # a bar would end the table's cell
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(corpus.skipped.items()) if count) or "none"
    rows = {
        "data": f"{corpus.name}: {len(corpus.train):,} training pairs, {len(corpus.valid):,} for validation",
        "lines skipped": skipped,
        "vocabulary": f"{recipe.tokenizer.kind}, {source:,} source and {target:,} target pieces"
        + (", joint" if recipe.tokenizer.joint else ""),
        "parameters": f"{parameters:,}",
        "updates": f"{state.step:,}, best at {state.best_step:,}",
        "target tokens seen": f"{state.tokens:,}",
        "training time": f"{state.seconds:,.0f} s, validation included",
        "training cost": f"about {operations:.2g} FLOPs (6 x multiplied weights x target tokens)",
        "computed with": f"torch {torch.__version__}, {train.device}, {train.precision}, "
        f"{train.workers} x {train.threads} threads, Python {platform.python_version()}",
        "validation": f"BLEU {best.get('bleu', math.nan):.2f} by greedy search ({signature}), "
        f"perplexity {best.get('perplexity', math.nan):.3f}",
    }
    title = f"# {corpus.name} {corpus.source_language}-{corpus.target_language}, {recipe.model.title}"
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])
    text = f"{title}\n\n{table}\n\n{NOTE}\n"
    write_aside(folder / CARD, text)


def multiplied(model: torch.nn.Module) -> int:
    """Weights that take part in a matrix product for each token: all matrices, the output layer included once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.dim() >= 2)


def write_aside(path: Path, text: str) -> None:
    """Write a text file so that a kill leaves the old one or the new one."""
    aside = path.with_name(path.name + ".part")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)
