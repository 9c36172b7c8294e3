"""Streams and chunks: all of the text, in order, by numbers that say everything."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.tasks.language.task import Chunks, fitting_streams, independent, stream_of, streams, total_length


@given(st.integers(1, 50), st.integers(0, 2**45), st.integers(2, 2**40), st.booleans())
def test_numbers_say_what_they_were_made_of(count: int, start: int, length: int, first: bool) -> None:
    made = Chunks(np.arange(count), start + 7 * np.arange(count), length, first)
    numbers = made.numbers()
    found = Chunks.read(numbers)
    assert found.streams.tolist() == made.streams.tolist() and found.starts.tolist() == made.starts.tolist()
    assert (found.length, found.first) == (length, first)
    assert total_length(numbers) == count * length
    assert stream_of(numbers).tolist() == made.streams.tolist()


def test_chunks_of_65536_tokens_and_more_are_cut_as_shorter_ones_are() -> None:
    batches = [Chunks.read(batch) for batch in streams(300_001, 2, 70_000, None)]
    assert [batch.length for batch in batches] == [70_000, 70_000, 10_000]
    assert [batch.starts.tolist() for batch in batches] == [[0, 150_000], [70_000, 220_000], [140_000, 290_000]]
    assert all(batch.streams.tolist() == [0, 1] for batch in batches)
    alone = Chunks.read(independent(200_001, 2, 65_536, np.random.default_rng(1))[0])
    assert alone.length == 65_536 and alone.starts.max() + alone.length <= 200_000


@given(st.integers(30, 400), st.integers(1, 6), st.integers(2, 20), st.floats(0, 4), st.integers(0, 9))
def test_every_stream_is_read_on_without_a_gap(tokens: int, wanted: int, chunk: int, vary: float, seed: int) -> None:
    count = fitting_streams(tokens, wanted, chunk)
    batches = [Chunks.read(batch) for batch in streams(tokens, count, chunk, np.random.default_rng(seed), vary)]
    assert [batch.first for batch in batches] == [True] + [False] * (len(batches) - 1)
    at = batches[0].starts.copy()
    for batch in batches:
        assert batch.starts.tolist() == at.tolist()
        at += batch.length
    assert at.max() <= tokens - 1  # the last token is wanted and never read
    seen = np.concatenate([np.arange(s, s + b.length) for b in batches for s in b.starts])
    assert len(seen) == len(set(seen)) > tokens - chunk - 2 * count - 2


def test_all_chunks_are_equally_long_but_the_last_unless_lengths_vary() -> None:
    batches = streams(1001, 4, 30, None)
    assert [Chunks.read(batch).length for batch in batches] == [30] * 8 + [10]
    varied = [Chunks.read(batch).length for batch in streams(10001, 4, 30, np.random.default_rng(1), 5.0)]
    assert 3 < np.std(varied[:-1]) < 7 and min(varied[:-1]) >= 15


def test_another_epoch_begins_elsewhere() -> None:
    first = {int(Chunks.read(streams(1001, 4, 30, np.random.default_rng(seed))[0]).starts[0]) for seed in range(9)}
    assert len(first) > 3


@given(st.integers(2, 200), st.integers(1, 5), st.integers(2, 30), st.integers(0, 9))
def test_independent_chunks_lie_side_by_side_in_a_drawn_order(tokens: int, count: int, chunk: int, seed: int) -> None:
    batches = [Chunks.read(batch) for batch in independent(tokens, count, chunk, np.random.default_rng(seed))]
    starts = np.sort(np.concatenate([batch.starts for batch in batches]))
    length = batches[0].length
    assert (np.diff(starts) == length).all() and starts[-1] + length <= tokens - 1
    assert all(batch.first and len(batch.starts) <= count for batch in batches)


@pytest.mark.parametrize(("tokens", "wanted", "fit"), [(1000, 8, 8), (100, 8, 4), (10, 8, 1)])
def test_a_short_text_has_fewer_streams(tokens: int, wanted: int, fit: int) -> None:
    assert fitting_streams(tokens, wanted, 20) == fit
