"""`harken embed context`: one word in several sentences, and what it is near to in each."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.common import AsJson, examples, print_json, print_table
from harken.cli.progress import counting
from harken.tasks.interface import MAX_COUNT

MOST_LINES = 2000  # that are looked through for neighbours


@examples(
    'harken embed context runs/elmo "give me the stick" "we stick to the plan" --word stick',
    'harken embed context runs/elmo "they sat on the river bank" --word bank --among text.txt --json',
)
def context(
    model: Annotated[Path, typer.Argument(help="Folder of a model with the task elmo or language.")],
    sentences: Annotated[list[str], typer.Argument(metavar="SENTENCE...", help="Sentences that have the word.")],
    word: Annotated[str, typer.Option(help="The word to look at; the first of each sentence where it stands twice.")],
    among: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text to find neighbours in. Default: the model's validation.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Vectors of one layer, 0 the lowest. Default: the mean.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, max=MAX_COUNT, help="Neighbours to show for each sentence.")
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """A word's vectors in context: cosines between sentences, and the nearest words elsewhere, where they stand."""
    import harken
    from harken.embeddings.contextual import cosines, nearest, occurrences, of_word

    loaded = harken.load(model)
    chosen = of_word(occurrences(loaded, sentences, layer=layer), word, sentences)
    table = cosines(chosen, chosen)
    near: list[Any] = [[] for _ in chosen]
    if count:
        lines = _lines(loaded, among)
        with counting("Reading", total=len(lines)) as tell_lines:
            words = occurrences(loaded, lines, layer=layer, progress=tell_lines)
        near = [nearest(occurrence, words, count) for occurrence in chosen]
    if as_json:
        given = [
            {
                "sentence": occurrence.sentence,
                "place": occurrence.place,
                "cosines": [round(float(value), 6) for value in row],
                "neighbors": [
                    {"word": other.word, "place": other.place, "sentence": other.sentence, "cosine": round(score, 6)}
                    for other, score in rows
                ],
            }
            for occurrence, row, rows in zip(chosen, table, near, strict=True)
        ]
        print_json({"word": word, "layer": layer, "contexts": given})
        return
    if len(chosen) > 1:
        headings = ["", *(str(number) for number in range(1, len(chosen) + 1))]
        print_table(
            headings,
            [
                (f"{number} {occurrence.sentence}", *(f"{value:.4f}" for value in row))
                for number, (occurrence, row) in enumerate(zip(chosen, table, strict=True), start=1)
            ],
        )
    for number, (occurrence, rows) in enumerate(zip(chosen, near, strict=True)):
        if rows:
            print(("\n" if number or len(chosen) > 1 else "") + occurrence.sentence)
            print_table(
                ("word", "cosine", "in"), [(other.word, f"{score:.4f}", other.sentence) for other, score in rows]
            )


def _lines(model: Any, among: Path | None) -> list[str]:
    """Lines with words, the first of them where they are many.

    Raises:
        UserError: there are none.
    """
    from harken.data.io.files import read_lines
    from harken.errors import UserError
    from harken.tasks.registry import job_of

    texts = job_of(model.recipe.task).examples(model, "valid") if among is None else read_lines(among)
    lines = list(islice((line for line in texts if line.strip()), MOST_LINES))
    if not lines:
        raise UserError(f"{among or 'the validation text'} holds no words to find neighbours in; give --among FILE")
    return lines
