import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harken.data.io.token_rows import ParallelIds, TokenRows, pad
from harken.data.tokenizers.base import train_tokenizer
from harken.data.tokenizers.tokens import BOS, EOS, PAD

id_lists = st.lists(st.lists(st.integers(4, 99), max_size=6), min_size=1, max_size=8)


@given(id_lists, st.booleans(), st.data())
def test_gather_is_a_padded_copy(rows: list[list[int]], eos: bool, data: st.DataObject) -> None:
    stored = TokenRows.from_lists(rows, eos=eos)
    expected = [[*row, EOS] if eos else row for row in rows]
    assert [stored[index].tolist() for index in range(len(stored))] == expected
    assert stored.lengths.tolist() == [len(row) for row in expected]
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=10))
    ids, lengths = stored.gather(indices)
    width = max(len(expected[index]) for index in indices)
    assert ids.dtype == lengths.dtype == torch.int64
    assert ids.tolist() == [expected[index] + [PAD] * (width - len(expected[index])) for index in indices]
    assert lengths.tolist() == [len(expected[index]) for index in indices]


def test_pad() -> None:
    ids, lengths = pad([[5], [6, 7]], eos=True)
    assert ids.tolist() == [[5, EOS, PAD], [6, 7, EOS]]
    assert lengths.tolist() == [2, 3]
    assert pad([[], []])[0].shape == (2, 0)
    assert pad([])[0].shape == (0, 0)


def test_rows_can_be_indexed_from_the_end_but_not_past_it() -> None:
    rows = TokenRows.from_lists([[5], [6, 7]])
    assert rows[-1].tolist() == [6, 7]
    with pytest.raises(IndexError):
        rows[2]


def test_encode_in_chunks_equals_encode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.data.io.token_rows.CHUNK", 2)
    texts = ["a b", "", "c", "b b b", "a"]
    tokenizer = train_tokenizer("word", texts, size=20)
    rows = TokenRows.encode(tokenizer, texts)
    assert [row.tolist() for row in rows] == [[*tokenizer.encode(text), EOS] for text in texts]
    assert len(TokenRows.encode(tokenizer, [])) == 0


def test_parallel_batch_shifts_the_target() -> None:
    tokenizer = train_tokenizer("word", ["a b c"], size=20)
    a, b, c = tokenizer.encode("a b c")
    pairs = ParallelIds.encode(["a", "b c"], ["c b a", "a"], tokenizer, tokenizer)
    batch = pairs.batch(np.array([1, 0]))
    assert batch.source.tolist() == [[b, c, EOS], [a, EOS, PAD]]
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.target_output.tolist() == [[a, EOS, PAD, PAD], [c, b, a, EOS]]
    assert batch.target_input.tolist() == [[BOS, a, PAD, PAD], [BOS, c, b, a]]
    assert batch.target_lengths.tolist() == [2, 4]
    assert batch.to("cpu").target_input.tolist() == batch.target_input.tolist()
    assert sorted(index for rows in pairs.batches(8, seed=1, epoch=0) for index in rows) == [0, 1]
    assert len(pairs) == 2


def test_sides_must_pair() -> None:
    with pytest.raises(ValueError, match="2 source rows do not pair with 1 target rows"):
        ParallelIds(TokenRows.from_lists([[5], [6]]), TokenRows.from_lists([[5]]))
