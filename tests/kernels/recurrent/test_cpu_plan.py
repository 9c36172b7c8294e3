"""Threads share the rows of a packed batch evenly, each row once."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harken.kernels.recurrent.cpu.plan import FEWEST_LANES, Plan


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60).filter(any), st.integers(1, 4), st.booleans())
def test_every_row_of_every_step_has_one_owner(lengths: list[int], parts: int, reverse: bool) -> None:
    sizes = [sum(length > time for length in lengths) for time in range(max(lengths))]
    plan = Plan(sizes, len(lengths))
    lanes = plan.lanes(parts)
    assert lanes[0][0] == 0
    assert lanes[-1][1] == sizes[0]
    assert all(before[1] == after[0] for before, after in pairwise(lanes))
    spans = [span for some in lanes for span in plan.spans(*some, reverse)]
    assert sorted(row for span in spans for row in range(span.start, span.start + span.rows)) == list(range(plan.total))


def test_work_is_even() -> None:
    plan = Plan([40] * 10 + [10] * 30, batch=40)
    work = [sum(span.rows for span in plan.spans(*some, False)) for some in plan.lanes(2)]
    assert sum(work) == 700
    assert max(work) <= 370
    assert len(Plan([2 * FEWEST_LANES - 1], batch=2 * FEWEST_LANES - 1).lanes(2)) == 1
