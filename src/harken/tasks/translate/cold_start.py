"""Translators that are opened without torch, by a stored description of their decoder (`harken.search.stored`).

`store` writes the description of a loaded translator, `open_stored` opens its folder by it. The result is a
`Translator` like any other: what the compiled search does not support builds the network, which imports torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.tokenizers.marks import add_marks
from harken.errors import UserError
from harken.machine import may_have_gpu
from harken.search.compiled import are_compiled, describe, why_not_installed
from harken.search.stored import StoredModel, file_of, flatten, is_complete, restored
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.translator import TOKENIZERS, Translator
from harken.training.folder import MODEL
from harken.training.weights import BASE, DIGEST, load_arrays, save_tensors, state_of, stored_metadata

DESCRIPTION, FACTS = "description", "facts"  # keys of the metadata


def store(translator: Translator, facts: Mapping[str, Any]) -> bool:
    """Write the description of a translator's decoder into the cache; False where it has none or cannot be written.

    Args:
        facts: what else is told of a translator without its network, in values of JSON.
    """
    from harken.lazy_torch import torch

    folder = translator.folder
    if folder is None or not translator.is_on_cpu or isinstance(translator.model, StoredModel):
        return False
    described, path = describe(translator.model), _file(folder, translator.recipe)
    if path is None or not is_complete(described):
        return False
    if path.is_file():
        return True
    names = {id(tensor): name for name, tensor in state_of(translator.model).items()}
    text, arrays = flatten(described, names)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        save_tensors(path, tensors, {DESCRIPTION: text, FACTS: json.dumps(facts)})
    except (OSError, UserError):  # the cache cannot be written: the network is built each time
        return False
    return True


def why_not_stored(folder: Path, recipe: TranslateRecipe, device: str = "auto") -> str | None:
    """The reason for which a folder is opened with its network; None: it is opened without torch."""
    if reason := why_not_installed():
        return reason
    if device != "cpu" and (device != "auto" or may_have_gpu()):
        return "there may be a GPU"
    path = _file(folder, recipe)
    if path is None:
        return "the model is an adapter, or of harken 0.1"
    return None if path.is_file() else "no description of its decoder is stored yet"


def open_stored(folder: Path, recipe: TranslateRecipe, build: Callable[[], Any]) -> Translator | None:
    """A translator without its network; None where its description is damaged, or its kernels have to be compiled.

    Args:
        build: gives the network where something needs it.

    Raises:
        UserError: the folder does not hold together.
    """
    arrays, _ = load_arrays(folder / MODEL)
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise UserError(f"{folder / MODEL} has NaN or infinite values in {name[:200]}; train the model again")
    path = _file(folder, recipe)
    with suppress(UserError, KeyError, TypeError, ValueError):
        own, metadata = load_arrays(path) if path is not None else ({}, {})
        described = restored(json.loads(metadata[DESCRIPTION]), {**arrays, **own})
        model: Any = StoredModel(described, build, json.loads(metadata[FACTS]))
        source, target = add_marks(recipe, *TOKENIZERS.load(folder))
        return Translator(recipe, model, source, target, folder) if are_compiled(described) else None
    return None


def _file(folder: Path, recipe: TranslateRecipe) -> Path | None:
    """The file of a folder's description; None where its weights are not in one file with a digest."""
    metadata = stored_metadata(folder / MODEL)
    if BASE in metadata or DIGEST not in metadata:
        return None
    return file_of(metadata[DIGEST], recipe.model.model_dump_json())
