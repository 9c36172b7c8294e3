import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.batching import Count, token_batches

lengths = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=80)


def padding_share(batches: Sequence[np.ndarray], *lengths: Sequence[int] | np.ndarray) -> float:
    """The share of all padded tokens of these batches that is padding."""
    real = padded = 0
    for side in lengths:
        values = np.asarray(side, dtype=np.int64)
        real += sum(int(values[batch].sum()) for batch in batches)
        padded += sum(len(batch) * int(values[batch].max()) for batch in batches)
    return 1 - real / padded if padded else 0.0


def size(source: np.ndarray, target: np.ndarray, count: Count) -> int:
    longest_source, longest_target = int(source.max()), int(target.max())
    widths = {
        "max": max(longest_source, longest_target),
        "target": longest_target,
        "source": longest_source,
        "sum": longest_source + longest_target,
    }
    return len(source) * widths[count]


@given(
    lengths,
    st.integers(1, 200),
    st.sampled_from(["max", "target", "source", "sum"]),
    st.booleans(),
    st.integers(0, 2),
    st.one_of(st.none(), st.integers(1, 5)),
)
def test_every_row_once_and_the_budget_holds(
    pairs: list[tuple[int, int]], budget: int, count: Count, shuffle: bool, noise: int, max_rows: int | None
) -> None:
    source, target = (np.array([pair[side] for pair in pairs], dtype=int) for side in (0, 1))
    options = {"seed": 3, "shuffle": shuffle, "count": count, "noise": noise, "max_rows": max_rows}
    batches = token_batches(source, target, budget, epoch=0, **options)
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    for batch in batches:
        assert len(batch) == 1 or size(source[batch], target[batch], count) <= budget
        assert len(batch) <= (max_rows or len(pairs))
    again = token_batches(source, target, budget, epoch=0, **options)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]


def realistic(rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    source = np.clip(random.lognormal(2.6, 0.4, rows), 2, 120).astype(int)
    return source, np.clip(source * random.normal(1.1, 0.2, rows), 2, 120).astype(int)


def flat(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def test_order_depends_on_seed_and_epoch_alone() -> None:
    source, target = realistic(2000)
    first = flat(token_batches(source, target, 512, seed=1, epoch=0))
    assert flat(token_batches(source, target, 512, seed=1, epoch=0)) == first
    for seed, epoch in ((1, 1), (2, 0), (0, 1)):
        other = flat(token_batches(source, target, 512, seed=seed, epoch=epoch))
        assert other != first
        assert {frozenset(batch) for batch in other} != {frozenset(batch) for batch in first}
    longest = [int(max(source[batch].max(), target[batch].max())) for batch in first]
    assert longest != sorted(longest)  # batches are not left in order of length


def test_without_shuffling_short_rows_come_first() -> None:
    source, target = realistic(2000)
    batches = token_batches(source, target, 512, seed=1, epoch=0, shuffle=False)
    longest = [int(target[batch].max()) for batch in batches]
    assert longest == sorted(longest)
    assert flat(token_batches(source, target, 512, seed=9, epoch=4, shuffle=False)) == flat(batches)


def test_little_padding() -> None:
    source, target = realistic(29_000)
    batches = token_batches(source, target, 1024, seed=1, epoch=0)
    assert padding_share(batches, source, target) < 0.025
    assert padding_share(batches, target) < 0.005
    tokens = np.maximum(source, target).sum()
    assert len(batches) < 1.07 * tokens / 1024  # batches are nearly full
    noisy = token_batches(source, target, 1024, seed=1, epoch=0, noise=1)
    assert padding_share(noisy, source, target) < 0.06


def test_a_row_past_the_budget_is_alone() -> None:
    batches = token_batches([3, 50, 4], [3, 2, 4], 10, seed=1, epoch=0)
    assert sorted(sorted(batch) for batch in flat(batches)) == [[0, 2], [1]]


def test_a_million_rows_in_seconds() -> None:
    source, target = realistic(1_000_000)
    start = time.process_time()
    token_batches(source, target, 4096, seed=1, epoch=0)
    assert time.process_time() - start < 10


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match="two equal vectors"):
        token_batches([1, 2], [1], 10, seed=1, epoch=0)
    with pytest.raises(ValueError, match="must be positive"):
        token_batches([1], [1], 0, seed=1, epoch=0)
    assert len(token_batches([], [], 10, seed=1, epoch=0)) == 0
