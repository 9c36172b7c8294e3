"""How many layers, and how wide, the vectors of a word in context are: from the recipe of what gives them (no torch).

elmo        the words and each layer, both directions side by side          (L + 1, 2 D)
language    each layer                                                      (L, H)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harken.files import expand_user

KINDS = ("elmo", "language")


def shape_of(recipe: Any) -> tuple[int, int]:
    """(layers, width) of what the model of a recipe gives for a word."""
    model = recipe.model
    if recipe.task == "elmo":
        return model.layers + 1, 2 * model.width
    narrow = model.architecture == "recurrent" and model.top == "embedding"
    return model.layers, max(model.width if not narrow or model.layers > 1 else 0, model.embedding if narrow else 0)


@dataclass(frozen=True)
class ContextShape:
    """Stands for a `harken.tasks.context.Context` that is not loaded, where only the size of a model is asked."""

    layers: int
    width: int

    @classmethod
    def of(cls, place: str | None) -> Any:
        """From the recipe of the folder that `embeddings.elmo` names; None without one.

        Raises:
            UserError: the folder has no readable recipe.
        """
        from harken.recipe import load_recipe

        return None if place is None else cls(*shape_of(load_recipe(expand_user(place) / "recipe.toml")))

    def beside(self, inputs: Any, width: int) -> Any:
        """The input of an encoder that also reads the layers."""
        from harken.models.reader import ContextInput

        return ContextInput(inputs, width, layers=self.layers, context=self.width)
