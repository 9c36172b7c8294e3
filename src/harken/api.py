"""The Python calls a user meets: `harken.train`, `harken.load`, `harken.check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harken.checking import check
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.recipe import Recipe
    from harken.translator import Translator


__all__ = ["check", "load", "train"]


def load(folder: str | Path, device: str = "auto") -> Translator:
    """The model in a folder that `train` made."""
    from harken.translator import Translator

    return Translator.load(folder, device)


def train(
    recipe: str | Path | Recipe,
    out: str | Path,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
    progress: bool = True,
) -> Translator:
    """Train as a recipe says, and give the best model back.

    Args:
        recipe: a name that ships, a TOML file, or a `Recipe`.
        out: the model folder. With `resume`, a run that was stopped there goes on; a finished one is loaded.
        overrides: changes to the recipe, each "section.key=value".
        progress: show a bar in a terminal, lines elsewhere.

    Raises:
        UserError: the recipe or the data is wrong, or the folder holds another model.
    """
    from harken.recipe import Recipe, load_recipe
    from harken.training.machine import prepare_environment

    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides)
    elif overrides:
        raise UserError("overrides go with a recipe's name or file; a Recipe object can be changed itself")
    if recipe.train.precision != "float32" and recipe.train.device in ("auto", "cpu"):
        prepare_environment()
    from harken.run import run_recipe

    return run_recipe(recipe, Path(out), resume, progress)
