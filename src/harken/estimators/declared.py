"""`harken.estimator_of`: the estimator of any job, derived from what it declares.

X and y of a job without an estimator of its own become the columns that its recipe declares (`Recipe.input_column`,
`Recipe.target_column`). `fit` trains on that table, `predict` gives the results of `Job.predict`, and `score` the first
metric of `Job.score`, negative where lower is better.

    Translation = harken.estimator_of("translate")
    model = Translation(max_iter=200, model={"architecture": "transformer", "width": 64}).fit(sources, targets)
    GridSearchCV(model, {"model__width": [32, 64]})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import make_dataclass
from functools import cache
from importlib import import_module
from typing import Any, Self

import numpy as np

from harken.errors import UserError
from harken.estimators.base import JobEstimator, sklearn_errors
from harken.estimators.inputs import rows_alike, text_column
from harken.recipe import as_recipe
from harken.registry import recipe_class
from harken.run import of_table
from harken.tasks.job import Prepared
from harken.tasks.registry import job_of
from harken.tasks.results import as_result


def estimator_of(task: str) -> type[JobEstimator]:
    """The class of the estimator of a job, also of one that a plugin registers.

    Raises:
        UserError: there is no such job, or its recipe declares no column to read.
    """
    job: Any = type(job_of(task))
    return _estimator_of(task, job)


@cache
def _estimator_of(task: str, job: Any) -> type[JobEstimator]:
    if job.estimator is not None:
        place, _, attribute = job.estimator.partition(":")
        own: type[JobEstimator] = getattr(import_module(place), attribute)
        return own if own.task == task else type(attribute, (Derived, own), {"task": task})
    recipe = recipe_class(task)
    if recipe.input_column is None:
        raise UserError(f"{task} has no estimator: its recipe declares no input_column")
    name = "".join(part.capitalize() for part in re.split(r"\W+|_", task.rpartition(":")[2]))
    tables = [(table, Any, None) for table in recipe.model_fields if table != "task"]
    fields = [*tables, ("max_iter", int, 100), ("device", str, "cpu"), ("random_state", Any, None)]
    return make_dataclass(
        f"{name}Estimator", fields, bases=(TableEstimator,), namespace={"task": task}, eq=False, repr=False
    )


class Derived(JobEstimator):
    """An estimator whose class is made by `estimator_of`, and made anew where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.task,), self.__getstate__()


def _restore(task: str) -> JobEstimator:
    kind = estimator_of(task)
    return kind.__new__(kind)


class TableEstimator(Derived):
    """Trains on X and y as columns of a table; a parameter is a table of the recipe, as a dict of its keys.

    Single keys have names as in nested estimators: `set_params(model__width=64)`.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also the keys of tables."""
        params: dict[str, Any] = super().get_params(deep=False)
        tables = {name: value for name, value in params.items() if deep and isinstance(value, Mapping)}
        return params | {f"{name}__{key}": value for name, table in tables.items() for key, value in table.items()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and keys of tables.

        Raises:
            ValueError: a name that is no parameter.
        """
        known = super().get_params(deep=False)
        for given, value in params.items():
            name, _, key = given.partition("__")
            if name not in known:
                shown = ", ".join(known)
                raise ValueError(f"Invalid parameter {name!r} for estimator {type(self).__name__}; it has {shown}")
            setattr(self, name, {**(getattr(self, name) or {}), key: value} if key else value)
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Examples, and a target for each where the job declares a `target_column`."""
        self._check_counts("max_iter")
        job, kind, table = job_of(self.task), recipe_class(self.task), self._table(X, y)
        given = {name: getattr(self, name) or {} for name in kind.model_fields if name != "task"}
        if wrong := next((name for name, value in given.items() if not isinstance(value, Mapping)), None):
            raise ValueError(self._wrong(wrong, f"a dict of keys of [{wrong}]", given[wrong]))
        values = {name: dict(value) for name, value in given.items()}
        values["train"] = {**self._train_section(), **values["train"]}
        values["data"] |= {column.key: name for column, name in kind.column_names().items() if column.key}
        if kind.data_fields()[job.table_key].is_required():
            values["data"] |= {job.table_key: "memory"}  # `of_table` names the table
        with sklearn_errors():
            tables = {name: value for name, value in values.items() if value or name == "data"}
            recipe = of_table(as_recipe({"task": self.task, **tables}, with_data=False), job, table)

            def prepare(recipe: Any, folder: Any) -> Prepared:
                return job.prepare_table(recipe, table, folder, resuming=False)

            self._train(recipe, prepare)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(N,) results as objects: texts, or what a route sends of others."""
        model, job = self.predictor, job_of(self.task)
        options = None if job.interface is None else job.interface.options()
        with sklearn_errors():
            values = job.predict(model, list(text_column(X)), options, lambda done: None)
            results = [value if isinstance(value, str) else as_result(value).to_json(options) for value in values]
        predictions = np.empty(len(results), dtype=object)
        predictions[:] = results
        return predictions

    def score(self, X: Any, y: Any = None) -> float:
        """The job's first metric, negative where lower is better."""
        model, job = self.predictor, job_of(self.task)
        with sklearn_errors():
            examples = job.read_table(model.recipe, self._table(X, y))
            metric = job.score(model, examples, lambda done: None).metrics[0]
        return -metric.value if metric.lower_is_better else metric.value

    def _table(self, X: Any, y: Any) -> dict[str, list[Any]]:
        """X, and y where the job predicts a column, by the names of their columns."""
        names, given = recipe_class(self.task).column_names(), [text_column(X)]
        if len(names) > 1:
            if y is None:
                raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
            rows_alike(X, y)
            given.append(y)
        if not len(given[0]):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return {name: list(values) for name, values in zip(names.values(), given, strict=True)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.required = len(recipe_class(self.task).column_names()) > 1
        return tags
