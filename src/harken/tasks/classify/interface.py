"""The interface of classifiers: `harken classify`, `POST /v1/classify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harken.tasks.interface import MAX_COUNT, Examples, Interface, Option, Options
from harken.tasks.operations import ATTENTION, GATES

SIGNAL_FILES = (".npz", ".npy", ".csv", ".tsv", ".ts")


@dataclass(frozen=True)
class ClassifyOptions(Options):
    """Options of `harken classify`."""

    scores: Annotated[bool, Option("add a tab and the probability to each label", in_request=False)] = False
    top: Annotated[int, Option("the N likeliest labels, each with its probability", ge=1, le=MAX_COUNT)] = 1


INTERFACE = Interface(
    verb="classify",
    help="Label texts or signals: one line out for every example in.",
    input=Examples(example="the film was not good", endings=SIGNAL_FILES, example_key="example"),
    options=ClassifyOptions,
    examples=(
        "echo 'the film was not good' | harken classify runs/opinions --scores",
        "harken classify runs/gestures signals.npz --top 3",
    ),
    usage="harken classify {} examples",
    operations=(ATTENTION, GATES),
    is_live=True,
)
