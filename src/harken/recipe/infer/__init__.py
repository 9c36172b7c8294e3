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

What is ambiguous is an error that says which option to add. `harken train DATA` and `harken new` use it.
"""

from __future__ import annotations

from pathlib import Path

from harken.errors import UserError
from harken.files import expand_user
from harken.recipe.infer.files import infer_file
from harken.recipe.infer.folders import infer_folder
from harken.recipe.infer.inferred import MINUTES, Inferred
from harken.registry import JOBS

__all__ = ["MINUTES", "Inferred", "infer"]

ARCHIVES = (".tar", ".zip", ".tgz", ".7z")


def infer(
    path: str | Path,
    *,
    task: str | None = None,
    text: str | None = None,
    target: str | None = None,
    pair: str | None = None,
) -> Inferred:
    """What to train on a file or folder.

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
        return infer_folder(place.resolve(), task, text, target, pair)
    return infer_file(place.resolve(), task, text, target)
