"""`harken lab`: claims about sequence models, measured here and now."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.common import AsJson, examples, folder_option, print_json, print_table
from harken.cli.messages import logger
from harken.cli.progress import measuring
from harken.errors import UserError
from harken.files import expand_user
from harken.tasks.interface import MAX_SEED

if TYPE_CHECKING:
    from harken.lab.report import Report


def complete_experiment(incomplete: str) -> list[str]:
    """Names for shell completion."""
    from harken.lab.registry import experiment_names

    return [name for name in ["list", "all", *experiment_names()] if name.startswith(incomplete)]


@examples(
    "harken lab list",
    "harken lab vanishing",
    "harken lab vanishing --set hidden=64 --seeds 10",
    "harken lab gru --stability 10",
    "harken lab all --out runs/lab --html",
)
def lab(
    name: Annotated[
        str, typer.Argument(help="An experiment, `list`, or `all`.", autocompletion=complete_experiment)
    ] = "list",
    out: Annotated[Path, folder_option("Folder for NAME.json and NAME.svg.")] = Path("runs/lab"),
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Another seed, another sample.")] = 1,
    sizes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SIZE=N", help="Another size, such as hidden=64; a wrong name lists all."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each network, for the bands: short for --set seeds=N.")
    ] = None,
    stability: Annotated[
        int, typer.Option(min=1, help="Run the experiment this many times; how often does its verdict hold?")
    ] = 1,
    png: Annotated[bool, typer.Option("--png", help="Also write NAME.png.")] = False,
    html: Annotated[bool, typer.Option("--html", help="Also write NAME.html; of all: lab.html.")] = False,
    data: Annotated[
        list[Path] | None, typer.Option(help="Your own data, for alignment, ratios, distances; repeatable.")
    ] = None,
    sentence: Annotated[str | None, typer.Option(help="Your own sentence, in quotes, for why-attention.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: shows the way, proves nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a claim about sequence models on data made here: a table, a verdict and a picture, in minutes."""
    if name == "list":
        _list(as_json)
        return
    from harken.lab.experiment import Settings
    from harken.lab.registry import experiment_names, find_experiment
    from harken.lab.report import run_experiment

    if data and (name == "all" or not find_experiment(name).takes_files):
        raise UserError(f"--data is for experiments that ask your own data, and {name} does not; leave it out")
    if sentence is not None and (name == "all" or not find_experiment(name).takes_sentence):
        raise UserError(f"--sentence is for why-attention, and {name} reads none; leave it out")
    if sentence is not None and not sentence.strip():
        raise UserError("--sentence is empty; give some words in quotes")
    files = tuple(expand_user(path) for path in data or ())
    names = experiment_names() if name == "all" else [find_experiment(name).name]
    given = _sizes(sizes or [], seeds)
    if name == "all":
        for size in given:
            if not any(size in find_experiment(each).sizes for each in names):
                raise UserError(
                    f"No experiment has a size {size!r}; `harken lab NAME --set {size}=1` lists those of one"
                )
    else:
        find_experiment(name).check(Settings(sizes=given))
    out.mkdir(parents=True, exist_ok=True)  # a place that cannot be used is refused before minutes are spent
    reports: list[Report] = []
    failed: list[str] = []
    try:
        for experiment_name in names:
            experiment = find_experiment(experiment_name)
            with measuring(experiment_name) as progress:
                try:
                    own = {size: value for size, value in given.items() if size in experiment.sizes}
                    settings = Settings(seed, quick, files, sentence or "", own)
                    report = run_experiment(experiment, settings, progress, stability)
                except Exception:
                    if name != "all":
                        raise
                    traceback.print_exc()  # the others still have their say
                    failed.append(experiment_name)
                    continue
            written = report.write(out, png, html)
            reports.append(report)
            if not as_json:
                _show(report)
            logger.info(f"Wrote {', '.join(map(str, written))}")
    except KeyboardInterrupt:
        done = ", ".join(report.experiment.name for report in reports)
        raise KeyboardInterrupt(f"finished before and kept in {out}: {done}" if done else "nothing was kept") from None
    if html and name == "all" and reports:
        from harken.files import atomic_write
        from harken.lab.report import draw_page

        atomic_write(out / "lab.html", draw_page(reports).encode())
        logger.info(f"Wrote {out / 'lab.html'}")
    if as_json:
        values = [report.to_dict() for report in reports]
        print_json(values if name == "all" else values[0])
    elif name == "all":
        _summarise(reports, failed)
    if failed:
        raise typer.Exit(1)


def _sizes(words: list[str], seeds: int | None) -> dict[str, int]:
    given = {} if seeds is None else {"seeds": seeds}
    for word in words:
        name, _, value = word.partition("=")
        if not name.strip() or not value.strip().isdecimal():
            raise UserError(f"--set takes a size and a whole number, such as hidden=64, but {word!r} was given")
        given[name.strip()] = int(value)
    return given


def _list(as_json: bool) -> None:
    from harken.lab.registry import experiment_names, find_experiment

    experiments = [find_experiment(name) for name in experiment_names()]
    if as_json:
        from harken.inspection.figure.values import plain

        keys = ("name", "statement", "shows", "parts", "sizes", "changes")
        listed = [plain({key: getattr(experiment, key) for key in keys}) for experiment in experiments]
        print_json(listed)
        return
    rows = [(experiment.name, experiment.kinds, experiment.shows) for experiment in experiments]
    print_table(("name", "the claim is", "what it shows"), rows)


def _show(report: Report) -> None:
    from harken.inspection.figure.terminal import as_text, draw_lines
    from harken.lab.report import cell_text

    findings = report.findings
    print(f"{report.experiment.statement}\n")
    rows = [[cell_text(cell) for cell in row] for row in findings.rows]
    print_table(findings.columns, rows if sys.stdout.isatty() else [findings.columns, *rows])
    if sys.stdout.isatty():
        print(as_text(lambda width, color: draw_lines([findings.figure], width, color)))
    mark = "  (quick: too small to prove anything)" if report.settings.quick else ""
    print(f"\n{report.verdict}{mark}\n")
    if report.stability:
        print(f"{report.stability}\n")
    for part in report.experiment.parts:
        print(f"{part.kind}: {part.statement}")
    for change in report.experiment.changes:
        print(f"rule changed, {change}")
    print()
    if findings.explanation:
        print(f"{findings.explanation}\n")


def _summarise(reports: list[Report], failed: list[str]) -> None:
    rows = [
        (report.experiment.name, report.findings.answer, f"{report.seconds:.0f} s", report.findings.verdict)
        for report in reports
    ]
    rows += [(name, "failed", "", "see the traceback above") for name in failed]
    print_table(("name", "", "time", "because"), rows)
