"""`harken sweep`: one recipe with several settings and seeds, and one table."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Literal

import typer

from harken.cli.common import AsJson, examples, folder_option, print_json, print_table, require_ending, save_figure
from harken.cli.messages import logger
from harken.cli.training.new import RecipeOrData
from harken.errors import Interrupted


@examples(
    "harken sweep phrasebook-rnn --set model.cell=lstm,gru --seeds 5 --out runs/cells",
    "harken sweep my.toml --set train.learning_rate=1e-3..1e-2:log --set model.width=64,128 --trials 12 --halving",
    "harken sweep my.toml --seeds 5 --set train.max_minutes=3 --jobs 2 --out runs/seeds",
)
def sweep(
    recipe: RecipeOrData,
    out: Annotated[
        Path, folder_option("Folder for the trials, each a run folder, and for sweep.json and sweep.csv.")
    ] = Path("runs/sweep"),
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="A.B=C",
            help="A key of the recipe with one value, several (a,b,c) or a range (1e-3..1e-2:log); may be repeated.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds that every setting is trained with.")] = 3,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Draw this many settings at random, not all combinations. Default with a range: 10."),
    ] = None,
    halving: Annotated[
        bool, typer.Option("--halving", help="Train all settings for a share of the budget; the best third goes on.")
    ] = False,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Setting to test against, such as cell=lstm. Default: the first.")
    ] = None,
    test: Annotated[
        bool, typer.Option("--test/--no-test", help="Score the best setting and the baseline on the test part.")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, max=1024, help="Trials at once, each with its share of the cores.")] = 1,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where to train: on this machine, or on the Ray cluster of RAY_ADDRESS by Ray Tune."),
    ] = "local",
    plot: Annotated[Path | None, typer.Option(help="Also write the curves: .html, .svg or .png.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe with several settings and seeds: mean and deviation of each, and paired tests.

    The best setting is chosen by its mean validation score. Ctrl-C saves and stops; the same command goes on.
    """
    require_ending(plot)
    from harken.sweeps.sweep import sweep as run

    try:
        results = run(
            recipe,
            out,
            overrides=overrides or [],
            seeds=seeds,
            trials=trials,
            halving=halving,
            baseline=baseline,
            test=test,
            jobs=jobs,
            engine=engine,
            progress=not quiet,
            report=(lambda line: None) if quiet else logger.info,
        )
    except KeyboardInterrupt as stop:
        raise Interrupted(
            getattr(stop, "number", signal.SIGINT), "give the same command again to go on from here"
        ) from None
    if plot is not None:
        save_figure(results.plot(), plot)
    if as_json:
        print_json(results.to_dict())
        return
    headings, rows = results.rows()
    print_table(headings, rows, always_named=True)
    for test_of_seed in results.bootstrap():
        low, high = test_of_seed["interval"]
        logger.info(
            f"test examples, seed {test_of_seed['seed']}: {test_of_seed['run']} has {test_of_seed['difference']:+.2f} "
            f"{test_of_seed['metric']} beside {test_of_seed['against']} (95% interval {low:+.2f} to {high:+.2f}, "
            f"p = {test_of_seed['p']:.4f}, paired bootstrap)"
        )
    for note in results.notes:
        logger.info(f"note: {note}")
    for trial in results.trials:
        if trial.error:
            logger.info(f"failed: {trial.name}, seed {trial.seed}: {trial.error}")
    logger.info(f"Chosen by validation: {results.best}. The trials are in {out}, the numbers in {out / 'sweep.csv'}")
