"""All verbs under one `harken`. A verb imports what it needs when it runs, so that `--help` is instant."""

from __future__ import annotations

from typing import Annotated

import typer

from harken.cli.embed import embed
from harken.cli.exits import guarded
from harken.cli.inspection.attention import attention
from harken.cli.inspection.beam import beam
from harken.cli.inspection.inspect import inspect
from harken.cli.inspection.lab import lab
from harken.cli.inspection.ladder import ladder
from harken.cli.inspection.learn import learn
from harken.cli.inspection.table2 import table2
from harken.cli.jobs.score import score
from harken.cli.predict import PASSED_ON, JobGroup, add_command, add_commands, add_job_commands, predict
from harken.cli.serving.serve import serve
from harken.cli.serving.studio import studio
from harken.cli.training.adopt import adopt
from harken.cli.training.average import average
from harken.cli.training.backtranslate import backtranslate
from harken.cli.training.check import check
from harken.cli.training.clean import clean
from harken.cli.training.compare import compare
from harken.cli.training.demo import demo
from harken.cli.training.distill import distill
from harken.cli.training.evaluate import evaluate
from harken.cli.training.export import export
from harken.cli.training.look import look
from harken.cli.training.new import new
from harken.cli.training.plot import plot
from harken.cli.training.recipes import recipes
from harken.cli.training.runs import runs
from harken.cli.training.sweep import sweep
from harken.cli.training.train import train
from harken.cli.warm import warm

app = typer.Typer(
    cls=JobGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with: harken demo\n\nThen: harken recipes, harken train RECIPE --out DIR, harken translate DIR",
)
add_commands(app, demo, look, new, check, recipes, train, adopt, sweep, distill, runs, plot, compare, evaluate)
add_command(app, distill, name="distil", hidden=True)
add_commands(app, average, export, clean, backtranslate)
add_command(app, predict, context_settings=PASSED_ON)
add_job_commands(app)
add_command(app, score)
add_commands(app, attention, beam, inspect, ladder, table2, lab, learn, serve, studio, warm)
app.add_typer(embed, name="embed")


def _print_version(is_given: bool) -> None:
    if is_given:
        import harken

        typer.echo(f"harken {harken.__version__}")
        raise typer.Exit


def _import_plugins(plugins: list[str] | None) -> list[str] | None:
    """Runs as the options of `harken` are parsed, so that the commands of plugins are known to what follows."""
    from harken.registry import import_plugin

    for plugin in plugins or []:
        guarded(import_plugin)(plugin)
    return plugins


@app.callback()
def harken_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
    plugins: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            metavar="MODULE",
            help="Import this module or .py file first; may be given often.",
            callback=_import_plugins,
            is_eager=True,
        ),
    ] = None,
) -> None:
    """Train sequence models, look inside them, and put them to work."""
