"""Draw every picture of the documentation again: `make docs-images`, or `python docs/make_images.py [NAME ...]`.

A picture of a model needs that model: one in `runs/` is used, otherwise it is trained, which takes about an hour for
all of them on two idle cores. Figures of `harken lab` are drawn from runs/lab/NAME.json; an experiment without a result
is run first; those of `harken table2` and benchmarks/growth.py are drawn from records. A picture whose data set or
browser is missing is skipped with the reason. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
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
    data: str = ""  # KEY=FILE below the data sets beside the project


def data(name: str) -> Path:
    """A data set beside the project: HARKEN_SHARED, or shared/data in a folder above."""
    named = os.environ.get("HARKEN_SHARED")
    for folder in [Path(named)] if named else [parent / "shared" / "data" for parent in ROOT.parents]:
        if (folder / name).exists():
            return folder / name
    raise SkipError(f"the data set {name} is not here (HARKEN_SHARED, or shared/data in a folder above)")


def look(example: str) -> Callable[[Any], Picture]:
    """What `harken attention` draws; a file is named without its folder, as in a command that runs there."""

    def draw(model: Any) -> Picture:
        from harken.tasks.registry import job_of

        with contextlib.chdir(model.folder):
            return job_of(model.recipe.task).attention_figure(model, example)

    return draw


def gradients(_: None) -> Picture:
    """The example of docs/how-to/inspect.md."""
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


def handwriting(model: Any, text: str | None = "the quick fox") -> Picture:
    """One text, four hands; or four drawings of a model that reads no text."""
    from harken.inspection.pictures.drawings import InkPicture

    drawings = [model.write(text, seed=seed) for seed in range(2, 6)]
    return InkPicture([one.strokes() for one in drawings], [one.text or "" for one in drawings])


def tone(model: Any) -> Picture:
    """Generated speech of four words, which the model has not heard."""
    import wave

    import numpy as np

    from harken.data.synthetic.tone_speech import RATE, ToneSpeech

    speech = ToneSpeech(size=100, seed=5)
    index = next(index for index in range(100) if speech.text(0, index).count(" ") == 3)
    with wave.open(str(model.folder / "words.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(speech.samples(0, index), -1, 1) * 32767).astype("<i2").tobytes())
    return look("words.wav")(model)


def gesture(model: Any) -> Picture:
    """A generated gesture, which the model has not seen."""
    import numpy as np

    from harken.data.synthetic.gestures import gesture

    np.save(model.folder / "gesture.npy", gesture("hook", np.random.default_rng(5)))
    return look("gesture.npy")(model)


def scene(model: Any) -> Picture:
    """A generated scene of the test part."""
    from PIL import Image as Pixels

    from harken.data.synthetic.scenes.splits import load_scenes

    scenes = load_scenes(train=1, valid=1, test=20).tests["test"]
    Pixels.fromarray(next(one.image for one in scenes if len(one.regions) == 2)).save(model.folder / "scene.png")
    return look("scene.png")(model)


TAGS = "she says that we phone the man that lost his phone"
IMAGES_MADE = [
    Image("gradients.png", gradients),
    Image(
        "alignment.png",
        lambda model: model.translate("Where did you buy that beautiful red dress?", attention=True).map(),
        "demo", "tatoeba-transformer",
    ),
    Image(
        "forecast-airline.svg", forecast, "airline", "series-forecast", "train=time-series/airline-passengers.csv"
    ),
    Image(
        "surprisal.svg", lambda model: model.surprisal("the black cat does not sees the small river"), "language",
        "phrasebook-language",
    ),
    Image("tag-chances.svg", look(TAGS), "tags", "phrasebook-tag"),
    Image("jobs/transcribe.svg", tone, "tones", "tones-transcribe"),
    Image(
        "jobs/answer-hops.svg",
        look("Anna took the key. Anna went to the hall. Ben went to the attic. Where is the key?"),
        "answer", "stories-answer",
    ),
    Image("classify-attention.svg", look("the film was not good at all"), "opinions", "opinions-classify"),
    Image("classify-signal.svg", gesture, "gestures", "gestures-classify"),
    Image("gates.png", gates, "brackets", "brackets-seq2seq"),
    Image(
        "jobs/brackets-attention.svg",
        lambda model: model.translate("the cat that sees a dog sleeps .", attention=True).map(),
        "brackets", "brackets-seq2seq",
    ),
    Image("../learn/caption.png", scene, "scenes", "scenes-caption"),
    Image("handwriting.svg", handwriting, "pen", "penfont-handwriting"),
    Image(
        "handwriting-window.svg", lambda model: model.write("quick 42").window_picture(), "pen", "penfont-handwriting"
    ),
    Image(
        "handwriting-omniglot.svg", lambda model: handwriting(model, None), "omniglot", "omniglot-handwriting",
        "file=online-strokes/omniglot.strokes.npz",
    ),
]  # fmt: skip
TRANSLATORS = {"attention": "phrasebook-attention", "rnn": "phrasebook-rnn"}  # of the studio, besides the demo


def trained(run: str, recipe: str, dataset: str = "", quick: bool = False) -> Any:
    """The model in runs/, or one that is trained now."""
    import harken

    folder = RUNS / "images-quick" / run if quick else RUNS / run
    overrides = QUICK if quick else []
    if dataset:
        key, _, name = dataset.partition("=")
        overrides = [*overrides, f"data.{key}={data(name)}"]
    return harken.train(recipe, folder, overrides=overrides, progress=False, resume=True)


def lab_names() -> list[str]:
    """Experiments that have a picture."""
    return sorted(path.stem for path in (IMAGES / "lab").glob("*.svg"))


def draw_lab(name: str) -> None:
    """Draw the figure of an experiment, and run it first where there is no result."""
    result = RUNS / "lab" / f"{name}.json"
    if not result.is_file():
        command = [sys.executable, "-m", "harken", "lab", name, "--seed", "1", "--out", str(result.parent)]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            raise SkipError(f"harken lab {name} failed")
    from harken.files import atomic_write
    from harken.inspection.figure.paper import draw_svg
    from harken.inspection.figure.spec import figure_from_dict

    figure = figure_from_dict(json.loads(result.read_text(encoding="utf-8"))["figure"])
    atomic_write(IMAGES / "lab" / f"{name}.svg", draw_svg([figure]).encode())


def draw_table2() -> None:
    """The plots of `harken table2`, from the record and the translations of the newest runs."""
    record = max((ROOT / "benchmarks" / "records").glob("*-h200-table2.jsonl"))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(record, Path(folder, "record.jsonl"))
        shutil.unpack_archive(record.with_name(f"{record.stem}-outputs.tar.xz"), folder, filter="data")
        budgets = sorted({json.loads(line)["budget"] for line in record.read_text(encoding="utf-8").splitlines()})
        command = [sys.executable, "-m", "harken", "table2", "--out", folder, "--render"]
        command += ["--budgets", ",".join(f"{budget:g}" for budget in budgets)]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            raise SkipError("harken table2 --render failed")
        for name in ("flops", "seconds"):
            shutil.copy(Path(folder, f"bleu-{name}.svg"), IMAGES / f"table2-{name}.svg")


def draw_growth() -> None:
    """The figures of benchmarks/growth.py, from its newest record."""
    record = max((ROOT / "benchmarks" / "records").glob("*-growth.json"))
    command = [sys.executable, str(ROOT / "benchmarks" / "growth.py"), "--draw", str(record), "--out", str(IMAGES)]
    subprocess.run(command, check=True)


def photograph_studio() -> None:
    """The pictures of the studio, by docs/make_screenshots.py."""
    for run, recipe in {"demo": "tatoeba-transformer", **TRANSLATORS}.items():
        trained(run, recipe)
    if subprocess.run([sys.executable, str(ROOT / "docs" / "make_screenshots.py"), str(RUNS)]).returncode:
        raise SkipError("docs/make_screenshots.py failed; it needs playwright and Debian's chromium")


def main() -> None:
    """Draw what was asked for, and say what was skipped and why."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="files of docs/images, or parts of their names; default: all")
    parser.add_argument("--quick", action="store_true", help="train for two updates and write into runs/images-quick")
    asked = parser.parse_args()

    def is_asked(file: str) -> bool:
        return not asked.names or any(name in file for name in asked.names)

    def attempt(file: str, draw: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            draw()
            print(f"{file}: {time.monotonic() - began:.0f} s", flush=True)
        except (SkipError, UserError) as reason:
            print(f"{file}: skipped, {reason}", flush=True)

    def draw_image(image: Image) -> None:
        model = trained(image.run, image.recipe, image.data, asked.quick) if image.run else None
        image.draw(model).save((RUNS / "images-quick" if asked.quick else IMAGES) / image.file)

    for image in IMAGES_MADE:
        if is_asked(image.file):
            attempt(image.file, lambda image=image: draw_image(image))  # type: ignore[misc]
    if asked.quick:
        return
    for name in lab_names():
        if is_asked(f"lab/{name}.svg"):
            attempt(f"lab/{name}.svg", lambda name=name: draw_lab(name))  # type: ignore[misc]
    if is_asked("table2-"):
        attempt("table2-*.svg", draw_table2)
    if is_asked("growth-"):
        attempt("growth-*.svg", draw_growth)
    if is_asked("studio/"):
        attempt("studio/", photograph_studio)


if __name__ == "__main__":
    main()
