"""The experiments of the lab, in the order of a course on sequence models.

>>> find_experiment("vanishing").name
'vanishing'
>>> find_experiment("vanihsing")
Traceback (most recent call last):
harken.errors.UserError: There is no experiment 'vanihsing'; did you mean 'vanishing'? `harken lab list` names them all.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from harken.errors import UserError
from harken.lab.experiment import Experiment

CLAIMS = (
    "vanishing",
    "clipping",
    "long-memory",
    "cell-memory",
    "gru",
    "bottleneck",
    "why-attention",
    "alignment",
    "path-length",
    "quadratic",
    "order",
    "saturation",
    "averaging",
    "both-ways",
    "ratios",
    "distances",
    "context",
    "deep-stacks",
    # one claim a line: the module of the same name in `harken.lab.claims`
)


def experiment_names() -> list[str]:
    """Every name `harken lab` takes, in the order of the claims."""
    return list(CLAIMS)


def find_experiment(word: str) -> Experiment:
    """The experiment of this name.

    Raises:
        UserError: there is none; the nearest name is offered.
    """
    name = word.strip().lower().replace("_", "-")
    if name not in CLAIMS:
        near = get_close_matches(name, CLAIMS, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise UserError(f"There is no experiment {word!r}{hint} `harken lab list` names them all.")
    experiment: Experiment = import_module(f"harken.lab.claims.{name.replace('-', '_')}").EXPERIMENT
    return experiment
