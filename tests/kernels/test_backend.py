"""The protocol by which every implementation is chosen."""

import pytest

from harken.kernels.backend import Backend, choose, reference

SMALL = Backend("small", lambda number: "the number is large" if number > 9 else None, lambda number: number + 1)
LIBRARY = Backend("library", lambda number: "the number is odd" if number % 2 else None, abs, is_kernel=False)
BACKENDS = SMALL, LIBRARY, reference("reference", lambda number: -number)


def test_the_first_that_supports_a_call_is_chosen() -> None:
    assert [choose(BACKENDS, number).name for number in (3, 4, 12, 13)] == ["small", "small", "library", "reference"]
    assert [choose(BACKENDS, number).run(number) for number in (3, 12, 13)] == [4, 12, -13]


def test_the_reason_is_that_of_the_rule() -> None:
    assert SMALL.supports(3) and SMALL.why_not(3) is None
    assert not SMALL.supports(12) and SMALL.why_not(12) == "the number is large"
    assert BACKENDS[-1].why_not(13) is None


def test_kernels_are_left_out_where_they_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert SMALL.why_not(3) == "HARKEN_KERNELS=off is set"
    assert [choose(BACKENDS, number).name for number in (3, 4)] == ["reference", "library"]
