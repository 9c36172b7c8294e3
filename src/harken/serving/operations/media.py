"""Jobs that read or write something else than text: sounds, images, series, pen strokes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harken.errors import UserError

SHOWN = 400  # columns of a spectrogram that are told


def forecast(model: Any, items: Sequence[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """Quantiles of the coming steps of a series: its numbers, a table of columns, or None for the model's own."""
    results: list[Any] = []
    for item in items:
        try:
            found = model.forecast_all(item.get("past"), item.get("covariates"), item.get("steps"), at=item["at"])
            results.append({"series": [{**one.to_dict(), "past": one.past.tolist()} for one in found]})
        except UserError as error:
            results.append(error)
    return results


def transcribe(model: Any, items: Sequence[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """What is said in a recording, when each symbol was said; with `posteriors` the probabilities at every step."""
    results: list[Any] = []
    for item in items:
        try:
            with _file_of(item["data"], item.get("name", "sound.wav")) as path:
                found = model.transcribe(str(path), **options.get("search", {}))
        except UserError as error:
            results.append(_without_path(error))
            continue
        row = {**found.to_dict(), "file": item.get("name", "")}
        if options.get("posteriors"):
            row["posteriors"] = {
                "names": found.posteriors.names,
                "step_seconds": found.posteriors.step_seconds,
                "values": np.round(found.posteriors.values, 4).tolist(),
            }
            every = max(1, -(-len(found.energies) // SHOWN))
            row["spectrogram"] = {
                "frame_seconds": found.frame_seconds * every,
                "values": np.round(found.energies[::every], 3).tolist(),
            }
        results.append(row)
    return results


def caption(model: Any, items: Sequence[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """A caption for every image, with a map of attention for each word."""
    results: list[Any] = []
    for item in items:
        try:
            with _file_of(item["data"], item.get("name", "image.png")) as path:
                found = model.caption(str(path), **options.get("search", {}))
        except UserError as error:
            results.append(_without_path(error))
            continue
        maps = None if found.attention is None else found.attention.round(4).tolist()
        entry = {"text": found.text, "score": found.score, "words": found.words, "attention": maps}
        results.append({**entry, "note": found.note})
    return results


def write(model: Any, items: Sequence[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """Pen strokes for every text."""
    results: list[Any] = []
    for item in items:
        try:
            results.append(model.write(item["text"] or None, options.get("bias"), options.get("seed", 1)).to_json())
        except UserError as error:
            results.append(error)
    return results


@contextmanager
def _file_of(data: bytes, name: str) -> Iterator[Path]:
    """The bytes as a file with the ending of the name; readers of sounds and images take files."""
    with tempfile.TemporaryDirectory(prefix="harken-") as folder:
        path = Path(folder) / f"upload{Path(name).suffix[:8]}"
        path.write_bytes(data)
        yield path


def _without_path(error: UserError) -> UserError:
    """Of a temporary file the name alone."""
    words = (Path(word).name if word.startswith(tempfile.gettempdir()) else word for word in str(error).split(" "))
    return UserError(" ".join(words))
