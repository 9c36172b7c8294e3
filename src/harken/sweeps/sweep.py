"""`harken.sweep`: plan, train and compare the trials of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harken.errors import UserError
from harken.files import expand_user
from harken.sweeps.local import Settings, run_trials, score_tests
from harken.sweeps.results import Sweep
from harken.sweeps.space import axes_of
from harken.sweeps.trials import make_plan

if TYPE_CHECKING:
    from harken.recipe import Recipe


def sweep(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    out: str | Path = "runs/sweep",
    *,
    grid: Mapping[str, Any] | None = None,
    seeds: int = 3,
    trials: int | None = None,
    halving: bool = False,
    overrides: Sequence[str] = (),
    data: Any = None,
    baseline: str | None = None,
    test: bool = True,
    jobs: int = 1,
    engine: Literal["local", "ray"] = "local",
    plugins: Sequence[str] = (),
    progress: bool = True,
    report: Callable[[str], None] | None = None,
) -> Sweep:
    """Train a recipe with several settings and seeds, and compare them.

    Every trial is an ordinary run folder, `OUT/SETTING/seed-N`. The same call again goes on with a sweep that was
    stopped: finished trials are read, unfinished ones resumed, failed ones tried again; more values and seeds may be
    added to it. All combinations are validated before the first is trained.

        results = harken.sweep("phrasebook-rnn", "runs/cells", grid={"model.cell": ["lstm", "gru"]}, seeds=5)
        print(results)                       # mean ± deviation of each setting, with paired tests
        results.plot().save("cells.svg")
        results.frame().groupby("name").mean(numeric_only=True)

    Args:
        recipe: as `harken.train` takes it, data to infer one from included.
        out: the folder of the sweep.
        grid: key of the recipe -> a list of values, a range as text ("1e-3..1e-2:log", "64..512"), or one value.
        seeds: how many seeds each setting is trained with.
        trials: draw so many settings at random in place of all combinations; 10 where a key has a range.
        halving: successive halving: all settings are trained for a share of the budget, the best third goes on.
        overrides: the same as the command takes with `--set`, "key=value", "key=a,b" or "key=low..high:log".
        data: a table in memory, as `harken.train` takes it.
        baseline: the name of the setting that others are tested against, such as "cell=lstm"; by default the first.
        test: score the best setting and the baseline on the test part.
        jobs: trials at once; each has its share of the cores, or a GPU.
        engine: "ray" trains on the cluster of RAY_ADDRESS by Ray Tune, into a folder that all machines share.
        plugins: modules or .py files of your own parts that the recipe names.
        progress: show the progress of each trial, where one runs at a time.
        report: called with a line for each trial that ends.

    Raises:
        UserError: a recipe, key or value that is wrong, or a folder that holds something else.
    """
    from harken.recipe import Recipe
    from harken.registry import import_plugins

    import_plugins(plugins)
    if jobs < 1:
        raise UserError(f"--jobs is {jobs}; give at least 1")
    folder = expand_user(out)
    if isinstance(recipe, Recipe):
        recipe = recipe.model_dump(mode="json", exclude_unset=True)
    axes = [*overrides, *axes_of(grid or {})]
    if data is None and isinstance(recipe, str | Path):
        recipe = inferred_recipe(recipe, folder)
    plan = make_plan(recipe, folder, axes, seeds=seeds, trials=trials, with_data=data is None)
    results = Sweep(plan, baseline)
    settings = Settings(halving, jobs, data, progress, report or (lambda line: None))
    for note in results.notes:
        settings.report(note)
    if engine == "ray":
        from harken.sweeps.ray_tune import run_on_cluster

        run_on_cluster(results, settings)
    else:
        run_trials(results, settings)
    if test:
        score_tests(results, list(dict.fromkeys([results.best, results.baseline])), settings)
    results.save()
    return results


def inferred_recipe(recipe: str | Path, folder: Path) -> str | Path:
    """The recipe, or where it names data, the file of a recipe inferred from it, beside the folder."""
    from harken.recipe.infer import is_data, recipe_file

    if not is_data(str(recipe)):
        return recipe
    return recipe_file(recipe, folder.parent / f"{folder.name}.toml", [], keep=True)[0]
