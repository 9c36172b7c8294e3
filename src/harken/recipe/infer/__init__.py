"""From a file or folder of data to a recipe: the job, the columns and a budget, by simple rules.

    .conllu, words and tags in columns            tag
    lines that begin with one of few labels       classify
    a table: texts and few short values           classify
             two columns of texts alike in length translate
             a text and a number                  regress
             dates or rows of numbers             forecast
             names of recordings or pictures      transcribe, caption
    NAME.en beside NAME.fr, TMX, XLIFF            translate
    signals of UCR and UEA, a series a row        classify, forecast
    numbered sentences with questions (bAbI)      answer
    files or folders by class, train.en ...       classify, translate
    other text                                    language

The columns of tables, and formats of its own, are what the recipe of a job declares (`Recipe.input_column`,
`Recipe.target_column`, `Recipe.recognise`), that of a plugin too; a job whose recipe is derived from one that ships
reads the same files.

What is ambiguous is `Undecided`: choices, and the command of the likeliest. `harken look DATA`, `harken train DATA`,
`harken.train(DATA)` and `harken new` use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harken.errors import UserError
from harken.files import expand_user
from harken.recipe.infer.files import infer_file
from harken.recipe.infer.folders import infer_folder
from harken.recipe.infer.held_out import hold_out_test
from harken.recipe.infer.inferred import MINUTES, Inferred, is_data, recognise, write_recipe
from harken.recipe.infer.questions import Undecided, run_name
from harken.registry import JOBS, TASKS, recipe_class

__all__ = ["MINUTES", "Inferred", "Undecided", "infer", "is_data", "recipe_file", "write_recipe"]


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
        pair: of data in more than two languages, those to translate: "en-de".

    Raises:
        Undecided: more than one job or column is possible; it has the choices and the command of the likeliest.
        UserError: the data cannot be read; it says what to do.
    """
    data = expand_user(path)
    if task is not None and task not in TASKS:
        raise UserError(f"there is no task {task!r}; choose from {', '.join(TASKS.names())}")
    if not data.exists():
        raise UserError(f"{path} does not exist; check the path")
    try:
        infer_data = infer_folder if data.is_dir() else infer_file
        shipped = _shipped(task)
        own = None if shipped == task else recognise(data.resolve(), task)
        inferred = own or infer_data(data.resolve(), shipped, text, target, pair)
        inferred.task = task or inferred.task
        if pair is not None:
            _set_languages(inferred, pair, path)
        return hold_out_test(inferred)
    except Undecided as undecided:
        undecided.problem = undecided.problem.replace(str(data.resolve()), str(path), 1)
        if task is not None:
            undecided.choices = [{**choice, "task": task} for choice in undecided.choices]
        given = {"task": task, "text": text, "target": target, "pair": pair}
        options = {key: value for key, value in given.items() if value is not None}
        complete = undecided.within(["harken", "train", str(path)], options, ["--out", f"runs/{run_name(path)}"])
        raise complete from None


def _shipped(task: str | None) -> str | None:
    """The job that ships and reads the same data: the one whose recipe that of a plugin's job is derived from."""
    if task is None or task in JOBS:
        return task
    recipe = recipe_class(task)
    return next((name for name in JOBS if issubclass(recipe, recipe_class(name))), task)


def _set_languages(inferred: Inferred, pair: str, path: str | Path) -> None:
    """Name the languages of pairs by `pair` where they are not known.

    Raises:
        UserError: the data is in other languages, or not translated.
    """
    keys = ("source_language", "target_language")
    if not {*keys} <= recipe_class(inferred.task).data_fields().keys():
        raise UserError(f"--pair {pair} is for translation, but {path} is data for {inferred.task}; leave it out")
    if inferred.data.get("pair") == pair:
        return
    known = "-".join(str(inferred.data.get(key)) for key in keys if inferred.data.get(key))
    languages = pair.split("-")
    if len(languages) != 2 or known not in ("", pair):
        swapped = ", or swap --text-column and --target-column" * (known == "-".join(reversed(languages)))
        raise UserError(f"the languages of {path} are {known or 'two'}, not {pair}; leave --pair out{swapped}")
    inferred.data.update(zip(keys, languages, strict=True))


def recipe_file(
    data: str | Path,
    path: Path,
    overrides: Sequence[str] = (),
    *,
    task: str | None = None,
    text: str | None = None,
    target: str | None = None,
    pair: str | None = None,
    keep: bool = False,
    replace: bool = False,
) -> tuple[Path, str, Sequence[str]]:
    """Infer a recipe from data and save it; returns its path, a note for the user, and overrides that are not in it.

    Args:
        path: where the recipe is saved.
        overrides: become part of the recipe; `data.pair=en-de` among them chooses languages, as `pair` does, and
            `adapt.start` the task of translators.
        keep: take the recipe that is there already, as a resumed run does; overrides are not in it.
        replace: overwrite what is there.
    """
    if keep and path.is_file():
        return path, "", overrides
    pairs = [override.partition("=")[2] for override in overrides if override.startswith("data.pair=")]
    overrides = [override for override in overrides if not override.startswith("data.pair=")]
    if task is None and any(override.startswith("adapt.start=") for override in overrides):
        task = "translate"
    inferred = infer(data, task=task, text=text, target=target, pair=pair or next(iter(pairs), None))
    write_recipe(inferred, path, MINUTES, replace, overrides)
    return path, f"{data}: {inferred.reason}\n\n{path.read_text(encoding='utf-8')}\nThe recipe is in {path}", ()
