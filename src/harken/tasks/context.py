"""`embeddings.elmo = "FOLDER"`: a frozen ELMo, or language model, beside the word vectors of another job.

    context = context_of(place, folder, resuming)        a copy of it in the job's own folder, which so stays whole
    rows = context.rows(rows, sentences)                 the layers of every sentence, made once and kept as float16
    inputs = context.beside(inputs, width)               mix, and map to the encoder's width

The learned mix is `reader.inputs.mix` of the model.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harken.embeddings.contextual import word_states
from harken.errors import UserError
from harken.files import expand_user
from harken.models.reader import ContextInput, InContext
from harken.recipe import load_recipe
from harken.tasks.artifacts import Artifact
from harken.tasks.registry import job_of

KINDS = ("elmo", "language")  # tasks of models that give vectors in context
COPY = "elmo"  # its name in the folder of the job
LEFT_OUT = ("checkpoint.safetensors", "metrics.jsonl", "card.md")


class ContextArtifact(Artifact["Context"]):
    """The copy of a frozen model in the job's own folder, so that the folder stays whole without it."""

    names = frozenset((COPY,))

    def save(self, value: Context, folder: Path) -> None:
        copy_context(value.place, folder)

    def load(self, folder: Path) -> Context:
        context = open_context(folder / COPY)
        assert context is not None
        return context


CONTEXT = ContextArtifact()


class Context:
    """A frozen model with its layers."""

    def __init__(self, model: Any, place: str | Path) -> None:
        self.model, self.place = model, str(place)
        self.layers, self.width = shape_of(model.recipe)
        model.model.requires_grad_(False)

    def of(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """(T, L, W) for every sentence of words."""
        if hasattr(self.model, "vectors_of_all"):
            made = self.model.vectors_of_all(sentences)
        else:
            nothing = np.zeros((self.layers, 0, self.width), np.float32)
            made = [word_states(self.model, words) if words else nothing for words in sentences]
        return [layers.transpose(1, 0, 2).astype(np.float16) for layers in made]

    def rows(
        self, rows: Any, sentences: Sequence[Sequence[str]], places: Sequence[Sequence[int]] | None = None
    ) -> ContextRows:
        """Rows with the layers of their words; `places` says which word a step is, -1 for none (an end)."""
        made = self.of(sentences)
        if places is not None:
            empty = np.zeros((1, self.layers, self.width), np.float16)
            made = [np.concatenate([layers, empty])[list(where)] for layers, where in zip(made, places, strict=True)]
        return ContextRows(rows, made)

    def beside(self, inputs: nn.Module, width: int) -> ContextInput:
        """The input of an encoder, joined with the layers."""
        return ContextInput(inputs, width, layers=self.layers, context=self.width)


class ContextRows:
    """Rows of any kind, and the layers of each."""

    def __init__(self, rows: Any, layers: Sequence[np.ndarray]) -> None:
        self.inner, self.layers = rows, [torch.from_numpy(layer) for layer in layers]  # (T, L, W) each

    def __len__(self) -> int:
        return len(self.inner)

    @property
    def lengths(self) -> np.ndarray:
        """Steps of every row."""
        lengths: np.ndarray = self.inner.lengths
        return lengths

    def gather(self, rows: Sequence[int] | np.ndarray) -> tuple[InContext, Tensor]:
        """The chosen rows, padded, and their lengths (B,)."""
        values, lengths = self.inner.gather(rows)
        layers = torch.nn.utils.rnn.pad_sequence([self.layers[int(row)] for row in rows], batch_first=True)
        return InContext(values, layers), lengths


def open_context(place: str | Path | None, device: str = "auto") -> Context | None:
    """The model of a folder, to be read alone; None where no place is given.

    Raises:
        UserError: no finished model, or one that gives no vectors of words in context.
    """
    if place is None:
        return None
    folder = expand_user(place)
    recipe = folder / "recipe.toml"
    if not recipe.is_file():
        raise UserError(
            f"embeddings.elmo is {place}, which is no finished model folder; train one, as by: harken train wiki-elmo"
        )
    read = load_recipe(recipe)
    if read.task not in KINDS:
        raise UserError(
            f"embeddings.elmo is {place}, a model with the task {read.task!r}; give one with the task "
            f"{' or '.join(KINDS)}"
        )
    return Context(job_of(read.task).load(folder, read, device), place)


def context_of(place: str | None, folder: Path, resuming: bool) -> Context | None:
    """Load the frozen context of a run, None without one, from the copy in its folder that is made when it begins.

    Raises:
        UserError: as `open_context`.
    """
    if place is None:
        return None
    if not resuming:
        context = open_context(place)
        assert context is not None
        CONTEXT.save(context, folder)
    return CONTEXT.load(folder)


def copy_context(place: str | Path, folder: Path) -> None:
    """Put what is needed to read with it into a job's folder."""
    target = folder / COPY
    target.mkdir(exist_ok=True)
    for path in sorted(expand_user(place).iterdir()):
        if path.is_file() and path.name not in LEFT_OUT:
            shutil.copyfile(path, target / path.name)


def shape_of(recipe: Any) -> tuple[int, int]:
    """(layers, width) of what the model of a recipe gives for a word.

    elmo        the words and each layer, both directions side by side          (L + 1, 2 D)
    language    each layer                                                      (L, H)
    """
    model = recipe.model
    if recipe.task == "elmo":
        return model.layers + 1, 2 * model.width
    narrow = model.architecture == "recurrent" and model.top == "embedding"
    return model.layers, max(model.width if not narrow or model.layers > 1 else 0, model.embedding if narrow else 0)
