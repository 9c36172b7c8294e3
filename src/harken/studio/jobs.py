"""The answer of a model of any job to one input, and the picture behind it.

Every job has `attention_figure`, which makes the picture of `harken attention`; the page draws the same figures.
Sounds, images and tables come as uploaded files, which `attention_figure` reads from a temporary file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harken.errors import UserError
from harken.studio.figures import figures_json, plain
from harken.studio.library import Opened

ENDINGS = {  # what an uploaded file may be called, by task; others are refused before they are read
    "transcribe": (".wav", ".flac", ".ogg", ".mp3"),
    "caption": (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif"),
    "forecast": (".csv", ".tsv", ".parquet", ".json", ".jsonl"),
    "classify": (".npz", ".npy", ".csv", ".tsv", ".ts"),
    "regress": (".npz", ".npy", ".csv", ".tsv", ".ts"),
}
MOST_POINTS = 4000  # of handwriting that are sent


def describe_input(opened: Opened) -> dict[str, Any]:
    """What the model takes: a text or a file, with an example."""
    task, recipe = opened.task, opened.model.recipe
    signal = getattr(recipe.data, "kind", "text") == "signal"
    endings = ENDINGS.get(task, ()) if signal or task not in ("classify", "regress") else ()
    found: dict[str, Any] = {"task": task, "file": list(endings), "example": _example(opened)}
    if task == "forecast":
        found["series"] = [one.name for one in opened.model.ends.series][:200]
    if task == "handwriting":
        found["draws_from_nothing"] = opened.model.tokenizer is None
    return found


def answer(opened: Opened, text: str = "", file: tuple[str, bytes] | None = None, **options: Any) -> dict[str, Any]:
    """What the model says, as rows to read and figures to look at.

    Args:
        text: the input of models that read texts, or the name of a series.
        file: name and content of an uploaded file.
        options: of `generate` and `write`: length, temperature, seed, bias.

    Raises:
        UserError: an input that the model cannot take.
    """
    if file is not None:
        with _as_file(opened, *file) as place:
            found = _look(opened, place)
        for part in (found, *found["figures"]):
            part["title"] = part["title"].replace(place, file[0])
        return found
    if opened.task == "handwriting":
        return _write(opened, text, options)
    if opened.task == "language" and options.get("generate"):
        return _generate(opened, text, options)
    if not text.strip():
        raise UserError("the input is empty; type some words")
    return _look(opened, text)


def _look(opened: Opened, example: str) -> dict[str, Any]:
    """The job's own picture, and the answer in rows."""
    rows = _rows(opened, example)
    picture: Any = opened.job.attention_figure(opened.model, example)
    figures = picture.page_figures() if hasattr(picture, "page_figures") else picture.figures()
    return {"title": picture.heading, "caption": picture.caption, "rows": rows, "figures": figures_json(figures)}


def _rows(opened: Opened, example: str) -> list[dict[str, Any]]:
    """The answer as (name, value) rows, probabilities from 0 to 1."""
    model = opened.model
    if opened.task == "classify" and getattr(model.recipe.data, "kind", "text") == "text":
        shares = model.predict_proba([example])[0]
        order = np.argsort(-shares)[:8]
        return plain([{"name": model.classes[index], "value": float(shares[index])} for index in order])
    if opened.task == "tag" and isinstance(example, str) and not Path(example).is_file():
        found = model.tag(example)
        return plain(
            [
                {"name": tag, "word": word, "value": float(share)}
                for word, tag, share in zip(found.words, found.tags, found.probabilities, strict=True)
            ]
        )
    return []


def _generate(opened: Opened, prompt: str, options: dict[str, Any]) -> dict[str, Any]:
    """A continuation, and how surprising each token of prompt and continuation is."""
    keys = ("length", "temperature", "top_k", "top_p", "seed", "line")
    given = {key: options[key] for key in keys if options.get(key) is not None}
    text = opened.model.generate(prompt, **given)
    whole = prompt + text
    figures = figures_json(opened.model.surprisal(whole).figures()) if whole.strip() else []
    return {"title": "", "caption": "", "text": text, "rows": [], "figures": figures}


def _write(opened: Opened, text: str, options: dict[str, Any]) -> dict[str, Any]:
    """Handwriting as points (dx, dy, pen up), to be drawn one after the other."""
    given = {key: options[key] for key in ("bias", "seed") if options.get(key) is not None}
    made = opened.model.write(None if opened.model.tokenizer is None else text, **given)
    points = np.asarray(made.points)[:MOST_POINTS]
    places = np.cumsum(points[:, :2], 0)
    strokes = np.concatenate([places, points[:, 2:3]], 1)
    window = [] if made.window is None else np.asarray(made.window)[: len(points)].argmax(1).tolist()
    return {"title": text, "caption": "", "rows": [], "figures": [], "points": plain(strokes), "window": window}


def _example(opened: Opened) -> str:
    found = getattr(opened.job, "example_input", "")
    if opened.task == "forecast":
        return str(opened.model.ends.series[0].name) if opened.model.ends.series else ""
    return str(found)


@contextmanager
def _as_file(opened: Opened, name: str, content: bytes) -> Iterator[str]:
    """An uploaded file under a temporary name with its own ending; errors name it as the user did.

    Raises:
        UserError: the job reads no such files.
    """
    ending, allowed = Path(name).suffix.lower(), ENDINGS.get(opened.task, ())
    if ending not in allowed:
        takes = f"it reads {', '.join(allowed)}" if allowed else "it reads texts"
        raise UserError(f"a model of the task {opened.task!r} cannot read {name!r}; {takes}")
    with tempfile.TemporaryDirectory(prefix="harken-studio-") as folder:
        place = Path(folder) / f"upload{ending}"
        place.write_bytes(content)
        try:
            yield str(place)
        except UserError as problem:
            raise UserError(str(problem).replace(str(place), name)) from None
