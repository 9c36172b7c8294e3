"""A trained model as an object to use: what `harken.load` gives back for every job.

A subclass says what its folder holds beside the weights and how its network is built, and adds the calls of its job:

    class MaskedLanguageModel(Predictor[MaskedRecipe, MaskedModel]):
        tokenizer: Tokenizer
        parts = (("tokenizer", TokenizerArtifact()),)       # attributes that are loaded from the folder

        @staticmethod
        def build(recipe, tokenizer):                       # a network without its weights
            return MaskedModel(recipe.model, tokenizer.size)

        def fill(self, text): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from harken.errors import UserError
from harken.lazy_torch import is_loaded, torch
from harken.search.stored import StoredModel
from harken.tasks.artifacts import Artifact
from harken.tasks.sequence_task import length_batches
from harken.training.device import choose_device
from harken.training.digests import require_unchanged
from harken.training.folder import MODEL
from harken.training.weights import load_weights

if TYPE_CHECKING:
    from torch import nn

BATCH_TOKENS = 16384  # that are read at once outside training
R = TypeVar("R", bound=Any)  # the job's recipe
M = TypeVar("M", bound="nn.Module")  # its network
T = TypeVar("T")
Progress = Callable[[int], None]  # called with the number done since the last call


def require_texts(texts: Any) -> list[str]:
    """Several texts as a list.

    Raises:
        UserError: a single text, or values that are no texts.

    >>> require_texts(("a", "b"))
    ['a', 'b']
    """
    if isinstance(texts, str):
        raise UserError("a single text was given where a list is expected; write [text]")
    if not isinstance(texts, Iterable):
        raise UserError(f"{type(texts).__name__} was given where texts are expected; give strings")
    listed = list(texts)
    for number, text in enumerate(listed, 1):
        if not isinstance(text, str):
            raise UserError(f"text {number} is a {type(text).__name__}; give strings")
    return listed


def network_facts(predictor: Any) -> dict[str, Any]:
    """The number of parameters of a loaded model, and whether it has recurrent layers to look into."""
    if isinstance(predictor.model, StoredModel):
        return dict(predictor.model.facts)
    from harken.inspection.measures.tracing import is_traceable  # imports torch

    return {
        "parameters": sum(parameter.numel() for parameter in predictor.model.parameters()),
        "recurrent": any(is_traceable(module) for module in predictor.model.modules()),
    }


class Rows(Protocol):
    """Sequences that can be gathered into a padded batch: `harken.data.io.token_rows.TokenRows` and the like."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> np.ndarray:
        """(N,) steps of every row."""

    def gather(self, rows: Any) -> tuple[Any, torch.Tensor]:
        """Padded values, and lengths (B,)."""


class Predictor(Generic[R, M]):
    """Recipe, network and artifacts of one folder."""

    parts: ClassVar[tuple[tuple[str, Artifact[Any]], ...]] = ()  # attributes that are loaded from the folder
    build: ClassVar[Callable[..., nn.Module]]  # from a recipe and the parts to a network with new weights

    folder: Path | None

    def __init__(self, recipe: R, model: M, *values: Any, **named: Any) -> None:
        """
        Args:
            values, named: the parts, in their order or by name; after them the folder, if there is one.

        Raises:
            TypeError: a part is missing, or a name is none of a part.
        """
        self.recipe, self.model = recipe, model.eval()
        names = [*(name for name, _ in self.parts), "folder"]
        given = {"folder": None, **dict(zip(names, values, strict=False)), **named}
        if given.keys() != set(names) or len(values) > len(names):
            raise TypeError(f"{type(self).__name__} is made from a recipe, a network, {', '.join(names)}")
        for name, value in given.items():
            setattr(self, name, value)

    @classmethod
    def open(cls, folder: Path, recipe: R, device: str) -> Self:
        """The artifacts of a folder and a network of the right shape; `load` fills in the weights.

        Raises:
            UserError: an artifact is missing or damaged.
        """
        values = [artifact.load(folder) for _, artifact in cls.parts]
        return cls(recipe, cls.build(recipe, *values), *values, folder)  # type: ignore[arg-type]

    @classmethod
    def load(cls, folder: Path, recipe: R, device: str = "auto") -> Self:
        """The model of a folder whose recipe was read.

        Raises:
            UserError: the folder does not hold together.
        """
        device = choose_device(device)
        require_unchanged(folder)
        from harken.training.opening import without_initialization  # imports torch

        with without_initialization():
            predictor = cls.open(folder, recipe, device)
        load_weights(predictor.model, folder / MODEL)
        predictor.model.to(device).eval()
        return predictor

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    @property
    def is_on_cpu(self) -> bool:
        """Whether the model is on a CPU, as those are that run without their network."""
        return isinstance(self.model, StoredModel) or self.device.type == "cpu"

    def map(
        self,
        batches: Iterable[Sequence[int] | np.ndarray],
        call: Callable[[Any], Iterable[T]],
        progress: Progress | None = None,
    ) -> list[T]:
        """`call(indices)` for every batch, without gradients; results by rising index, however they were batched.

        Args:
            batches: the indices of each batch.
            call: gives one result for each of its indices.
            progress: called with the size of each batch that is done.
        """
        by_index: dict[int, T] = {}
        for indices in batches:
            with torch.no_grad() if is_loaded() else nullcontext():
                results = call(indices)
            by_index.update(zip((int(index) for index in indices), results, strict=True))
            if progress:
                progress(len(indices))
        return [by_index[index] for index in sorted(by_index)]

    def map_rows(
        self,
        rows: Rows,
        call: Callable[[Any, torch.Tensor], torch.Tensor],
        progress: Progress | None = None,
        budget: int = BATCH_TOKENS,
    ) -> list[np.ndarray]:
        """`call(values, lengths) -> (B, ...)` over rows in batches of like length; an array for each row, in order."""

        def run(indices: np.ndarray) -> np.ndarray:
            values, lengths = rows.gather(indices)
            return call(values.to(self.device), lengths.to(self.device)).cpu().numpy()

        return self.map(length_batches(rows.lengths, budget), run, progress)

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        folder = f", {str(self.folder)!r}" if self.folder else ""
        return f"{type(self).__name__}({self.recipe.model.title!r}, {parameters:,} parameters, {self.device}{folder})"
