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
from harken.search.stored import StoredModel, file_of, flatten, is_complete, restored, vocabularies
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.translator import TOKENIZERS, Translator
from harken.training.folder import MODEL
from harken.training.weights import BASE, DIGEST, load_arrays, save_tensors, state_of, stored_metadata

DESCRIPTION, FACTS = "description", "facts"  # keys of the metadata
MOST_STORED = 200  # descriptions in the cache; the oldest are deleted


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
    with suppress(UserError):  # there is none, or a damaged one, which is replaced
        load_arrays(path)
        return True
    try:
        stored, _ = load_arrays(folder / MODEL)  # of an earlier version or in half precision: other names, other types
        same = (name for name, array in stored.items() if array.dtype == np.float32)
        state = state_of(translator.model)
        text, arrays = flatten(described, {id(state[name]): name for name in same if name in state})
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        save_tensors(path, tensors, {DESCRIPTION: text, FACTS: json.dumps(facts)})
        files = sorted(path.parent.glob("*.safetensors"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[MOST_STORED:]:
            file.unlink(missing_ok=True)
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
    """A translator without its network; None where its kernels have to be compiled, its description is damaged, or the
    folder does not hold together, of which the network says what is wrong.

    Args:
        build: gives the network where something needs it.
    """
    with suppress(UserError, KeyError, TypeError, ValueError):
        arrays, metadata = load_arrays(folder / MODEL)
        digest = metadata[DIGEST]

        def build_same() -> Any:
            if stored_metadata(folder / MODEL).get(DIGEST) != digest:
                raise UserError(f"{folder / MODEL} was written anew since the model was opened; open it again")
            return build()

        own, metadata = load_arrays(file_of(digest, recipe.model.model_dump_json()))
        described = restored(json.loads(metadata[DESCRIPTION]), {**arrays, **own})
        model: Any = StoredModel(described, build_same, json.loads(metadata[FACTS]))
        source, target = add_marks(recipe, *TOKENIZERS.load(folder))
        if vocabularies(described) == (source.size, target.size) and are_compiled(described):
            return Translator(recipe, model, source, target, folder)
    return None


def _file(folder: Path, recipe: TranslateRecipe) -> Path | None:
    """The file of a folder's description; None where its weights are not in one file with a digest."""
    metadata = stored_metadata(folder / MODEL)
    if BASE in metadata or DIGEST not in metadata:
        return None
    return file_of(metadata[DIGEST], recipe.model.model_dump_json())
