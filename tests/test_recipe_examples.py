"""The examples in the docstrings of recipes, checks and sizes are true."""

import doctest

import pytest

from harken import checking, recipe
from harken.models import size


@pytest.mark.parametrize("module", [recipe, checking, size], ids=lambda module: module.__name__)
def test_examples(module: object) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
