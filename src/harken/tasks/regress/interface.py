"""The interface of regressors: `harken regress`, `POST /v1/regress`."""

from __future__ import annotations

from harken.tasks.classify.interface import SIGNAL_FILES
from harken.tasks.interface import Examples, Interface
from harken.tasks.operations import ATTENTION, GATES

INTERFACE = Interface(
    verb="regress",
    help="Predict a number for texts or signals: one line out for every example in.",
    input=Examples(example="three rooms and a garden", endings=SIGNAL_FILES, example_key="example"),
    examples=(
        "echo 'three rooms and a garden' | harken regress runs/prices",
        "harken regress runs/prices homes.txt --json",
        "harken regress runs/load signals.npz",
    ),
    usage="harken regress {} examples",
    operations=(ATTENTION, GATES),
    is_live=True,
)
