"""`embeddings.elmo = "FOLDER"`: a frozen ELMo, or language model, beside the word vectors of another job.

    context = context_of(path, folder, resuming)         a copy of it in the job's own folder, which so stays whole
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

COPY = "elmo"  # its name in the folder of the job
LEFT_OUT = ("checkpoint.safetensors", "metrics.jsonl", "card.md")


class ContextArtifact(Artifact["Context"]):
    """The copy of a frozen model in the job's own folder, so that the folder stays whole without it."""

    names = frozenset((COPY,))

    def save(self, value: Context, folder: Path) -> None:
        target = folder / COPY
        target.mkdir(exist_ok=True)
        for path in sorted(expand_user(value.path).iterdir()):
            if path.is_file() and path.name not in LEFT_OUT:
                shutil.copyfile(path, target / path.name)

    def load(self, folder: Path) -> Context:
        return open_context(folder / COPY)


CONTEXT = ContextArtifact()


class Context:
    """A frozen model with its layers."""

    def __init__(self, model: Any, path: str | Path) -> None:
        self.model, self.path = model, str(path)
        shape = job_of(model.recipe.task).context_shape(model.recipe)
        assert shape is not None
        self.layers, self.width = shape
        model.model.requires_grad_(False)

    def of(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """(T, L, W) for every sentence of words."""
        if hasattr(self.model, "vectors_of_all"):
            states = self.model.vectors_of_all(sentences)
        else:
            nothing = np.zeros((self.layers, 0, self.width), np.float32)
            states = [word_states(self.model, words) if words else nothing for words in sentences]
        return [layers.transpose(1, 0, 2).astype(np.float16) for layers in states]

    def rows(
        self, rows: Any, sentences: Sequence[Sequence[str]], word_indices: Sequence[Sequence[int]] | None = None
    ) -> ContextRows:
        """Rows with the layers of their words; `word_indices` says which word a step is, -1 for none (an end)."""
        states = self.of(sentences)
        if word_indices is not None:
            empty = np.zeros((1, self.layers, self.width), np.float16)
            states = [
                np.concatenate([layers, empty])[list(where)] for layers, where in zip(states, word_indices, strict=True)
            ]
        return ContextRows(rows, states)

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


def open_context(path: str | Path, device: str = "auto") -> Context:
    """The model of a folder, to be read alone.

    Raises:
        UserError: no finished model, or one that gives no vectors of words in context.
    """
    folder = expand_user(path)
    if not (folder / "recipe.toml").is_file():
        raise UserError(
            f"embeddings.elmo is {path}, which is no finished model folder; train one, as by: harken train wiki-elmo"
        )
    recipe = load_recipe(folder / "recipe.toml", with_data=False)
    job = job_of(recipe.task)
    if job.context_shape(recipe) is None:
        raise UserError(
            f"embeddings.elmo is {path}, a model with the task {recipe.task!r}, which gives no vectors of words in "
            "context; train one, as by: harken train wiki-elmo"
        )
    return Context(job.load(folder, recipe, device), path)


def context_of(path: str | None, folder: Path, resuming: bool) -> Context | None:
    """Load the frozen context of a run, None without one, from the copy in its folder that is made when it begins.

    Raises:
        UserError: as `open_context`.
    """
    if path is None:
        return None
    if not resuming:
        CONTEXT.save(open_context(path), folder)
    return CONTEXT.load(folder)
