"""`harken clean`: noisy pairs out of a corpus, with counts of what went and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import AsJson, examples, load_for, print_json, print_table
from harken.cli.messages import logger
from harken.errors import UserError
from harken.files import open_output


@examples(
    "harken clean pairs.tsv --out clean.tsv",
    "harken clean train.en train.fr --out clean.tsv --max-ratio 2 --max-words 100",
    "harken clean pairs.tsv --out clean.tsv --model runs/demo --min-score -2",
)
def clean(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE [TARGET]", help="A table with both sides, or two aligned files.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Table for the pairs: source, tab, target.")],
    max_words: Annotated[int, typer.Option(min=1, help="Words of a side at most.")] = 200,
    max_ratio: Annotated[
        float, typer.Option(min=1, help="Words of the longer side to those of the shorter, 3 added to both.")
    ] = 3.0,
    source_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Such as en. Default: that of the first pairs.")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Such as fr. Default: that of the first pairs.")
    ] = None,
    source_column: Annotated[str | None, typer.Option(help="Name of the column, or its number from 0.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Name of the column, or its number from 0.")] = None,
    model: Annotated[Path | None, typer.Option(help="Folder of a translator that scores the pairs.")] = None,
    min_score: Annotated[
        float | None, typer.Option(help="Lowest score of a pair, as `harken score` prints it; needs --model.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Leave noisy pairs out: empty, too long, of unlike length, copied, in another language, repeated, improbable."""
    from harken.data.io.formats import Layout, read_pairs
    from harken.data.text.inputs import place
    from harken.tasks.translate.corpora.cleaning import REASONS, Cleaner

    if len(files) > 2:
        raise UserError(f"{len(files)} files are given; name a table with both sides, or two aligned files")
    if (model is None) != (min_score is None):
        raise UserError("--model and --min-score belong together; give both of them or neither")
    if any(out.exists() and file.exists() and out.samefile(file) for file in files):
        raise UserError(f"{out} is an input itself, which the output would replace; choose another --out")
    translator = None if model is None else load_for("translate", model)
    lowest = -float("inf") if min_score is None else min_score
    cleaner = Cleaner(max_words, max_ratio, source_language, target_language, translator, lowest)
    layout = Layout(source_column=place(source_column), target_column=place(target_column))
    pairs = read_pairs(files[0], files[1] if len(files) == 2 else None, layout)
    with open_output(out) as file:
        for texts in cleaner.clean(pairs):
            file.write("\t".join(" ".join(text.split()) for text in texts) + "\n")
    removed = {reason: cleaner.counts[reason] for reason in REASONS if cleaner.counts[reason]}
    clean_pairs = cleaner.read - sum(removed.values())
    if as_json:
        print_json({"read": cleaner.read, "removed": removed, "clean": clean_pairs})
        return
    rows = {"read": cleaner.read, **removed, "clean": clean_pairs}
    shares = [(name, f"{count:,}", f"{count / max(1, cleaner.read):.1%}") for name, count in rows.items()]
    print_table(("pairs", "number", "share"), shares)
    if not clean_pairs:
        logger.warning("No pair is left: check the columns of the file and the limits")
    logger.info(f"Wrote {out}")
