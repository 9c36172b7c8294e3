"""How many layers, and how wide, the vectors of a word in context are: from the recipe of what gives them (no torch).

elmo        the words and each layer, both directions side by side          (L + 1, 2 D)
language    each layer                                                      (L, H)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken.models.size_side import linear

KINDS = ("elmo", "language")


def shape_of(recipe: Any) -> tuple[int, int]:
    """(layers, width) of what the model of a recipe gives for a word."""
    model = recipe.model
    if recipe.task == "elmo":
        return model.layers + 1, 2 * model.width
    narrow = model.architecture == "recurrent" and model.top == "embedding"
    return model.layers, max(model.width if not narrow or model.layers > 1 else 0, model.embedding if narrow else 0)


def parameters_beside(place: str | None, width: int) -> int:
    """What `ContextInput` adds to a model whose embeddings have this width; 0 without a place.

    Raises:
        UserError: the folder has no readable recipe.
    """
    from harken.recipe import load_recipe

    if place is None:
        return 0
    layers, context = shape_of(load_recipe(Path(place).expanduser() / "recipe.toml"))
    return layers + 1 + linear(width + context, width)
