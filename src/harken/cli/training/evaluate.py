"""`harken evaluate`: the metrics of a job on files or on a split of the model's own corpus, and comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.common import (
    AsJson,
    Beam,
    ModelFolder,
    TextColumn,
    accepted_options,
    examples,
    folder_option,
    load_with_job,
    print_json,
    print_table,
)
from harken.cli.messages import logger
from harken.cli.progress import counting
from harken.errors import UserError
from harken.files import atomic_write


@examples(
    "harken evaluate runs/demo --source test.en --reference test.fr",
    "harken evaluate runs/demo --split test-long --compare runs/attention",
)
def evaluate(
    model: ModelFolder,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Examples with their answers; a translator takes one file with both sides, or two."),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text to translate, one sentence a line (.gz, .xz too).")] = None,
    reference: Annotated[Path | None, typer.Option(help="Its right translation, line by line.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Instead of files: a split of the model's corpus: test, valid, test-long ...")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Another model folder, or a file of translations, for a paired test.")
    ] = None,
    test: Annotated[
        str, typer.Option(help="The test of --compare: bootstrap (Koehn, 2004) or randomisation (Noreen, 1989).")
    ] = "bootstrap",
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Also a metric of your own: a registered name or module:function. Repeatable."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="Format of the files, as data.format. Default: auto.")] = "auto",
    text_column: TextColumn = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the answers: labels, tags, targets. Default: the recipe's.")
    ] = None,
    names: Annotated[
        str | None, typer.Option(metavar="A=B,...", help="What labels of the files mean: 0=negative,1=positive.")
    ] = None,
    beam: Beam = None,
    precision: Annotated[
        str | None, typer.Option(help="Translators: float32, int8 or auto, as search.precision.")
    ] = None,
    shortlist: Annotated[
        int | None,
        typer.Option(min=0, help="Translators: as search.shortlist; above 0 also the agreement with all tokens."),
    ] = None,
    accept_changed_data: Annotated[
        bool, typer.Option("--accept-changed-data", help="Score the split although its files changed since training.")
    ] = False,
    out: Annotated[Path | None, folder_option("Write scores, outputs and figures into this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score a model on files, or on a split of its own corpus: by default `test`, and without one `valid`.

    Files are read in the format and columns of the training data, or as --format and the columns say.
    """
    if (source is None) != (reference is None):
        raise UserError("--source and --reference are only used together; give both, or neither and a --split")
    for given, name in ((source, "--source"), (files, "files")):
        if given and split is not None:
            raise UserError(f"--split and {name} were both given; keep one of them")
    if files and source is not None:
        raise UserError("--source and other files were both given; keep one of them")
    if test not in ("bootstrap", "randomisation"):
        raise UserError(f"there is no --test {test}; choose bootstrap or randomisation")
    from harken.registry import METRICS

    own_metrics = {name: METRICS.find(name) for name in metrics or []}
    loaded, job = load_with_job(model)
    pair = accepted_options(job, model, {"source": source, "reference": reference})
    reading = {"format": None if form == "auto" else form, "text_column": text_column, "label_column": label_column}
    speed = {"precision": precision, "shortlist": shortlist}
    chosen = {"beam": beam, "compare": compare, **speed, **reading, "names": None if names is None else pairs_of(names)}
    options = accepted_options(job, model, chosen)
    if compare is not None:
        options |= {"compare": other_system(compare), "test": test}
    changed = [] if files or source else check_split(model, loaded, job, accept_changed_data)
    score: Any = job.evaluate
    with counting("examples") as tick:
        scores = score(loaded, split, files or list(pair.values()), tick, **options)
    for name, own in own_metrics.items():
        scores.add(name, own)
    report = {"model": str(model), "task": loaded.recipe.task, **scores.to_dict()}
    if changed:
        report["changed_data"] = changed
    if compare is not None:
        report["comparison"]["other"] = str(compare)
    written = [] if out is None else write_scores(out, scores, report)
    if as_json:
        print_json(report)
        return
    took = "" if scores.seconds is None else f" in {scores.seconds:.1f} s"
    split = "{name}: {{}}, {source}; {use}".format(**scores.split) if scores.split else "{}"
    logger.info(split.format(f"{scores.count:,} {scores.unit}{took}"))
    rows = [metric.row() for metric in scores.metrics]
    if any(between for _, _, between, _ in rows):
        print_table(("metric", "value", "95% interval", ""), rows)
    else:
        print_table(("metric", "value", ""), [(name, value, note) for name, value, _, note in rows])
    for note in scores.notes:
        logger.info(f"note: {note}")
    for path in written:
        logger.info(f"Wrote {path}")


def write_scores(folder: Path, scores: Any, report: dict[str, Any]) -> list[Path]:
    """Write the figures, `scores.json` and, for a job that has them, `outputs.jsonl` with their references."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [Path(figure.save(folder / f"{name}{figure.ending}")) for name, figure in scores.pictures.items()]
    contents = {"scores.json": [report]}
    if scores.outputs is not None:
        pairs = zip(*scores.outputs, strict=True)
        contents["outputs.jsonl"] = [{"output": output, "reference": reference} for output, reference in pairs]
    for name, rows in contents.items():
        lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        written.append(atomic_write(folder / name, lines))
    return written


def check_split(folder: Path, model: Any, job: Any, accept: bool) -> list[str]:
    """Whether the corpus of a model is what it was trained on; what changed, where the user accepts that.

    Raises:
        UserError: it changed, or a file is missing.
    """
    from harken.tasks.data_record import UNCHECKED, ChangedDataError, DataRecord

    files = "--source FILE --reference FILE" if "source" in job.options else "FILE"
    instead = f"score other examples with harken evaluate {folder} {files}"
    record = DataRecord.load(folder)
    if record is None:
        if not job.names_no_data(model):
            logger.info(f"note: {UNCHECKED.format(folder)}")
        return []
    changes = record.changes_for_evaluation(job, model.recipe)
    if changes and (not accept or any(change.is_missing for change in changes)):
        raise ChangedDataError(folder, changes, "--accept-changed-data", instead)
    for change in changes:
        logger.info(f"note: {change.text}")
    return [change.text for change in changes]


def pairs_of(text: str) -> dict[str, str]:
    """`0=negative,1=positive` as a dict.

    >>> pairs_of("0=negative, 1=positive")
    {'0': 'negative', '1': 'positive'}
    """
    pairs = [[side.strip() for side in part.split("=")] for part in text.split(",") if part.strip()]
    if not pairs or any(len(pair) != 2 or not all(pair) for pair in pairs):
        raise UserError(f"--names {text} does not say what labels mean; write it like 0=negative,1=positive")
    return dict(pairs)


def other_system(path: Path) -> Any:
    """Load the system that a model is compared with: another model, or the lines of a file."""
    if path.is_dir():
        return load_with_job(path)[0]
    from harken.data.io.files import read_lines

    return list(read_lines(path))
