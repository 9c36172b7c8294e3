"""Draw every picture of the documentation again: `make docs-images`, or `python docs/make_images.py [NAME ...]`.

A picture of a model needs that model: one in `runs/` is used, a small one is trained where that takes about a minute,
and a picture whose model takes longer, or whose data set is missing, is skipped with the reason. Nothing is fetched.
Figures of `harken lab` are drawn from their description in docs/images/lab/NAME.json, or from runs/lab/NAME.json where
the experiment was run again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.inspection import Picture

ROOT = Path(__file__).resolve().parent.parent
IMAGES, RUNS = ROOT / "docs" / "images", ROOT / "runs"
QUICK = ["train.max_steps=2", "train.validate_every=2"]


class SkipError(Exception):
    """Why a picture cannot be drawn here."""


@dataclass(frozen=True)
class Image:
    """One file of docs/images."""

    file: str
    draw: Callable[[Any], Picture]  # from the model, or from nothing
    run: str = ""  # folder under runs/
    recipe: str = ""
    overrides: tuple[str, ...] = ()  # keep the training to about a minute of two cores
    minutes: int = 0  # a model that takes this long is not trained here


def data(name: str) -> Path:
    """A data set beside the project: HARKEN_SHARED, or shared/data in a folder above."""
    named = os.environ.get("HARKEN_SHARED")
    for folder in [Path(named)] if named else [parent / "shared" / "data" for parent in ROOT.parents]:
        if (folder / name).exists():
            return folder / name
    raise SkipError(f"the data set {name} is not here (HARKEN_SHARED, or shared/data in a folder above)")


def look(example: str) -> Callable[[Any], Picture]:
    """What `harken attention` draws."""

    def draw(model: Any) -> Picture:
        from harken.tasks.registry import job_of

        return job_of(model.recipe.task).attention_figure(model, example)

    return draw


def gradients(_: None) -> Picture:
    """The example of docs/inspection.md."""
    import torch

    import harken.nn
    from harken.inspection import FlowPicture, gradient_flow

    torch.manual_seed(0)
    values = torch.randn(8, 60, 16)  # (B, T, I)
    options: dict[str, Any] = {"batch_first": True, "orthogonal": True}
    return FlowPicture(
        {
            "RNN": gradient_flow(harken.nn.RNN(16, 64, **options), values, sampled=0),
            "GRU": gradient_flow(harken.nn.GRU(16, 64, **options), values, sampled=0),
            "LSTM, forget bias 3": gradient_flow(harken.nn.LSTM(16, 64, forget_bias=3.0, **options), values, sampled=0),
        }
    )


def gates(model: Any) -> Picture:
    """The encoder of an attention seq2seq model, in both directions, on a sentence with a relative clause."""
    from harken.inspection import GatePicture, GateTrace, gates

    trace = gates(model, "the cat that sees a dog with a tail sleeps .")
    return GatePicture(GateTrace(list(trace)[:2], trace.title))


def forecast(model: Any) -> Picture:
    """The held-out year, with what came."""
    return model.forecast(steps=12, at="test").picture()


def handwriting(model: Any) -> Picture:
    """One text, four hands."""
    from harken.inspection.pictures.drawings import InkPicture

    drawings = [model.write("the quick fox", seed=seed) for seed in range(2, 6)]
    return InkPicture([one.strokes() for one in drawings], [one.text or "" for one in drawings])


def tone(model: Any) -> Picture:
    """Generated speech that says four words."""
    return look(str(RUNS / "tones" / "summer.wav"))(model)


TAGS = "I know that that phone rings when people phone"
IMAGES_MADE = [
    Image("gradients.png", gradients),
    Image(
        "alignment.png",
        lambda model: model.translate("Where did you buy that beautiful red dress?", attention=True).map(),
        "demo", "tatoeba-transformer", minutes=3,
    ),
    Image("gates.png", gates, "brackets", "brackets-seq2seq", minutes=8),
    Image("forecast-airline.svg", forecast, "airline", "series-forecast"),
    Image(
        "surprisal.svg", lambda model: model.surprisal("the black cat does not sees the small river"), "language",
        "phrasebook-language",
    ),
    Image("tag-chances.svg", look(TAGS), "tags", "ewt-tag", minutes=20),
    Image("jobs/transcribe.svg", tone, "tones", "tones-transcribe", minutes=2),
    Image(
        "jobs/answer-hops.svg",
        look("Mary took the milk. Mary went to the hall. Bill went to the garden. Where is the milk?"),
        "answer", "stories-answer",
    ),
    Image(
        "jobs/brackets-attention.svg",
        lambda model: model.translate("the cat that sees a dog sleeps .", attention=True).map(),
        "brackets", "brackets-seq2seq", minutes=8,
    ),
    Image("classify-attention.svg", look("the film was not good at all"), "opinions", "opinions-classify", minutes=2),
    Image("classify-signal.svg", lambda model: look(str(RUNS / "gestures" / "one.csv"))(model), "gestures", minutes=2),
    Image("caption.svg", lambda model: look(str(RUNS / "scenes" / "scene.png"))(model), "scenes", minutes=7),
    Image("handwriting.svg", handwriting, "pen", "penfont-handwriting", minutes=7),
    Image("handwriting-window.svg", lambda model: model.write("quick 42").window_picture(), "pen", minutes=7),
    Image("handwriting-omniglot.svg", handwriting, "omniglot", minutes=8),
]  # fmt: skip


def model_of(image: Image, quick: bool) -> Any:
    """The model in runs/, or one that is trained now."""
    import harken

    folder = RUNS / image.run
    if (folder / "model.safetensors").is_file():
        return harken.load(folder)
    if image.minutes:
        raise SkipError(f"its model takes {image.minutes} minutes to train; put it into runs/{image.run} first")
    overrides = [*image.overrides, *(QUICK if quick else [])]
    if image.run == "airline":
        overrides.append(f"data.train={data('time-series/airline-passengers.csv')}")
    folder = RUNS / "images-quick" / image.run if quick else folder
    return harken.train(image.recipe, folder, overrides=overrides, progress=False, resume=True)


def lab_names() -> list[str]:
    """Experiments that have a picture."""
    return sorted(path.stem for path in (IMAGES / "lab").glob("*.svg"))


def draw_lab(name: str) -> None:
    """Draw the figure of an experiment from its description."""
    from harken.files import atomic_write
    from harken.inspection.figure.paper import draw_svg
    from harken.inspection.figure.spec import figure_from_dict

    result, kept = RUNS / "lab" / f"{name}.json", IMAGES / "lab" / f"{name}.json"
    if result.is_file():
        figure = json.loads(result.read_text(encoding="utf-8"))["figure"]
        atomic_write(kept, (json.dumps(figure, ensure_ascii=False) + "\n").encode())
    if not kept.is_file():
        raise SkipError(f"there is no description of it; run: harken lab {name} --seed 1 --out runs/lab")
    figure = figure_from_dict(json.loads(kept.read_text(encoding="utf-8")))
    atomic_write(IMAGES / "lab" / f"{name}.svg", draw_svg([figure]).encode())


def main() -> None:
    """Draw what was asked for, and say what was skipped and why."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="files of docs/images, or parts of their names; default: all")
    parser.add_argument("--quick", action="store_true", help="train for two updates and write into runs/images-quick")
    asked = parser.parse_args()
    wanted = [one for one in IMAGES_MADE if not asked.names or any(name in one.file for name in asked.names)]
    for image in wanted:
        began = time.monotonic()
        try:
            model = model_of(image, asked.quick) if image.run else None
            path = (RUNS / "images-quick" if asked.quick else IMAGES) / image.file
            image.draw(model).save(path)
            print(f"{image.file}: {time.monotonic() - began:.0f} s", flush=True)
        except (SkipError, UserError) as reason:
            print(f"{image.file}: skipped, {reason}", flush=True)
    for name in lab_names():
        if not asked.names or any(part in f"lab/{name}.svg" for part in asked.names):
            try:
                draw_lab(name)
                print(f"lab/{name}.svg", flush=True)
            except SkipError as reason:
                print(f"lab/{name}.svg: skipped, {reason}", flush=True)


if __name__ == "__main__":
    main()
