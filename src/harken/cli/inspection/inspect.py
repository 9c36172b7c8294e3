"""`harken inspect`: a model's parts, its gates over an input, the gradients of its layers by distance to the loss."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harken.cli.common import (
    AsJson,
    ModelFolder,
    accepted_options,
    examples,
    is_file,
    load_with_job,
    open_lines,
    print_json,
    print_table,
    require_ending,
    show_figure,
)
from harken.cli.messages import logger
from harken.cli.progress import measuring
from harken.errors import UserError
from harken.tasks.interface import MAX_COUNT

if TYPE_CHECKING:
    from harken.tasks.job import Job

MOST_CHARACTERS = 1000  # of a line that gates are drawn for


@examples(
    "harken inspect runs/rnn      (parts, and the largest singular value of the recurrent weights)",
    "harken inspect runs/rnn --gates 'the black cat sleeps' --out gates.html",
    "harken inspect runs/rnn --gradients --compare runs/attention --out gradients.svg",
)
def inspect(
    model: ModelFolder,
    gates: Annotated[
        str | None,
        typer.Option(
            metavar="INPUT", help="Show every gate while the model reads this: a text, or the path of a file."
        ),
    ] = None,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="Show the gradient at every step against its distance to the loss.")
    ] = False,
    layer: Annotated[
        int | None, typer.Option(min=1, max=1000, help="With --gates: this layer alone, counted from 1.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="With --gradients: a file of examples; of a translator sentences, one a line.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    split: Annotated[str | None, typer.Option(help="Instead of files: a split of the model's corpus (valid).")] = None,
    sentences: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, help="With --gradients: how many examples to read.")
    ] = 64,
    compare: Annotated[
        list[Path] | None, typer.Option(help="With --gradients: another model folder; may be given many times.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the picture: .html, .svg or .png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look inside a model: its parts, the gates of its recurrent layers, or the gradients of its layers by distance."""
    _check(gates, gradients, layer, (source, target, split), compare, out)
    loaded, job = load_with_job(model)
    if gates is not None:
        _require_recurrence(model, loaded, job, gates)
        _show_gates(loaded, _input_of(loaded, job, gates), layer, out, as_json)
    elif gradients:
        accepted_options(job, model, {"target": target})
        files = [file for file in (source, target) if file is not None]
        examples = job.examples(loaded, split or "valid", files)
        models = {str(model): loaded}
        for folder in compare or []:
            models[str(folder)], _ = load_with_job(folder)
        _show_gradients(_short_names(models), examples[:sentences], out, as_json)
    else:
        _show_summary(model, loaded, job, as_json)


def _check(
    gates: str | None,
    gradients: bool,
    layer: int | None,
    texts: tuple[Path | None, Path | None, str | None],
    compare: list[Path] | None,
    out: Path | None,
) -> None:
    """Refuse incompatible options before anything is loaded."""
    source, target, split = texts
    if gates is not None and gradients:
        raise UserError("--gates and --gradients are two pictures; ask for one at a time")
    if gates is not None and not gates.strip():
        raise UserError("what comes after --gates is empty; give some words in quotes, or a file")
    if target is not None and source is None:
        raise UserError("--target is only used together with --source; give both, or neither for the model's corpus")
    if source is not None and split is not None:
        raise UserError("--split and --source were both given; keep one of them")
    if (source or split or compare) and not gradients:
        raise UserError("--source, --target, --split and --compare are for --gradients; add it, or leave them out")
    if layer is not None and gates is None:
        raise UserError("--layer is for --gates; add an input, as in --gates 'the black cat sleeps'")
    if out is not None and gates is None and not gradients:
        raise UserError("--out writes a picture; say which with --gates INPUT or --gradients")
    require_ending(out)


def _require_recurrence(folder: Path, model: Any, job: Job, example: str) -> None:
    from harken.inspection.measures.tracing import is_traceable

    if not any(is_traceable(module) for module in model.model.modules()):
        raise UserError(
            f"{folder} has no recurrent layers, so it has no gates; to look inside it, use: "
            f"{_attention_command(folder, job, example)}"
        )


def _attention_command(folder: Path, job: Job, example: str | None = None) -> str:
    """The command that shows the attention of a model without recurrent layers."""
    layers = " --layers" if "layers" in job.options else ""
    return f"harken attention {folder} {example or job.example_input!r}{layers}"


def _input_of(model: Any, job: Job, given: str) -> str:
    """The input of the model for --gates: for a model of texts the first line of a file, where a file is named.

    Raises:
        UserError: the file cannot be read, or holds no text.
    """
    form = job.interface and job.interface.input
    if (form and form.opens_files) or not job.reads_texts(model) or not is_file(given):
        return given
    lines = [line for line in islice(open_lines(Path(given)), MAX_COUNT) if line.strip()]
    if not lines:
        raise UserError(f"{given} holds no text; give a file with some words, or a text in quotes")
    if form and form.is_many_lines:
        return " ".join(lines)
    if len(lines) > 1:
        logger.info(f"Reading the first of {len(lines):,} lines of {given}")
    if len(lines[0]) <= MOST_CHARACTERS:
        return lines[0]
    logger.info(
        f"Reading the first {MOST_CHARACTERS:,} of its {len(lines[0]):,} characters: a picture of more is unreadable"
    )
    return lines[0][:MOST_CHARACTERS].rpartition(" ")[0] or lines[0][:MOST_CHARACTERS]


def _show_gates(model: Any, sentence: str, layer: int | None, out: Path | None, as_json: bool) -> None:
    from harken.inspection import gates

    trace = gates(model, sentence)
    if layer is not None and layer > len(trace):
        names = ", ".join(f"{number} {layer_trace.name}" for number, layer_trace in enumerate(trace, 1))
        raise UserError(f"--layer {layer} is not there; choose one of: {names}")
    chosen = None if layer is None else layer - 1
    shown = trace.to_dict() if chosen is None else {"title": trace.title, "layers": [trace[chosen].to_dict()]}
    show_figure(trace.picture(chosen), shown if as_json else None, out)


def _show_gradients(models: dict[str, Any], examples: Any, out: Path | None, as_json: bool) -> None:
    from harken.inspection import gradient_flow
    from harken.inspection.pictures.flow import FlowPicture

    logger.info(f"Reading {len(examples):,} examples ...")
    flows = {}
    with measuring("gradients") as progress:
        for number, (name, model) in enumerate(models.items()):
            progress(number / len(models), name)
            flows[name] = gradient_flow(model, list(examples))
    shown: dict[str, Any] = {
        "sentences": len(examples),
        "models": {name: flow.to_dict() for name, flow in flows.items()},
    }
    show_figure(FlowPicture(flows), shown if as_json else None, out)
    if not as_json:
        print()
        for name, flow in flows.items():
            print(f"{name}: {flow.verdict}")


def _short_names(folders: dict[str, Any]) -> dict[str, Any]:
    """Name folders by the last part of their paths where that tells them apart."""
    short = {Path(name).resolve().name: value for name, value in folders.items()}
    return short if len(short) == len(folders) else folders


def _show_summary(folder: Path, model: Any, job: Job, as_json: bool) -> None:
    from harken.inspection.measures.summary import summarise

    summary = summarise(model.model)
    if as_json:
        print_json({"model": str(folder), **summary.to_dict()})
        return
    rows = [(name, f"{count:,}", f"{100 * count / summary.total:.1f} %") for name, count in summary.parts.items()]
    print_table(("part", "parameters", "share"), [*rows, ("all", f"{summary.total:,}", "")])
    if not summary.cells:
        logger.info(f"Next: harken inspect {folder} --gradients, or {_attention_command(folder, job)}")
        return
    headings = ("recurrent layer", "cell", "input", "units", "largest singular value of U", "gate by gate")
    print_table(
        headings,
        [
            (
                cell.name,
                cell.cell,
                str(cell.input_size),
                str(cell.hidden_size),
                f"{cell.largest:.3f}",
                ", ".join(f"{name} {value:.2f}" for name, value in list(cell.weights.items())[1:]),
            )
            for cell in summary.cells
        ],
    )
    logger.info(f"Next: harken inspect {folder} --gradients, or harken inspect {folder} --gates {job.example_input!r}")
