"""The trials of a sweep on a Ray cluster: Ray Tune decides where and when each runs, and which are stopped early.

The trials train into the same folders as on one machine, which all machines of the cluster share; results are read
from there. Early stopping of settings is Ray's asynchronous successive halving (ASHA; Li et al., 2020).
"""

from __future__ import annotations

import shutil
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.machine import available_cores
from harken.registry import import_plugins, plugin_places
from harken.serving.ray.cluster import cluster
from harken.sweeps.local import Settings, train_trial
from harken.sweeps.results import Sweep
from harken.sweeps.trials import ETA, Plan, Trial, rungs, write_record

STATE = ".ray"  # folder of Ray's own files, inside that of the sweep


def run_on_cluster(sweep: Sweep, settings: Settings) -> None:
    """Train what is not trained yet on the cluster of RAY_ADDRESS, or on one that is started on this machine.

    Raises:
        UserError: ray is not installed, or the cluster cannot be reached.
    """
    plan = sweep.plan
    missing = [trial for trial in plan.trials if not (trial.is_complete(1.0) or (settings.halving and trial.share))]
    if not missing:
        return
    with cluster("tune") as ray, redirect_stdout(sys.stderr):  # what Ray prints is no result
        write_record(plan)
        tune, state = ray.tune, plan.folder.absolute() / STATE
        resources = {"cpu": 1, "gpu": 1} if ray.cluster_resources().get("GPU") else {"cpu": 1}
        shared = replace(plan, folder=plan.folder.absolute(), recipe=absolute(plan.recipe))
        items = [replace(trial, folder=trial.folder.absolute()) for trial in missing]
        work = partial(train_on_node, shared, replace(settings, report=print), plugin_places(), items)
        results = tune.Tuner(
            tune.with_resources(work, resources),
            param_space={"item": tune.grid_search(list(range(len(missing))))},
            tune_config=tune.TuneConfig(
                max_concurrent_trials=settings.jobs if settings.jobs > 1 else None,
                **({"scheduler": scheduler(len(plan.settings))} if settings.halving else {}),
            ),
            run_config=tune.RunConfig(name="tune", storage_path=str(state), verbose=0),
        ).fit()
        for result in results:
            record(sweep, settings, missing[result.config["item"]], result)
        write_record(plan)
        shutil.rmtree(state, ignore_errors=True)


def absolute(recipe: Any) -> Any:
    """The file of a recipe with an absolute path, as trials run in other folders; a name that ships as it is."""
    is_file = isinstance(recipe, str | Path) and Path(recipe).is_file()
    return str(Path(recipe).absolute()) if is_file else recipe


def scheduler(count: int) -> Any:
    """ASHA over the share of the budget in per cent, with the rungs of halving on one machine."""
    from ray.tune.schedulers import ASHAScheduler

    first = 100 * rungs(count, halving=True)[0][0]
    return ASHAScheduler(
        "percent", "score", "max", max_t=101, grace_period=max(1, round(first)), reduction_factor=ETA
    )  # a trial ends itself at 100 per cent


def train_on_node(
    plan: Plan, settings: Settings, plugins: list[str], trials: list[Trial], config: dict[str, Any]
) -> None:
    """Train a trial inside a task of Ray Tune, and report its validations."""
    from ray import tune

    import_plugins(plugins)

    def report(entry: dict[str, Any]) -> None:
        if entry["kind"] == "valid":
            score = entry[entry["monitor"]] * (1 if entry["mode"] == "max" else -1)
            tune.report({"score": score, "percent": 100 * entry["spent"]})

    try:
        alone = replace(settings, jobs=available_cores(), progress=False)  # one core of the machine
        train_trial(plan, alone, 1.0, trials[config["item"]], 0, [report])
    except UserError as problem:
        tune.report({"problem": str(problem), "score": float("-inf"), "percent": 0.0})


def record(sweep: Sweep, settings: Settings, trial: Trial, result: Any) -> None:
    """Note the outcome of a trial."""
    trial.refresh()
    problem = (result.metrics or {}).get("problem", "")
    if result.error is not None and not problem:
        problem = f"internal error: {str(result.error).strip().splitlines()[-1]}"
    trial.error = problem
    if not problem:
        spent = max((float(entry.get("spent", 0.0)) for entry in trial.run.validations), default=0.0)
        trial.share = 1.0 if trial.run.state == "finished" else spent
    outcome = problem or f"{sweep.metric} {sweep.score(trial):.4g} in {trial.run.seconds:,.0f} s"
    settings.report(f"{trial.name}, seed {trial.seed}: {outcome}")
