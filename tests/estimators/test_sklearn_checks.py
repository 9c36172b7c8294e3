"""scikit-learn's own checks of estimators."""

import warnings
from typing import Any

import pytest

import harken

checks = pytest.importorskip("sklearn.utils.estimator_checks")

# What does not apply, and why.
EXPECTED: dict[str, dict[str, str]] = {
    "SequenceRegressor": {},
    "SequenceClassifier": {},
    "SequenceForecaster": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_check_estimator(name: str) -> None:
    estimator: Any = getattr(harken, name)(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = checks.check_estimator(estimator, expected_failed_checks=EXPECTED[name], on_fail=None, on_skip=None)
    assert len(results) > 40
    failed = {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}
    assert failed == {}
