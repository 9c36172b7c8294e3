"""From a recipe for handwriting to a run, and from a folder to a `Penman`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from harken.data.strokes.corpus import StrokeCorpus, read_strokes_corpus
from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizers, save_tokenizers
from harken.data.tokenizers.character import CharacterTokenizer
from harken.errors import UserError
from harken.models.sizing import measure
from harken.tasks.handwriting.penman import Penman, build
from harken.tasks.handwriting.recipe import HandwritingRecipe
from harken.tasks.handwriting.task import HandwritingTask
from harken.tasks.job import Job, Prepared
from harken.tasks.scores import Scores

if TYPE_CHECKING:
    from harken.inspection.picture import Picture

LARGEST_ALPHABET = 4000


class HandwritingJob(Job):
    """See `harken.tasks.job`."""

    usage = "harken write {} --out sample.svg"

    def prepare(self, recipe: HandwritingRecipe, folder: Path, resuming: bool) -> Prepared:
        corpus = read_strokes_corpus(recipe.data)
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = tokenizer_of(recipe, corpus, folder, resuming)
        model = build(recipe, tokenizer)
        task = HandwritingTask(recipe, corpus, model, tokenizer)
        model.fit(torch.from_numpy(task.train.flat[:, :2]))
        task.deviation = float(model.deviation)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        points, pages = len(task.train.flat), len(task.train)
        count = f"{pages:,} training drawings of {points:,} points, {len(task.valid):,} for validation"
        skipped = ", ".join(f"{number:,} {reason}" for reason, number in corpus.skipped.items()) or "none"
        alphabet = "no text" if tokenizer is None else f"{tokenizer.size:,} characters"
        return Prepared(
            task,
            title=f"{corpus.name}, {recipe.model.title}",
            facts={"data": f"{corpus.name}: {count}", "drawings skipped": skipped, "reads": alphabet},
            lines=[f"{corpus.name}: {count}", f"{recipe.model.title}: {parameters:,} parameters, {alphabet}"]
            + ([f"skipped {skipped}"] if corpus.skipped else []),
            flops_per_token=measure(model, round(points / pages)).flops,
        )

    def load(self, folder: Path, recipe: HandwritingRecipe, device: str) -> Penman:
        return Penman.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((f"{JOINT}.json",))

    def evaluate(self, model: Penman, split: str | None, files: list[Path], progress: Callable[[int], None]) -> Scores:
        from harken.tasks.handwriting.evaluation import evaluate

        return evaluate(model, split, files, progress)

    def look(self, model: Penman, example: str) -> Picture:
        return model.write(example).window_picture()

    def examples(self, model: Penman, split: str) -> list[Any]:
        return list(read_strokes_corpus(model.recipe.data)[split])

    def validation(self, best: dict[str, Any]) -> str:
        return f"{best.get('nats', math.nan):.4f} nats a point"


JOB = HandwritingJob()


def tokenizer_of(recipe: HandwritingRecipe, corpus: StrokeCorpus, folder: Path, resuming: bool) -> Tokenizer | None:
    """The alphabet of the training texts; None where no text is read."""
    if not recipe.model.window:
        return None
    if not corpus.has_texts:
        raise UserError(
            f"model.window is {recipe.model.window}, but drawings of {corpus.name} come without a text to look at; "
            "set model.window = 0"
        )
    if resuming:
        return load_tokenizers(folder)[0]
    texts = [drawing.text or "" for drawing in corpus.splits["train"]]
    tokenizer = CharacterTokenizer.train(texts, LARGEST_ALPHABET)
    save_tokenizers(folder, tokenizer, tokenizer)
    return tokenizer
