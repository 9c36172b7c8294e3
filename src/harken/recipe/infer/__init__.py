"""From a file or folder of data to a recipe: the job, the columns and a budget, by simple rules.

    .conllu, words and tags in columns            tag
    lines that begin with one of few labels       classify
    a table: texts and few short values           classify
             two columns of texts alike in length translate
             a text and a number                  regress
             dates or rows of numbers             forecast
             names of recordings or pictures      transcribe, caption
    numbered sentences with questions (bAbI)      answer
    a file for each class, a folder train.en ...  classify, translate
    other text                                    language

What is ambiguous is an error that says which option to add. `harken train DATA`, `harken.train(DATA)` and `harken new`
use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harken.errors import UserError
from harken.files import expand_user
from harken.recipe.infer.files import infer_file
from harken.recipe.infer.folders import infer_folder
from harken.recipe.infer.held_out import hold_out_test
from harken.recipe.infer.inferred import MINUTES, Inferred, is_data, write_recipe
from harken.registry import JOBS

__all__ = ["MINUTES", "Inferred", "infer", "is_data", "recipe_file", "write_recipe"]

ARCHIVES = (".tar", ".zip", ".tgz", ".7z")


def infer(
    path: str | Path,
    *,
    task: str | None = None,
    text: str | None = None,
    target: str | None = None,
    pair: str | None = None,
) -> Inferred:
    """Infer a recipe for a file or folder.

    Args:
        task: the job, where it is known.
        text: the column of a table that is read: texts, recordings, pictures.
        target: the column that is predicted: labels, translations, numbers, captions.
        pair: of a folder with files train.LANG of more than two languages, those to translate: "en-de".

    Raises:
        UserError: the data cannot be read, or more than one job or column is possible; it says what to add.
    """
    place = expand_user(path)
    if task is not None and task not in JOBS:
        raise UserError(f"there is no task {task!r}; choose from {', '.join(JOBS)}")
    if not place.exists():
        raise UserError(f"{path} does not exist; check the path")
    if any(suffix in ARCHIVES for suffix in place.suffixes):
        raise UserError(f"{path} is an archive; unpack it and give the file or folder inside")
    if place.is_dir():
        return hold_out_test(infer_folder(place.resolve(), task, text, target, pair))
    return hold_out_test(infer_file(place.resolve(), task, text, target))


def recipe_file(
    data: str | Path,
    place: Path,
    overrides: Sequence[str] = (),
    *,
    task: str | None = None,
    text: str | None = None,
    target: str | None = None,
    keep: bool = False,
    replace: bool = False,
) -> tuple[Path, str]:
    """Infer a recipe from data and save it; returns its path and what to tell the user.

    Args:
        place: where the recipe is saved.
        overrides: become part of the recipe; `data.pair=en-de` among them chooses the languages of a folder.
        keep: take the recipe that is there already, as a resumed run does.
        replace: overwrite what is there.
    """
    if keep and place.is_file():
        return place, ""
    pair = next((value.partition("=")[2] for value in overrides if value.startswith("data.pair=")), None)
    inferred = infer(data, task=task, text=text, target=target, pair=pair)
    write_recipe(inferred, place, MINUTES, replace, overrides)
    return place, f"{data}: {inferred.reason}\n\n{place.read_text(encoding='utf-8')}\nThe recipe is in {place}"
