"""From a recipe for handwriting to a run, and from a folder to a `HandwritingSynthesizer`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from harken.data.strokes.corpus import StrokeCorpus, read_strokes_corpus, table_strokes
from harken.data.strokes.drawing import Drawing
from harken.data.strokes.files import read_npz, read_strokes
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.plain import CharacterTokenizer
from harken.errors import UserError
from harken.inspection.pictures.drawings import InkPicture
from harken.inspection.pictures.picture import Picture
from harken.metrics.interval import bootstrap
from harken.models.sizing import measure
from harken.tasks.artifacts import Artifact
from harken.tasks.handwriting.interface import INTERFACE, WriteOptions
from harken.tasks.handwriting.legibility import read_drawings, recogniser_for
from harken.tasks.handwriting.recipe import HandwritingRecipe
from harken.tasks.handwriting.strokes import Drawings, Strokes
from harken.tasks.handwriting.synthesizer import ALPHABET, HandwritingSynthesizer, HandwritingTask, build
from harken.tasks.interface import Form
from harken.tasks.job import FileReading, Job, Prepared, Summary, format_skipped
from harken.tasks.predictor import Progress
from harken.tasks.results import Show
from harken.tasks.scores import Metric, Scores

LARGEST_ALPHABET = 4000


MAX_POINTS = 4000  # of a drawing that the studio shows


class HandwritingJob(Job):
    """See `harken.tasks.job`."""

    predictor = HandwritingSynthesizer
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (ALPHABET,)
    interface = INTERFACE
    scored_files = "a file"
    table_instead_of = ("corpus", "file", "valid", "test")

    def load_data(self, recipe: HandwritingRecipe) -> StrokeCorpus:
        return read_strokes_corpus(recipe.data)

    def load_table(self, recipe: HandwritingRecipe, table: dict[str, list[Any]]) -> StrokeCorpus:
        return table_strokes(table, recipe.data)

    def prepare_data(self, recipe: HandwritingRecipe, corpus: StrokeCorpus, folder: Path, resuming: bool) -> Prepared:
        tokenizer = None
        if recipe.model.window:
            tokenizer = ALPHABET.learn_or_load(folder, resuming, lambda: learn_alphabet(recipe, corpus))
        model = build(recipe, tokenizer)
        task = HandwritingTask(recipe, corpus, model, tokenizer)
        points = len(task.train.flat)
        summary = Summary(
            corpus.name,
            recipe.model.title,
            len(task.train),
            len(task.valid),
            unit="drawings",
            data_summary=f"{points:,} points",
            input_summary="no text" if tokenizer is None else f"{tokenizer.size:,} characters",
            skipped=corpus.skipped,
            facts={"points": f"{points:,}", "drawings skipped": format_skipped(corpus.skipped)},
        )
        return summary.prepared(task, measure(model, round(points / len(task.train))).flops, corpus)

    def splits(self, data: StrokeCorpus) -> dict[str, list[Drawing]]:
        return {name: drawings for name, drawings in data.splits.items() if drawings}

    def read_files(
        self, model: HandwritingSynthesizer, files: Sequence[Path], reading: FileReading
    ) -> tuple[list[Drawing], list[str]]:
        parts = (read_npz(path)["test"] if path.suffix == ".npz" else read_strokes(path) for path in files)
        return [drawing for part in parts for drawing in part], []

    def score(self, model: HandwritingSynthesizer, examples: Sequence[Drawing], progress: Progress) -> Scores:
        """Score a synthesizer on drawings.

        Raises:
            UserError: drawings without the text that the model reads.
        """
        if model.tokenizer is not None and not all(drawing.text for drawing in examples):
            raise UserError("a drawing has no text, and this model reads one; give every drawing its text")
        nats = model.nats(examples, progress)
        unit = f"movements in units of {float(model.model.deviation):.4g}; lower is better"
        points = [len(drawing) for drawing in examples]
        scores = Scores(len(examples), "drawings", [Metric.of("nats", bootstrap(nats, points), f"a point; {unit}")])
        scores.details["points"] = sum(points)
        if model.tokenizer is None:
            written = model.write([None] * SHOWN)
        else:
            written = _add_legibility(model, examples, scores, progress)
        shown = written[:SHOWN]
        names = [strokes.text or "" for strokes in shown]
        scores.pictures["samples"] = InkPicture([strokes.strokes() for strokes in shown], names)
        return scores

    def predict(
        self, model: HandwritingSynthesizer, examples: Sequence[str | None], options: WriteOptions, progress: Progress
    ) -> list[Drawings]:
        results = []
        for text in examples:
            drawings = model.write([text] * options.count, bias=options.bias, seed=options.seed, progress=progress)
            results.append(Drawings(drawings, model.recipe.sampling.max_points))
        return results

    def form(self, model: HandwritingSynthesizer) -> Form:
        return super().form(model)._replace(takes_text=model.tokenizer is not None)

    def show(self, model: HandwritingSynthesizer, text: str, options: WriteOptions) -> Show:
        """Points (x, y, pen up), to be drawn one after the other."""
        strokes = model.write(None if model.tokenizer is None else text, options.bias, options.seed)
        points = np.asarray(strokes.points)[:MAX_POINTS]
        positions = np.concatenate([np.cumsum(points[:, :2], 0), points[:, 2:3]], 1)
        return Show(title=text, more={"points": positions})

    def figure(self, results: Sequence[Drawings]) -> InkPicture:
        return results[0].picture()

    def attention_figure(self, model: HandwritingSynthesizer, example: str) -> Picture:
        return model.write(example).window_picture()

    def validation(self, best: dict[str, Any]) -> str:
        return f"{best.get('nats', math.nan):.4f} nats a point"


JOB = HandwritingJob()


def learn_alphabet(recipe: HandwritingRecipe, corpus: StrokeCorpus) -> Tokenizer:
    """The characters of the training texts.

    Raises:
        UserError: a drawing has no text.
    """
    if not corpus.has_texts:
        raise UserError(
            f"model.window is {recipe.model.window}, but drawings of {corpus.name} come without a text to look at; "
            "set model.window = 0"
        )
    return CharacterTokenizer.train([drawing.text or "" for drawing in corpus.splits["train"]], LARGEST_ALPHABET)


WRITTEN = 200  # texts that are written and read
SHOWN = 12
RECOGNISER_THREADS = 1  # its sums, and so what it reads, are the same whatever the machine


def _add_legibility(
    synthesizer: HandwritingSynthesizer, drawings: Sequence[Drawing], scores: Scores, progress: Progress
) -> list[Strokes]:
    assert synthesizer.tokenizer is not None
    threads = torch.get_num_threads()
    torch.set_num_threads(RECOGNISER_THREADS)
    try:
        recogniser = recogniser_for(synthesizer, progress)
        real = read_drawings(recogniser, drawings, synthesizer.tokenizer)
        texts = [drawing.text or "" for drawing in drawings[:WRITTEN]]
        written = synthesizer.write(texts)
        read_texts = read_drawings(recogniser, [strokes.drawing() for strokes in written], synthesizer.tokenizer)
    finally:
        torch.set_num_threads(threads)
    bias = synthesizer.recipe.sampling.bias
    note = f"characters of {len(texts)} written texts that a recogniser reads right (bias {bias:g})"
    scores.metrics.append(Metric.of("legible", bootstrap(read_texts.right, read_texts.lengths), note))
    note = f"characters that it reads right of these {len(drawings)} real drawings"
    scores.metrics.append(Metric.of("real_legible", bootstrap(real.right, real.lengths), note))
    scores.details["unfinished"] = sum(not strokes.finished for strokes in written)
    return written
