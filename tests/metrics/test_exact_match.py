"""Exact match: right as a whole or not at all."""

import pytest

from harken.errors import UserError
from harken.metrics import exact_match


def test_only_whole_outputs_count_and_spacing_does_not() -> None:
    found = exact_match(["a b", "a  b ", "a c", "ab"], ["a b"] * 4)
    assert found.value == 50.0
    assert 0.0 <= found.low < 50.0 < found.high <= 100.0
    assert exact_match(["a"] * 9, ["a"] * 9).low == 100.0


def test_lines_must_pair() -> None:
    with pytest.raises(UserError, match="2 outputs and 1 references"):
        exact_match(["a", "b"], ["a"])
