"""A job: what one kind of task needs around the one trainer (`harken.tasks.registry` knows where)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.errors import UserError
from harken.tasks.scores import Scores
from harken.training.task import Task

if TYPE_CHECKING:
    from harken.inspection.picture import Picture


@dataclass
class Prepared:
    """A run that can start: the task to train, and what to say of it."""

    task: Task
    title: str  # of the card
    facts: dict[str, str]  # for the card: data, vocabulary ...
    lines: list[str]  # for the user
    flops_per_token: float  # of training on one term of the loss


class Job(ABC):
    """One kind of task."""

    # For `prepare_table`: the key of `[data]` that a table in memory takes the place of, and those that go with it.
    table_key = "train"
    table_instead_of: tuple[str, ...] = ("corpus", "dir", "valid", "test")

    @abstractmethod
    def prepare(self, recipe: Any, folder: Path, resuming: bool) -> Prepared:
        """Read the data, make or (going on) load what belongs in the folder beside the weights, and build the model.

        Raises:
            UserError: bad data.
        """

    @abstractmethod
    def load(self, folder: Path, recipe: Any, device: str) -> Any:
        """The model of a finished folder, as an object to use.

        Raises:
            UserError: the folder does not hold together.
        """

    def prepare_table(self, recipe: Any, table: dict[str, list[Any]], folder: Path, resuming: bool) -> Prepared:
        """As `prepare`, of a table in memory whose columns the recipe's `[data]` names.

        Raises:
            UserError: bad data, or a job that reads no tables.
        """
        raise UserError(f"a run with the task {recipe.task!r} takes no table in memory; name files in [data] instead")

    def owns_artifact(self, name: str) -> bool:
        """Whether `prepare` may have written this file before a run was killed."""
        return False

    def evaluate(self, model: Any, split: str | None, files: list[Path], progress: Callable[[int], None]) -> Scores:
        """Score a loaded model on `files`, or on a split of its own corpus ("test" where None), for `harken evaluate`.

        Raises:
            UserError: no such split, or files that do not fit.
        """
        raise UserError(f"harken evaluate does not know the task {model.recipe.task!r} in this form")

    def look(self, model: Any, example: str) -> Picture:
        """What the model pays attention to in one example (a text, or the path of a file), for `harken attention`.

        Raises:
            UserError: the model pays attention to nothing.
        """
        raise UserError(f"a model with the task {model.recipe.task!r} has no attention to show")

    def examples(self, model: Any, split: str) -> list[Any]:
        """Examples of a split of the model's own corpus, for `harken inspect --gradients`.

        Raises:
            UserError: no such split, or a job that cannot be looked into so.
        """
        raise UserError(f"harken inspect --gradients does not know the task {model.recipe.task!r}")

    def validation(self, best: dict[str, Any]) -> str:
        """The best validation, for the card; `best` is its line of metrics.jsonl."""
        left_out = ("kind", "step", "best", "seconds")
        return ", ".join(f"{name} {value:.4g}" for name, value in best.items() if name not in left_out)
