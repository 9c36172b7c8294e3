"""The base of all estimators: parameters, a run, and a pickle that is a model folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

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
from harken.tasks.sequence_task import length_batches

SEEDS = 2**31 - 1
SECTIONS = {"classify": "classifier", "regress": "regressor"}  # of a recipe
BATCH_TOKENS = 16384
ARCHITECTURES = ("transformer", "convolutional")  # that `cell` may name, as well as the cells
PARAMETERS = {"max_steps": "max_iter", "kind": "tokenizer", "size": "vocabulary_size", "seed": "random_state"}


class SequenceEstimator(BaseEstimator):
    """Parameters are those of `__init__`; the results of `fit` end in an underscore."""

    files_: running.Files

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("model_", None)  # the files say all of it, and hold no code
        return state

    @property
    def model(self) -> Any:
        """The job's object: what `harken.load` gives of `save`'s folder."""
        check_is_fitted(self, "files_")
        if "model_" not in self.__dict__:
            self.model_ = running.load_files(self.files_)
            self.model_.model.double()  # so that a row's result does not depend on its neighbours
        return self.model_

    def save(self, folder: str | Path) -> Path:
        """Write the model folder, for `harken.load` and the command line."""
        check_is_fitted(self, "files_")
        running.write(self.files_, Path(folder))
        return Path(folder)

    def _train(self, recipe: Recipe, prepare: Callable[[Any, Path], Prepared]) -> None:
        self.__dict__.pop("model_", None)
        with sklearn_errors():
            self.files_ = running.train_quietly(recipe, prepare)
        self.n_iter_: int = recipe.train.max_steps or 0
        _ = self.model

    def _recipe(self, task: str, sections: dict[str, Any], batch_tokens: int) -> Any:
        """A recipe of this estimator's parameters and some sections.

        Raises:
            ValueError: a parameter that no recipe would take, in scikit-learn's words.
        """
        self._check_parameters()
        known: Any = self
        seed = known.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(SEEDS)
        train = {
            "max_steps": known.max_iter,
            "batch_tokens": max(1, batch_tokens),
            "learning_rate": known.learning_rate,
            "schedule": "cosine",
            "warmup_steps": min(10, known.max_iter // 10),
            "label_smoothing": 0.0,
            "validate_every": known.max_iter,
            "checkpoint_every": 10 * known.max_iter,
            "log_every": known.max_iter,
            "average": 0.0,
            "precision": "float32",
            "device": known.device,
            "workers": 1,
            "threads": 1,
            "seed": int(seed),
        }
        model: dict[str, Any] = {"width": known.width, "dropout": known.dropout, "layers": known.layers}
        if known.cell in CELLS:
            model |= {"architecture": "recurrent", "cell": known.cell, "embedding": known.width}
        else:
            model |= {"architecture": known.cell}
            model |= {"feedforward": 4 * known.width} if known.cell == "transformer" else {"embedding": known.width}
        if hasattr(known, "bidirectional") and known.cell in CELLS:
            model["bidirectional"] = known.bidirectional
        values: dict[str, Any] = {"task": task, **sections, "train": train}
        values["model"] = {**model, **sections.get("model", {})}
        try:
            return recipe_class(task).model_validate(values)
        except ValidationError as problem:
            raise ValueError(self._explain(problem)) from None

    def _check_parameters(self) -> None:
        """Check what is computed with before a recipe is made."""
        for name in ("max_iter", "batch_size", "width", "layers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(self._wrong(name, "an int of at least 1", value))
        with sklearn_errors():
            if self.cell not in ARCHITECTURES and self.cell not in CELLS:
                known = ", ".join(repr(name) for name in (*CELLS.names(), *ARCHITECTURES))
                raise ValueError(self._wrong("cell", f"one of {known}", self.cell))

    def _wrong(self, name: str, allowed: str, value: Any) -> str:
        return f"The {name!r} parameter of {type(self).__name__} must be {allowed}. Got {value!r} instead."

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
    """One answer for each text or array: the reading, training and prediction of classifiers and regressors."""

    def _fit(self, task: str, X: Any, y: Any, section: dict[str, Any], check: Callable[[Any], Any]) -> None:
        """Train on examples and what `check` makes of y; `section` holds the job's own keys."""
        known: Any = self
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        self.kind_, examples = read(self, X, reset=True, samples=2)
        targets = check(y)
        rows_alike(examples, targets)
        labelled = Labelled(examples, list(targets))
        longest = max(len(example.split()) + 1 if self.kind_ == "text" else len(example) for example in examples)
        sections = {
            "data": {"kind": self.kind_, "train": "memory"},
            "tokenizer": {"kind": known.tokenizer, "size": known.vocabulary_size},
            SECTIONS[task]: {"pooling": known.pooling, "dropout": known.dropout, **section},
        }
        recipe = self._recipe(task, sections, known.batch_size * longest)
        splits, job = LabelledSplits("memory", labelled, labelled, {}), cast(LabelledJob, job_of(task))
        self._train(recipe, lambda recipe, folder: job.prepare_examples(recipe, splits, folder))

    def _outputs(self, X: Any) -> np.ndarray:
        """The network's answer for every example, (N, K) in double precision."""
        predictor = self.model
        _, examples = read(self, X, reset=False)
        network = predictor.model.eval()

        def call(values: torch.Tensor, lengths: torch.Tensor) -> np.ndarray:
            values = values.double() if values.is_floating_point() else values
            answer = network(values.to(predictor.device), lengths.to(predictor.device))
            answer = answer[0] if isinstance(answer, tuple) else answer
            return np.asarray(answer.double().cpu())

        with sklearn_errors(), torch.no_grad():
            rows = as_rows(examples, predictor.recipe, predictor.tokenizer, predictor.channels)
            batches = list(length_batches(rows.lengths, BATCH_TOKENS))
            answers = np.concatenate([call(*rows.gather(batch)) for batch in batches])
        ordered = np.empty_like(answers)
        ordered[np.concatenate(batches)] = answers
        return ordered

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
