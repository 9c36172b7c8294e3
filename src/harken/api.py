"""The Python calls a user meets: `harken.train`, `harken.load`, `harken.check`, `harken.distill`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.checking import check
from harken.errors import UserError
from harken.files import expand_user
from harken.training.folder import Request, is_follower, request

if TYPE_CHECKING:
    from torch import nn

    from harken.recipe import Recipe

__all__ = ["check", "distill", "load", "train"]


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "auto",
    *,
    plugins: Sequence[str] = (),
    weights: Sequence[float] | None = None,
) -> Any:
    """The model in a folder that `train` made, as the object of its job: a `Translator` for translation.

    Nothing in the folder can run code. A model with parts from your own modules needs these in `plugins`, by name or as
    .py files, unless they are imported already.

    Args:
        folder: a model folder; several are an ensemble of translators, whose distributions are averaged.
        weights: of the models of an ensemble; by default equal.

    Raises:
        UserError: the folder is none of harken's, or does not hold together; or models that are no ensemble.
    """
    if not isinstance(folder, str | Path):
        return _load_ensemble(list(folder), device, plugins, weights)
    if weights is not None:
        raise UserError("weights= is for an ensemble; give a list of folders, or leave it out")
    from harken.recipe import model_recipe
    from harken.registry import import_plugins
    from harken.tasks.registry import job_of

    import_plugins(plugins)

    folder = expand_user(folder)
    recipe = model_recipe(folder)
    return job_of(recipe.task).open(folder, recipe, device)


def load_quickly(folder: Path, report: Callable[[str], None], device: str = "auto") -> Any:
    """`load` for a process that applies a model: without torch where the job and the folder allow it.

    Args:
        report: called with a line about how the model is opened.

    Raises:
        UserError: as `load`.
    """
    from harken.recipe import model_recipe
    from harken.tasks.registry import job_of

    folder = expand_user(folder)
    recipe = model_recipe(folder)
    return job_of(recipe.task).open_quickly(folder, recipe, device, report)


def _load_ensemble(
    folders: list[str | Path], device: str, plugins: Sequence[str], weights: Sequence[float] | None
) -> Any:
    if not folders:
        raise UserError("the list of model folders is empty; give at least one")
    models = [load(folder, device, plugins=plugins) for folder in folders]
    for folder, model in zip(folders, models, strict=True):
        if not hasattr(model, "with_ensemble"):
            raise UserError(
                f"{folder} is a model of the task {model.recipe.task!r}; an ensemble is of translators; "
                "load each folder alone, and average what they give"
            )
    return models[0].with_ensemble(models[1:], weights)


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe | nn.Module,
    out: str | Path,
    *,
    overrides: Sequence[str] = (),
    start: str | Path | None = None,
    mix: str | Path | None = None,
    data: Any = None,
    resume: bool = False,
    restart: bool = False,
    accept_changed_data: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callable[[dict[str, Any]], Any]] = (),
    plugins: Sequence[str] = (),
    loss: Callable[[Any, Any], Any] | None = None,
    valid: Any = None,
    collate: Callable[[list[Any]], Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    started: float | None = None,
) -> Any:
    """Train as a recipe says, and give the best model back, as `load` does; or train a module of your own.

    Args:
        recipe: a name that ships, a TOML file, a dict of tables, a `Recipe`; a file or folder of data, from which a
            recipe is inferred and saved beside `out`; with `data` the name of a task, whose columns are inferred from
            it; or a `torch.nn.Module`.
        out: the model folder. With `resume`, a run that was stopped there goes on; a finished one is loaded.
        restart: delete the run in the folder and start over.
        accept_changed_data: resume although the files or settings of `[data]` changed since the run was started; what
            changed is noted in the folder.
        overrides: changes to the recipe, each "section.key=value".
        start: the folder of a translator to fine-tune, as the key `adapt.start`; or of a masked language model whose
            encoder a classifier, regressor or tagger begins with, as the key `model.start`.
        mix: a file of general pairs to rehearse meanwhile, as the key `adapt.mix`.
        data: a table in memory to train on, in the place of what the recipe names: a pandas or polars frame, a
            `datasets.Dataset`, a dict of columns or a list of records. Its columns are those that the recipe's `[data]`
            names. Jobs on texts and series take one; a run goes on with the same table alone.
            For a module: a list of examples, a tuple of tensors, or a map-style `Dataset`.
        progress: show a bar in a terminal, lines elsewhere.
        callbacks: functions that are called with each line of metrics.jsonl as a dict (`kind` is "train" or "valid");
            one that returns True ends the run.
        plugins: modules or .py files of your own parts that the recipe names.
        loss: for a module: `loss(module, batch)` -> the mean over the batch, or (sum, count).
        valid: for a module: examples to choose the best weights by; by default a tenth of the data.
        collate: for a module: a list of examples -> a batch; by default torch's `default_collate`.
        settings: for a module: keys of `[train]`, with a budget; `batch_tokens` counts examples (32 by default).
        started: the `time.perf_counter()` at which a budget in minutes began; by default that of the call.

    Raises:
        UserError: the recipe or the data is wrong, or the folder holds another model.
    """
    asked = request(out, resume, restart, accept_changed_data, started)
    if not isinstance(recipe, str | Path | Mapping):
        from torch import nn

        if isinstance(recipe, nn.Module):
            return _train_module(
                recipe, out, overrides, data=data, loss=loss, valid=valid, collate=collate, settings=settings,
                callbacks=callbacks, resume=resume, restart=restart, progress=progress,
            )  # fmt: skip
    given = {"loss": loss, "valid": valid, "collate": collate, "settings": settings}
    for name, value in given.items():
        if value is not None:
            raise UserError(f"{name}= is for a torch.nn.Module; with a recipe, say it in the recipe or in overrides=")
    from harken.data.io.in_memory import in_memory
    from harken.recipe import as_recipe
    from harken.recipe.files import start_overrides
    from harken.registry import TASKS, import_plugins
    from harken.training.device import prepare_environment

    import_plugins(plugins)
    overrides = [*overrides, *start_overrides(start, mix)]
    table = None if data is None else in_memory(data)
    if is_follower():
        prepare_environment()
        from harken.run import follow_recipe

        return follow_recipe(asked.folder, table)
    if table is not None and isinstance(recipe, str) and recipe in TASKS.names():
        from harken.recipe.infer.tables import infer_frame

        recipe = infer_frame(recipe, table)
    if data is None and isinstance(recipe, str | Path):
        recipe, overrides = _inferred(recipe, asked, overrides, progress)
    chosen = as_recipe(recipe, overrides, with_data=data is None)
    if chosen.train.precision != "float32" and chosen.train.device in ("auto", "cpu"):
        prepare_environment()
    from harken.run import run_recipe

    return run_recipe(chosen, asked, progress, table, callbacks)


def _inferred(
    recipe: str | Path, asked: Request, overrides: Sequence[str], progress: bool
) -> tuple[str | Path, Sequence[str]]:
    """The recipe, or where it names data, the file of a recipe inferred from it; and overrides that are not in it."""
    from harken.recipe.infer import is_data, recipe_file

    if not is_data(str(recipe)):
        return recipe, overrides
    path = asked.folder.parent / f"{asked.folder.name}.toml"
    inferred, note, others = recipe_file(recipe, path, overrides, keep=asked.resume, replace=asked.restart)
    if progress and note:
        print(note, file=sys.stderr)
    return inferred, others


def distill(
    teachers: str | Path | Sequence[str | Path],
    out: str | Path,
    recipe: str | Path | Mapping[str, Any] | None = None,
    *,
    sources: str | Path | None = None,
    size: str | None = None,
    nbest: int = 1,
    min_score: float | None = None,
    int8: bool = False,
    overrides: Sequence[str] = (),
    resume: bool = False,
    progress: bool = True,
    weights: Sequence[float] | None = None,
    report: Callable[[int, int], None] | None = None,
    **search: Any,
) -> Any:
    """Train a student on a teacher's translations, and give it back, as `load` does.

    Sequence-level knowledge distillation (Kim and Rush, 2016). The pairs are in a folder beside `out`, NAME.pairs.

    Args:
        teachers: a folder of a translator, or several with the same vocabularies, whose distributions are averaged.
        out: the student's folder.
        recipe: the student's, without its `[data]`; by default the teacher's with a deep encoder and a decoder of two
            layers with recurrent units.
        sources: a file of sentences that are translated in the place of the first teacher's training sources, which an
            adopted teacher does not have.
        size: of the student in the place of a recipe: "tiny", "small" or "base", with a vocabulary of its own; the
            default of adopted teachers is "small".
        nbest: translations of each sentence to learn from.
        min_score: translations with a lower score are left out.
        int8: fine-tune the student for another epoch with products rounded as int8 decoding rounds them; the student
            before that is in a folder beside `out`, NAME.float32.
        overrides: changes to the recipe, each "section.key=value".
        resume: go on with a run that was stopped, while it was translating or training.
        weights: of the teachers.
        report: called with the sentences that are translated and their number.
        search: keys of the teacher's [search] table, such as `beam=5` or `mbr="chrf"`.

    Raises:
        UserError: no translator, a recipe that does not fit, or a folder that is not empty.
    """
    from harken.recipe import as_recipe
    from harken.tasks.translate.corpora.distilling import (
        distil_pairs,
        has_data,
        int8_recipe,
        sized_recipe,
        student_recipe,
    )

    out = request(out, resume, restart=False).folder
    folders = [teachers] if isinstance(teachers, str | Path) else list(teachers)
    loaded = [load(folder) for folder in folders]
    for folder, model in zip(folders, loaded, strict=True):
        if model.recipe.task != "translate":
            raise UserError(f"{folder} is a model of the task {model.recipe.task!r}; only translators can be distilled")
    if recipe is not None and size is not None:
        raise UserError("a recipe and --size are both given; keep one of them")
    if recipe is None and (size is not None or not has_data(loaded[0].recipe)):
        recipe = sized_recipe(size or "small")
    if recipe is None:
        chosen: Recipe = as_recipe(student_recipe(loaded[0].recipe).model_dump(mode="json"), overrides)
    else:
        chosen = as_recipe(recipe, overrides, with_data=False)
    if chosen.task != "translate":
        raise UserError(f"the student's recipe is of the task {chosen.task!r}; give one of the task 'translate'")
    pairs = out.parent / f"{out.name}.pairs"
    data = distil_pairs(
        loaded,
        pairs,
        sources=None if sources is None else Path(sources),
        nbest=nbest,
        min_score=min_score,
        resume=resume,
        weights=weights,
        progress=report,
        **search,
    )
    del loaded
    first = out.parent / f"{out.name}.float32" if int8 else out
    student = train(chosen.model_copy(update={"data": data}), first, resume=resume, progress=progress)
    if not int8:
        return student
    return train(int8_recipe(student.recipe, chosen.train, first), out, resume=resume, progress=progress)


def _train_module(module: nn.Module, out: str | Path, overrides: Sequence[str], **options: Any) -> nn.Module:
    from harken.train_module import train_module

    if overrides:
        raise UserError('overrides change a recipe; a module takes settings={"max_steps": 1000}')
    for name in ("data", "loss"):
        if options[name] is None:
            raise UserError(f"a torch.nn.Module needs {name}=; see help(harken.train)")
    return train_module(module, out, **{name: value for name, value in options.items() if value is not None})
