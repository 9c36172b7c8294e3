"""How good a penman is: nats a point on drawings it never saw, and whether a recogniser reads what it writes."""

from __future__ import annotations

import torch

from harken.data.strokes.drawing import Drawing
from harken.errors import UserError
from harken.inspection.pictures.drawings import InkPicture
from harken.metrics.interval import bootstrap
from harken.tasks.handwriting.legibility import read_drawings, recogniser_for
from harken.tasks.handwriting.penman import Penman
from harken.tasks.handwriting.strokes import Strokes
from harken.tasks.predictor import Progress
from harken.tasks.scores import Metric, Scores

WRITTEN = 200  # texts that are written and read
SHOWN = 12
RECOGNISER_THREADS = 1  # its sums, and so what it reads, are the same whatever the machine


def evaluate(penman: Penman, drawings: list[Drawing], progress: Progress) -> Scores:
    """Score a penman on drawings.

    Raises:
        UserError: drawings without the text that the model reads.
    """
    if penman.tokenizer is not None and not all(drawing.text for drawing in drawings):
        raise UserError("a drawing has no text, and this model reads one; give every drawing its text")
    nats = penman.nats(drawings, progress)
    unit = f"movements in units of {float(penman.model.deviation):.4g}; lower is better"
    points = [len(drawing) for drawing in drawings]
    scores = Scores(len(drawings), "drawings", [Metric.of("nats", bootstrap(nats, points), f"a point; {unit}")])
    scores.details["points"] = sum(points)
    if penman.tokenizer is None:
        written = penman.write([None] * SHOWN)
    else:
        written = _add_legibility(penman, drawings, scores, progress)
    shown = written[:SHOWN]
    scores.pictures["samples"] = InkPicture([one.strokes() for one in shown], [one.text or "" for one in shown])
    return scores


def _add_legibility(penman: Penman, drawings: list[Drawing], scores: Scores, progress: Progress) -> list[Strokes]:
    assert penman.tokenizer is not None
    threads = torch.get_num_threads()
    torch.set_num_threads(RECOGNISER_THREADS)
    try:
        recogniser = recogniser_for(penman, progress)
        real = read_drawings(recogniser, drawings, penman.tokenizer)
        texts = [drawing.text or "" for drawing in drawings[:WRITTEN]]
        written = penman.write(texts)
        found = read_drawings(recogniser, [one.drawing() for one in written], penman.tokenizer)
    finally:
        torch.set_num_threads(threads)
    bias = penman.recipe.sampling.bias
    note = f"characters of {len(texts)} written texts that a recogniser reads right (bias {bias:g})"
    scores.metrics.append(Metric.of("legible", bootstrap(found.right, found.lengths), note))
    note = f"characters that it reads right of these {len(drawings)} real drawings"
    scores.metrics.append(Metric.of("real_legible", bootstrap(real.right, real.lengths), note))
    scores.details["unfinished"] = sum(not one.finished for one in written)
    return written
