"""Which experiments there are, read from the names of the files: `c01_vanishing.py` measures C1 as `vanishing`.

A new claim is a new file; nothing has to be told about it.

>>> find_experiment("vanishing").claim, find_experiment("c1").claim
('C1', 'C1')
>>> find_experiment("vanihsing")
Traceback (most recent call last):
harken.errors.UserError: There is no experiment 'vanihsing'; did you mean 'vanishing'? `harken lab list` names them all.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path

from harken.errors import UserError
from harken.lab.experiment import Experiment

FILE = re.compile(r"c(\d+)_(\w+)")


@cache
def experiment_files() -> dict[str, tuple[str, str]]:
    """Name -> (claim, module), in the order of the claims; no experiment is imported."""
    found = (FILE.fullmatch(path.stem) for path in sorted(Path(__file__).parent.glob("c*.py")))
    return {part[2].replace("_", "-"): (f"C{int(part[1])}", f"harken.lab.{part[0]}") for part in found if part}


def experiment_names() -> list[str]:
    """Every name `harken lab` takes, in the order of the claims."""
    return list(experiment_files())


def find_experiment(word: str) -> Experiment:
    """The experiment of this name or claim (`C1`, `c1`, `c01`).

    Raises:
        UserError: there is none; the nearest name is offered.
    """
    files = experiment_files()
    wanted = word.strip().lower().replace("_", "-")
    number = re.fullmatch(r"c0*(\d+)", wanted)
    by_claim = {claim: name for name, (claim, _) in files.items()}
    name = by_claim.get(f"C{number[1]}", wanted) if number else wanted
    if name not in files:
        near = get_close_matches(name, files, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise UserError(f"There is no experiment {word!r}{hint} `harken lab list` names them all.")
    experiment: Experiment = import_module(files[name][1]).EXPERIMENT
    return experiment
