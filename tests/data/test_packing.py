"""Which pairs share a window, and the tensors of a window."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.io.token_rows import ParallelIds, TokenRows
from harken.data.packing import Window, fits, pack, packed_batches, shrunk_size, window_of
from harken.data.tokenizers.tokens import BOS, EOS, PAD

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


@given(LENGTHS, st.integers(0, 3), st.integers(0, 3))
def test_every_pair_occurs_once_and_windows_are_not_overfull(
    lengths: list[tuple[int, int]], seed: int, epoch: int
) -> None:
    source, target = np.array(lengths).T
    window = Window(24, 28)
    batches = packed_batches(source, target, window, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(source)))
    for batch in batches:
        too_long = len(batch) == 1 and (source[batch[0]] > 24 or target[batch[0]] > 28)
        assert too_long or (source[batch].sum() <= 24 and target[batch].sum() <= 28)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    source, target = np.random.default_rng(0).integers(1, 12, (2, 200))

    def batches(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in packed_batches(source, target, Window(64, 64), seed=seed, epoch=epoch)]

    assert batches(1, 0) == batches(1, 0)
    assert batches(1, 0) != batches(1, 1) and batches(1, 0) != batches(2, 0)


def test_windows_are_almost_full() -> None:
    random = np.random.default_rng(0)
    source = random.integers(5, 40, 4000)
    target = np.maximum(1, (0.8 * source + random.normal(0, 2, 4000)).astype(int))
    window = window_of(source, target, 4096)
    assert window.sources == 4096 and 0.78 * 4096 < window.targets < 0.88 * 4096
    batches = packed_batches(source, target, window, seed=0, epoch=0)
    tokens = sum(source) + sum(target)
    assert tokens / ((len(batches) - 1) * sum(window)) > 0.95


def test_a_window_holds_the_sentences_one_after_another() -> None:
    pairs = ParallelIds(
        TokenRows.from_lists([[5, 6], [7], [8, 9, 10]], eos=True),
        TokenRows.from_lists([[11], [12, 13], [14]], eos=True),
    )
    indices = np.array([2, 0])
    window = pack(pairs, indices, Window(9, 6))
    assert window.source.tolist() == [8, 9, 10, EOS, 5, 6, EOS, PAD, PAD]
    assert window.source_positions.tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 0]
    assert window.source_first.tolist() == [0, 0, 0, 0, 4, 4, 4, 0, 0]
    assert window.source_end.tolist() == [4, 4, 4, 4, 7, 7, 7, 0, 0]
    assert window.source_first_target.tolist() == [0, 0, 0, 0, 2, 2, 2, 0, 0]
    assert window.source_end_target.tolist() == [2, 2, 2, 2, 4, 4, 4, 0, 0]
    assert window.target_input.tolist() == [BOS, 14, BOS, 11, PAD, PAD]
    assert window.target_output.tolist() == [14, EOS, 11, EOS, PAD, PAD]
    assert window.target_first_source.tolist() == [0, 0, 4, 4, 0, 0]
    assert window.target_end_source.tolist() == [4, 4, 7, 7, 0, 0]
    assert fits(pairs, indices, Window(7, 4)) and not fits(pairs, indices, Window(7, 3))


@pytest.mark.parametrize("budget", [100, 1000, 4096])
def test_the_longer_side_has_the_budget(budget: int) -> None:
    lengths = np.full(10, 7), np.full(10, 14)
    window = window_of(*lengths, budget)
    assert budget <= window.targets < budget + 128 and window.sources < window.targets


@pytest.mark.parametrize("parts", [1, 2, 8, 16, 64])
@pytest.mark.parametrize("size", [25_088, 32_768, 800_000])
def test_a_share_of_a_window_has_little_padding_and_few_sizes(size: int, parts: int) -> None:
    tokens = [round(size / parts * factor) for factor in np.linspace(0.97, 1.0 if parts == 1 else 1.03, 50)]
    sizes = [shrunk_size(size, number) for number in tokens]
    assert all(number <= found <= 1.15 * number for number, found in zip(tokens, sizes, strict=True))
    assert len(set(sizes)) <= 4 and (parts > 1 or set(sizes) == {size})
