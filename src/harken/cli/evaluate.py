"""`harken evaluate`: BLEU, chrF, exact match, alignment error where gold links exist, and comparisons."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harken.cli.options import AsJson, Beam, ModelFolder
from harken.cli.printing import counting, print_table, tell
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.data.text.pairs import Pair
    from harken.tasks.translate.recipe import TranslateRecipe


def evaluate(
    model: ModelFolder,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Examples with their answers, in the format the model was trained on.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text to translate, one sentence a line (.gz, .xz too).")] = None,
    reference: Annotated[Path | None, typer.Option(help="Its right translation, line by line.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Instead of files: a split of the model's corpus: test, valid, test-long ...")
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(help="Another model folder, or a file of translations, for a paired test."),
    ] = None,
    test: Annotated[
        str, typer.Option(help="The test of --compare: bootstrap (Koehn, 2004) or randomisation (Noreen, 1989).")
    ] = "bootstrap",
    beam: Beam = None,
    out: Annotated[Path | None, typer.Option(help="Write the job's pictures into this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score a model on files, or on a split of its own corpus (`test`, where nothing is said).

    A translator is given --source and --reference; every other job its files as they are.
    """
    if (source is None) != (reference is None):
        raise UserError("--source and --reference go together; give both, or neither and a --split")
    if source is not None and split is not None:
        raise UserError("--split and --source were both given; keep one of them")
    if test not in ("bootstrap", "randomisation"):
        raise UserError(f"there is no --test {test}; choose bootstrap or randomisation")
    from harken.api import load

    translator = load(model)
    if translator.recipe.task != "translate":
        for given, option in (
            (source, "--source"),
            (reference, "--reference"),
            (compare, "--compare"),
            (beam, "--beam"),
        ):
            if given is not None:
                raise UserError(f"{option} is for translators, and {model} is none; give the files alone, or --split")
        _evaluate_job(model, translator, files or [], split, out, as_json)
        return
    if files:
        raise UserError(f"{files[0]} is a file too many for a translator; use --source {files[0]} --reference FILE")
    if out is not None:
        raise UserError("--out is for jobs that draw what they score; a translator's pictures: harken attention")
    pairs = read_pairs(source, reference) if source and reference else split_of(translator.recipe, split or "test")
    with counting("sentences", total=len(pairs)) as tick:
        result = translator.evaluate(pairs, beam=beam, progress=tick)
    report = {"model": str(model), **result.to_dict()}
    rows = [
        ("BLEU", f"{result.bleu.value:.2f}", result.bleu.signature),
        ("chrF", f"{result.chrf.value:.2f}", result.chrf.signature),
    ]
    exact = result.exact
    between = f"{exact.low:.2f} to {exact.high:.2f}, 95% interval"
    rows.append(("exact match", f"{exact.value:.2f}", f"percent right as a whole; {between}"))
    if result.alignment_error is not None:
        rows.append(("AER", f"{result.alignment_error:.3f}", "alignment error rate, 0 is perfect"))
    if compare is not None:
        from harken.metrics import compare_systems

        other = other_translations(compare, pairs, beam)
        comparison = compare_systems(result.hypotheses, other, [pair.target for pair in pairs], test)  # type: ignore[arg-type]
        report["comparison"] = {
            "other": str(compare),
            "bleu": comparison.b.value,
            "difference": comparison.difference,
            "interval": [comparison.low, comparison.high],
            "p_value": comparison.p_value,
            "samples": comparison.samples,
            "test": comparison.test,
        }
        verdict = "significant" if comparison.significant else "not significant"
        rows.append(("compared", f"{comparison.difference:+.2f}", f"{comparison}; {verdict}"))
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    tell(f"{len(pairs):,} sentences in {result.seconds:.1f} s")
    print_table(("metric", "value", ""), rows)


def _evaluate_job(
    folder: Path, model: Any, files: list[Path], split: str | None, out: Path | None, as_json: bool
) -> None:
    """Any job but translation: its own metrics, with their intervals."""
    if files and split is not None:
        raise UserError("--split and files were both given; keep one of them")
    from harken.tasks.registry import job_of

    with counting("examples") as tick:
        scores = job_of(model.recipe.task).evaluate(model, split, files, tick)
    written = []
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        written = [str(picture.save(out / f"{name}{picture.ending}")) for name, picture in scores.pictures.items()]
    if as_json:
        print(json.dumps({"model": str(folder), "task": model.recipe.task, **scores.to_dict()}, ensure_ascii=False))
        return
    tell(f"{scores.count:,} {scores.unit}")
    print_table(("metric", "value", "95% interval", ""), [metric.row() for metric in scores.metrics])
    for path in written:
        tell(f"Wrote {path}")


def read_pairs(source: Path, reference: Path) -> Sequence[Pair]:
    """Two aligned files as pairs.

    Raises:
        UserError: a file is missing or not UTF-8, they differ in length, or they are empty.
    """
    from harken.data.io.files import read_lines
    from harken.data.text.pairs import Pair

    sources, references = list(read_lines(source)), list(read_lines(reference))
    if len(sources) != len(references):
        raise UserError(
            f"{source} has {len(sources):,} lines and {reference} has {len(references):,}; "
            "they must be translations of each other, line by line"
        )
    if not sources:
        raise UserError(f"{source} is empty; give at least one sentence")
    return [Pair(one, other) for one, other in zip(sources, references, strict=True)]


def split_of(recipe: TranslateRecipe, split: str) -> Sequence[Pair]:
    """A split of the corpus that a model was trained on.

    Raises:
        UserError: the corpus has no split of that name.
    """
    from harken.data.text.parallel import read_corpus

    corpus = read_corpus(recipe.data)
    splits = {"valid": corpus.valid, **corpus.tests}
    if split == "test" and split not in splits and len(corpus.tests) == 1:  # the corpus calls its one test otherwise
        return next(iter(corpus.tests.values()))
    if split not in splits:
        raise UserError(
            f"{corpus.name} has no split {split!r}; choose --split {' or '.join(splits)}, "
            "or give --source and --reference"
        )
    return splits[split]


def other_translations(other: Path, pairs: Sequence[Pair], beam: int | None) -> list[str]:
    """What the other system says: a model's translations, or the lines of a file."""
    if other.is_dir():
        from harken.api import load

        with counting("sentences", total=len(pairs)) as tick:
            sources = [pair.source for pair in pairs]
            found = load(other).translate(sources, beam=beam, attention=False, progress=tick)
        return [translation.text for translation in found]
    from harken.data.io.files import read_lines

    lines = list(read_lines(other))
    if len(lines) != len(pairs):
        raise UserError(f"--compare {other} has {len(lines):,} lines, but {len(pairs):,} sentences are scored")
    return lines
