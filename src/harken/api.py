"""The Python calls a user meets: `harken.train`, `harken.load`, `harken.check`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.checking import check
from harken.errors import UserError
from harken.files import expand_user

if TYPE_CHECKING:
    from harken.recipe import Recipe

__all__ = ["check", "load", "train"]


def load(folder: str | Path, device: str = "auto") -> Any:
    """The model in a folder that `train` made, as the object of its job: a `Translator` for translation.

    Nothing in the folder can run code.

    Raises:
        UserError: the folder is none of harken's, or does not hold together.
    """
    from harken.models.base import check_outputs
    from harken.recipe import load_recipe
    from harken.tasks.registry import job_of
    from harken.training.checkpoints import fitting_weights

    folder = expand_user(folder)
    for name in ("recipe.toml", "model.safetensors"):
        if not (folder / name).is_file():
            raise UserError(f"{folder} has no {name}, so it is no finished model folder; train one with harken train")
    with warnings.catch_warnings():  # a folder of harken 0.1 has older names of keys, which is no fault of its user
        warnings.simplefilter("ignore", FutureWarning)
        recipe = load_recipe(folder / "recipe.toml")
    with fitting_weights(folder):
        model = job_of(recipe.task).load(folder, recipe, device)
    if hasattr(model, "model"):  # a job of one's own may give any object
        model.model.register_forward_hook(check_outputs)
    return model


def train(
    recipe: str | Path | Recipe,
    out: str | Path,
    *,
    overrides: Sequence[str] = (),
    data: Any = None,
    resume: bool = False,
    restart: bool = False,
    progress: bool = True,
) -> Any:
    """Train as a recipe says, and give the best model back, as `load` does.

    Args:
        recipe: a name that ships, a TOML file, or a `Recipe`.
        out: the model folder. With `resume`, a run that was stopped there goes on; a finished one is loaded.
        restart: delete the run in the folder and start over.
        overrides: changes to the recipe, each "section.key=value".
        data: a table in memory to train on, in the place of what the recipe names: a pandas or polars frame, a
            `datasets.Dataset`, a dict of columns or a list of records. Its columns are those that the recipe's `[data]`
            names. Classifiers, regressors, taggers and forecasters take one; a run goes on with the same table alone.
        progress: show a bar in a terminal, lines elsewhere.

    Raises:
        UserError: the recipe or the data is wrong, or the folder holds another model.
    """
    from harken.recipe import as_recipe
    from harken.training.machine import prepare_environment

    chosen = as_recipe(recipe, overrides, with_data=data is None)
    if chosen.train.precision != "float32" and chosen.train.device in ("auto", "cpu"):
        prepare_environment()
    from harken.run import run_recipe

    if data is None:
        return run_recipe(chosen, Path(out), resume, progress, restart=restart)
    from harken.data.io.in_memory import in_memory

    return run_recipe(chosen, Path(out), resume, progress, in_memory(data), restart)
