"""scikit-learn's own checks of estimators."""

import warnings
from typing import Any

import numpy as np
import pytest

import harken

checks = pytest.importorskip("sklearn.utils.estimator_checks")
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data  # noqa: E402


class TableTagger(harken.SequenceTagger):
    """A tagger of tables, which scikit-learn's checks pass: the values of a row are steps, each with the row's tag."""

    def fit(self, X: Any, y: Any) -> "TableTagger":
        table, tags = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        super().fit(table[..., None], [[tag] * table.shape[1] for tag in column_or_1d(tags)])
        return self

    def predict(self, X: Any) -> Any:
        check_is_fitted(self, "files_")
        table = validate_data(self, X, dtype=np.float64, reset=False)
        return np.array([float(tags[-1]) for tags in super().predict(table[..., None])])

    def score(self, X: Any, y: Any) -> float:
        return float(np.mean(self.predict(X) == y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


# What does not apply beside the checks that tags exclude, and why. There is none.
EXPECTED_FAILURES: dict[type, dict[str, str]] = {
    harken.SequenceRegressor: {},
    harken.SequenceClassifier: {},
    harken.SequenceForecaster: {},
    TableTagger: {},
}


@pytest.mark.parametrize(
    "kind", [kind if kind is TableTagger else pytest.param(kind, marks=pytest.mark.slow) for kind in EXPECTED_FAILURES]
)
def test_check_estimator(kind: Any) -> None:
    options = {"max_iter": 2, "width": 4} if kind is TableTagger else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = checks.check_estimator(
            kind(random_state=0, **options), expected_failed_checks=EXPECTED_FAILURES[kind], on_fail=None, on_skip=None
        )
    failed = {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) > 35


def test_tags_say_what_a_tagger_takes() -> None:
    tags = harken.SequenceTagger().__sklearn_tags__()
    checks.check_estimator(harken.SequenceTagger())
    assert not tags.input_tags.two_d_array and tags.input_tags.three_d_array
    assert tags.target_tags.required and not tags.target_tags.one_d_labels


def test_parameters_are_those_of_the_constructor_in_its_order() -> None:
    tagger = harken.SequenceTagger("gru", 16, 2, False)
    assert (tagger.cell, tagger.width, tagger.layers, tagger.bidirectional) == ("gru", 16, 2, False)
    forecaster = harken.SequenceForecaster(3, 12, 48, "lstm")
    assert (forecaster.horizon, forecaster.season, forecaster.window, forecaster.cell) == (3, 12, 48, "lstm")
    assert repr(harken.SequenceRegressor(loss="absolute")) == "SequenceRegressor(loss='absolute')"


@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("kind", [harken.SequenceClassifier, harken.SequenceRegressor])
def test_sparse_input_is_refused_in_every_form(kind: Any, form: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    for table in (sparse.random_array((8, 3), density=0.5, format=form), sparse.random(8, 3, density=0.5, format=form)):
        with pytest.raises(TypeError, match="Sparse input is not supported"):
            kind().fit(table, [0, 1] * 4)
