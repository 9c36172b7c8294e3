"""The base of all estimators: parameters, a run, and a pickle that is a model folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from pydantic import ValidationError
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from harken.data.text.examples import Labelled, LabelledSplits
from harken.errors import UserError
from harken.estimators import running
from harken.estimators.inputs import read, rows_alike
from harken.recipe import Recipe
from harken.registry import CELLS, recipe_class
from harken.tasks.job import Prepared
from harken.tasks.labelled.job import LabelledJob
from harken.tasks.labelled.reading import as_rows
from harken.tasks.registry import job_of

SEEDS = 2**31 - 1
ARCHITECTURES = ("transformer", "convolutional")  # that `cell` may name, as well as the cells
PARAMETERS = {"max_steps": "max_iter", "kind": "tokenizer", "size": "vocabulary_size", "seed": "random_state"}


class JobEstimator(BaseEstimator):
    """The estimator of a job: the files of its model folder after `fit`, whose results end in an underscore.

    Parameters are the fields of the subclass, a dataclass.
    """

    task: ClassVar[str]  # the job
    max_iter: int
    device: str
    random_state: Any
    files_: running.Files

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("model_", None)  # the files say all of it, and hold no code
        return state

    @property
    def predictor(self) -> Any:
        """The job's object: what `harken.load` gives of `save`'s folder."""
        check_is_fitted(self, "files_")
        if "model_" not in self.__dict__:
            self.model_ = self._open()
        return self.model_

    def _open(self) -> Any:
        return running.load_files(self.files_)

    def save(self, folder: str | Path) -> Path:
        """Write the model folder, for `harken.load` and the command line."""
        check_is_fitted(self, "files_")
        running.write(self.files_, Path(folder))
        return Path(folder)

    def _train(self, recipe: Recipe, prepare: Callable[[Any, Path], Prepared]) -> None:
        """Train what `prepare` makes of the recipe."""
        self.__dict__.pop("model_", None)
        with sklearn_errors():
            self.files_ = running.train_quietly(recipe, prepare)
        self.n_iter_ = int(recipe.train.max_steps or self.max_iter)
        _ = self.predictor

    def _train_section(self) -> dict[str, Any]:
        """The keys of `[train]` that do not depend on the data."""
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(SEEDS)
        return {
            "max_steps": self.max_iter,
            "schedule": "cosine",
            "warmup_steps": min(10, self.max_iter // 10),
            "validate_every": self.max_iter,
            "checkpoint_every": 10 * self.max_iter,
            "log_every": self.max_iter,
            "average": 0.0,
            "precision": "float32",
            "device": self.device,
            "workers": 1,
            "threads": 1,
            "seed": int(seed),
        }

    def _check_counts(self, *names: str) -> None:
        """Check the parameters that are computed with before a recipe is made."""
        for name in names:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(self._wrong(name, "an int of at least 1", value))

    def _wrong(self, name: str, allowed: str, value: Any) -> str:
        return f"The {name!r} parameter of {type(self).__name__} must be {allowed}. Got {value!r} instead."


class SequenceEstimator(JobEstimator):
    """An estimator with parameters of its own in the place of a recipe's tables."""

    dtype: ClassVar[torch.dtype] = torch.float64  # of predictions: a row's result does not depend on its neighbours
    cell: str
    width: int
    layers: int
    bidirectional: bool  # of an estimator that may read both ways
    dropout: float
    batch_size: int
    learning_rate: float

    @property
    def model(self) -> Any:
        """The job's object, as `predictor`."""
        return self.predictor

    def _open(self) -> Any:
        model = super()._open()
        model.model.to(self.dtype)
        return model

    def _train_on(self, sections: dict[str, Any], longest: int, prepare: Callable[[Any, Path], Prepared]) -> None:
        """Train what `prepare` makes of the recipe, which has some sections of the subclass.

        Args:
            longest: steps of a sequence; `batch_size` of them are in every batch.

        Raises:
            ValueError: a parameter that no recipe would take, in scikit-learn's words.
        """
        self._check_parameters()
        batches = {"batch_tokens": max(1, self.batch_size * longest), "learning_rate": self.learning_rate}
        train = {**self._train_section(), **batches, "label_smoothing": 0.0}
        model = {**self._model_section(), **sections.get("model", {})}
        try:
            recipe = recipe_class(self.task).model_validate({**sections, "train": train, "model": model})
        except ValidationError as problem:
            raise ValueError(self._explain(problem)) from None
        self._train(recipe.model_copy(update={"task": self.task}), prepare)

    def _model_section(self) -> dict[str, Any]:
        model: dict[str, Any] = {"width": self.width, "dropout": self.dropout, "layers": self.layers}
        if self.cell not in CELLS:
            more = {"feedforward": 4 * self.width} if self.cell == "transformer" else {"embedding": self.width}
            return {**model, "architecture": self.cell, **more}
        directions = {"bidirectional": self.bidirectional} if hasattr(self, "bidirectional") else {}
        return {**model, "architecture": "recurrent", "cell": self.cell, "embedding": self.width, **directions}

    def _require_target(self, y: Any) -> None:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")

    def _check_parameters(self) -> None:
        """Check what is computed with before a recipe is made."""
        self._check_counts("max_iter", "batch_size", "width", "layers")
        with sklearn_errors():
            if self.cell not in ARCHITECTURES and self.cell not in CELLS:
                known = ", ".join(repr(name) for name in (*CELLS.names(), *ARCHITECTURES))
                raise ValueError(self._wrong("cell", f"one of {known}", self.cell))

    def _explain(self, problem: ValidationError) -> str:
        """The first problem of a recipe, as a problem of the parameter that it was made from."""
        details = problem.errors(include_url=False)[0]
        key = str(details["loc"][-1])
        name = PARAMETERS.get(key, key)
        allowed = str(details["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
        if name not in self.get_params(deep=False):
            return f"{type(self).__name__}: {allowed}"
        return self._wrong(name, allowed, getattr(self, name))


class WholeSequenceEstimator(SequenceEstimator):
    """One answer for each text or array: the reading, training and prediction of classifiers and regressors.

    Args:
        cell: lstm, gru, rnn, transformer or convolutional: what reads.
        width: of the states; `layers` of them.
        pooling: last, mean, max or attention: from all states to one vector.
        max_iter: updates; `batch_size` sequences each.
        tokenizer: word, character or bpe, for texts; at most `vocabulary_size` pieces.
    """

    section: ClassVar[str]  # of a recipe: the job's own
    pooling: str
    tokenizer: str
    vocabulary_size: int

    def fit(self, X: Any, y: Any) -> Self:
        """Texts or arrays (`harken.estimators.inputs`) and a label or number for each."""
        self._require_target(y)
        self.kind_, examples = read(self, X, reset=True, samples=2)
        targets = self._targets(y)
        rows_alike(examples, targets)
        labelled = Labelled(examples, targets)
        longest = max(len(example.split()) + 1 if self.kind_ == "text" else len(example) for example in examples)
        sections = {
            "data": {"kind": self.kind_, "train": "memory"},
            "tokenizer": {"kind": self.tokenizer, "size": self.vocabulary_size},
            self.section: {"pooling": self.pooling, "dropout": self.dropout, **self._section_keys()},
        }
        job = cast(LabelledJob, job_of(self.task))

        def prepare(recipe: Any, folder: Path) -> Prepared:
            return job.prepare_examples(recipe, self._splits(labelled, recipe.train.seed), folder)

        self._train_on(sections, longest, prepare)
        return self

    def _splits(self, examples: Labelled, seed: int) -> LabelledSplits:
        """Examples to train and to validate on: by default the same."""
        return LabelledSplits("memory", examples, examples, {})

    def _targets(self, y: Any) -> list[Any]:
        """The targets that the job reads of y, checked."""
        raise NotImplementedError

    def _section_keys(self) -> dict[str, Any]:
        """The job's keys beside those of all."""
        raise NotImplementedError

    def _outputs(self, X: Any) -> np.ndarray:
        """The network's answer for every example, (N, K) in double precision."""
        predictor = self.model
        _, examples = read(self, X, reset=False)

        def call(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            answer = predictor.model(values.double() if values.is_floating_point() else values, lengths)
            logits: torch.Tensor = answer[0] if isinstance(answer, tuple) else answer
            return logits.double()

        with sklearn_errors():
            rows = as_rows(examples, predictor.recipe, predictor.tokenizer, predictor.channels)
            return np.stack(predictor.map_rows(rows, call))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags


@contextmanager
def sklearn_errors() -> Iterator[None]:
    """Raise a user's error of harken as the ValueError that scikit-learn expects."""
    try:
        yield
    except UserError as problem:
        raise ValueError(str(problem)) from problem
