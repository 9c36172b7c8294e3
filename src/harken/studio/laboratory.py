"""The claims of `harken.lab` for the page, as a worker of the studio runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harken.lab.registry import experiment_names, find_experiment


def list_claims() -> list[dict[str, Any]]:
    """Name, statement and what it shows, of every claim; with the sliders of those that have some."""
    from harken.studio.explorations import EXPLORATIONS

    claims = []
    for name in experiment_names():
        experiment = find_experiment(name)
        sliders = EXPLORATIONS[name].to_dict() if name in EXPLORATIONS else None
        about: dict[str, Any] = {"name": name, "statement": experiment.statement, "shows": experiment.shows}
        about["parts"] = [[part.kind, part.statement] for part in experiment.parts]
        claims.append({**about, "exploration": sliders})
    return claims


def run_claim(name: str, seed: int, quick: bool, emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The report of an experiment; progress is emitted as {"done": share, "say": text}.

    Raises:
        UserError: there is no such claim, or it cannot run here.
    """
    from harken.lab.experiment import Settings
    from harken.lab.report import run_experiment
    from harken.studio.figures import figures_json, plain

    report = run_experiment(
        find_experiment(name), Settings(seed, quick), lambda done, say: emit({"done": done, "say": say})
    )
    findings = report.findings
    described: dict[str, Any] = plain(
        {
            "name": name,
            "answer": findings.answer,
            "verdict": findings.verdict,
            "explanation": findings.explanation,
            "columns": findings.columns,
            "rows": findings.rows,
            "seconds": report.seconds,
            "quick": quick,
            "seed": seed,
        }
    )
    return described | {"figures": figures_json([findings.figure])}
