"""`harken backtranslate`: text of the target language becomes training pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harken.cli.common import Beam, ModelFolder, examples, load_for
from harken.cli.messages import logger
from harken.cli.progress import counting
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.tasks.translate.translation import Translation


@examples(
    "harken backtranslate runs/fr-en text.fr --out synthetic.tsv --tag '<BT>'      (pairs for English to French)",
    "harken backtranslate runs/fr-en text.fr --out synthetic.tsv --sample",
    "harken backtranslate runs/fr-en text.fr --resume synthetic.tsv      (after Ctrl-C)",
)
def backtranslate(
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(help="Text in the language that the model reads, or a table with it.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table for the pairs: translation, tab, line of FILE.")
    ] = None,
    tag: Annotated[str, typer.Option(help="A word before each translation, such as <BT>.")] = "",
    beam: Beam = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw translations at random; they vary more.")] = False,
    seed: Annotated[int, typer.Option(help="Of --sample.")] = 0,
    precision: Annotated[str | None, typer.Option(help="As search.precision: float32, int8 or auto.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Continue this output of a job that was stopped.")
    ] = None,
) -> None:
    """Translate text of the target language back, for training pairs whose target side is real (Sennrich et al., 2016).

    With --tag a model can tell these pairs from real ones (Caswell et al., 2019).
    """
    from harken.data.text.inputs import source_inputs
    from harken.tasks.translate.files.output_file import OutputFile, one_line, record_of, translate_to_file

    if (out is None) == (resume is None):
        raise UserError("give either --out FILE or, to continue, --resume FILE")
    translator = load_for("translate", model)
    target = out or resume
    assert target is not None
    given = {"beam": beam, "sample": sample or None, "seed": seed if sample else None, "precision": precision}
    search: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    record = record_of(translator, [model], file, {**search, "tag": tag}, resume is not None)
    output = OutputFile(target, record, resume is not None, grouped=False, report=logger.info)
    inputs = source_inputs(file, translator.recipe.data)
    if inputs.note:
        logger.info(inputs.note)

    def text(index: int, line: str, translations: Sequence[Translation]) -> str:
        best = one_line(translations[0].text) if translations else ""
        cells = f"{tag} {best}" if tag and best else best, line
        return "\t".join(" ".join(cell.split()) for cell in cells) + "\n"

    with counting("lines") as tick:
        translate_to_file(translator, inputs.values, output, text, progress=lambda _: tick(1), **search)
    logger.info(f"Wrote {target}")
