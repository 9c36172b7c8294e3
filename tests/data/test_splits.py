"""Splits by a hash of the group: stable when data grow, disjoint in groups, and the same for the same seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.splits import (
    Parts,
    Size,
    changed_parts,
    content_key,
    cut_by_position,
    digest,
    group_position,
    normalise,
    split_groups,
    split_positions,
    stratified_groups,
    without_held_out,
)
from harken.errors import UserError

KEYS = [f"sentence {number}" for number in range(20_000)]
SIZES: list[dict[str, Size]] = [
    {"test": 0.05, "valid": 0.1},
    {"valid": (0.05, 1000)},
    {"test": 0.1, "valid": (0.05, 400)},
]


@pytest.mark.parametrize("sizes", SIZES)
def test_one_line_appended_to_20000_moves_no_other_line(sizes: dict[str, Size]) -> None:
    before = split_groups(KEYS, sizes, seed=1)
    for addition in ("a new sentence", "another one", "sentence 7"):
        after = split_groups([*KEYS, addition], sizes, seed=1)
        moved = {name: set(before[name]) ^ (set(after[name]) - {len(KEYS)}) for name in before}
        capped = any(isinstance(size, tuple) and len(before[name]) >= size[1] for name, size in sizes.items())
        assert sum(map(len, moved.values())) <= (2 if capped else 0)  # at the limit, one may make room for the new one


def test_a_count_is_exact_and_growth_never_moves_a_training_row_into_a_held_out_part() -> None:
    sizes: dict[str, Size] = {"test": 1000, "valid": 500}
    before = split_groups(KEYS, sizes, seed=3)
    assert [len(before[name]) for name in ("test", "valid", "train")] == [1000, 500, 18_500]
    after = split_groups([*KEYS, *(f"new {number}" for number in range(2000))], sizes, seed=3)
    assert [len(after[name]) for name in ("test", "valid")] == [1000, 500]
    old_held = {*before["test"], *before["valid"]}
    assert not {row for name in ("test", "valid") for row in after[name] if row < len(KEYS)} - old_held
    assert len(set(after["test"]) & set(before["test"])) > 850  # 2,000 of 22,000 are new: about 91 places of 1,000


def test_strata_are_divided_each_on_its_own() -> None:
    strata = ["often"] * 400 + ["seldom"] * 30 + [f"rare {number // 2}" for number in range(20)] + ["once"]
    keys = KEYS[: len(strata)]
    parts = stratified_groups(keys, strata, {"test": 0.2, "valid": (0.1, 1000)}, seed=1)
    counts = {name: Counter(strata[row] for row in rows) for name, rows in parts.items()}
    assert counts["test"]["often"] == 80 and counts["test"]["seldom"] == 6 and counts["valid"]["seldom"] == 3
    assert set(counts["train"]) == set(strata)
    assert sorted(row for rows in parts.values() for row in rows) == [*range(len(strata))]
    assert abs(len(parts["test"]) - 0.2 * len(strata)) <= 1
    groups = [f"group {number % 90}" for number in range(len(strata))]  # rows of several strata in a group
    divided = stratified_groups(groups, strata, {"test": 45, "valid": 45}, seed=1)
    held = [{groups[row] for row in rows} for rows in divided.values()]
    assert not held[0] & held[1] and not held[0] & held[2] and not held[1] & held[2]
    with pytest.raises(UserError, match=r"data\.test_size = 0\.5 of 2 examples in 2 groups leaves none for test"):
        stratified_groups(["a", "b"], ["x", "y"], {"test": 0.5}, seed=1)


def test_shares_are_met_and_do_not_depend_on_the_order_of_rows() -> None:
    parts = split_groups(KEYS, {"test": 0.1, "valid": 0.05}, seed=1)
    assert abs(len(parts["test"]) - 2000) < 4 * np.sqrt(20_000 * 0.09)
    assert abs(len(parts["valid"]) - 1000) < 4 * np.sqrt(20_000 * 0.05)
    turned = split_groups(KEYS[::-1], {"test": 0.1, "valid": 0.05}, seed=1)
    assert {KEYS[::-1][row] for row in turned["test"]} == {KEYS[row] for row in parts["test"]}
    other = split_groups(KEYS, {"test": 0.1, "valid": 0.05}, seed=2)
    assert len(set(other["test"]) & set(parts["test"])) < 300  # chance: 200


def test_another_validation_size_leaves_the_test_as_it_is() -> None:
    sizes = [split_groups(KEYS, {"test": 500, "valid": valid}, seed=1)["test"] for valid in (10, 0.2, (0.05, 1000))]
    assert sizes[0] == sizes[1] == sizes[2]


groups = st.lists(st.integers(0, 12).map(str), min_size=6, max_size=60)
wanted = st.one_of(st.integers(1, 4), st.floats(0.05, 0.3), st.tuples(st.floats(0.05, 0.3), st.integers(1, 5)))


@given(groups, wanted, wanted, st.integers(0, 50))
def test_no_group_is_in_two_parts(keys: list[str], test: Size, valid: Size, seed: int) -> None:
    try:
        parts = split_groups(keys, {"test": test, "valid": valid}, seed)
    except UserError:
        return
    assert sorted(row for part in parts.values() for row in part) == list(range(len(keys)))
    names = [{keys[row] for row in part} for part in parts.values()]
    assert sum(map(len, names)) == len(set(keys)) and all(names)


@given(groups, st.lists(st.integers(0, 30).map(str), max_size=10), wanted, st.integers(0, 50))
def test_new_groups_never_bring_a_training_row_into_validation(
    keys: list[str], more: list[str], valid: Size, seed: int
) -> None:
    more = [key for key in more if key not in keys]
    try:
        before, after = (split_groups(some, {"valid": valid}, seed) for some in (keys, keys + more))
    except UserError:
        return
    assert not set(after["valid"]) & set(before["train"])


def test_groups_larger_than_the_count_stay_in_training_unless_there_is_no_other() -> None:
    keys = ["large"] * 50 + [f"small {number}" for number in range(30)]
    for seed in range(20):
        parts = split_groups(keys, {"valid": 10}, seed)
        assert len(parts["valid"]) == 10 and min(parts["valid"]) >= 50
    assert len(split_groups(["a"] * 5 + ["b"] * 5, {"valid": 1}, seed=1)["valid"]) == 5


def test_weights_of_zero_follow_their_group_and_count_nothing() -> None:
    keys = [f"{number // 3}" for number in range(60)]
    parts = split_groups(keys, {"valid": 4}, seed=1, weights=[1, 0, 0] * 20)
    assert len(parts["valid"]) == 12


def test_what_would_leave_a_part_empty_is_refused() -> None:
    said = r"data\.valid_size = 2 of 2 examples in 2 groups leaves none for train; change the size"
    with pytest.raises(UserError, match=said):
        split_groups(["a", "b"], {"valid": 2}, seed=1)
    with pytest.raises(UserError, match="leaves none for valid"):
        split_groups(["a", "b"], {"valid": 0}, seed=1)
    assert split_groups(["a", "b"], {}, seed=1) == {"train": [0, 1]}


@given(st.text(), st.text())
def test_normalised_texts_ignore_case_spacing_and_composition(left: str, right: str) -> None:
    assert normalise(f"  {left}\t {right}\n") == normalise(f"{left} {right}")
    assert normalise(normalise(left)) == normalise(left)
    assert normalise("STRASSE  é") == normalise("straße e\u0301")


def test_equal_training_rows_are_left_out_and_counted() -> None:
    kept, skipped = without_held_out(["Go", "run", "go ", "stop"], [["GO"], ["none"]], normalise)
    assert kept == ["run", "stop"] and skipped == {"also in the validation or test data": 2}
    assert without_held_out(["a"], [], normalise) == (["a"], {})
    with pytest.raises(UserError, match="every training example is also in"):
        without_held_out(["a"], [["A"]], normalise)


@given(st.lists(st.integers(1, 9), max_size=50), st.floats(0, 0.4), st.floats(0, 0.4), st.integers(1, 9))
def test_cutting_by_position_only_moves_held_out_rows_to_training(
    lengths: list[int], valid: float, test: float, more: int
) -> None:
    first, second, end = cut_by_position(lengths, (valid, test))
    assert 0 <= first <= second <= end == len(lengths)
    assert sum(lengths[:first]) <= (1 - valid - test) * sum(lengths) + 1e-6
    later = cut_by_position([*lengths, more], (valid, test))
    assert later[0] >= first and later[1] >= second


def test_digests_tell_content_and_not_order_and_name_the_changed_part() -> None:
    class Corpus(Parts):
        name, train, valid = "mine", ("a", "b"), ("c",)
        tests = {"test": (np.ones(2),)}  # noqa: RUF012

    class Other(Corpus):
        valid = ("d",)

    assert digest(["a", "b"]) == digest(["b", "a"]) != digest(["a", "a", "b"])
    assert digest([("a", "bc")]) != digest([("ab", "c")])
    assert digest([np.ones(2)]) != digest([np.ones((2, 1))])
    assert changed_parts(Corpus().digests(), Other().digests()) == ["valid"]


def test_membership_is_fixed_across_versions() -> None:
    """Recorded values: another hash would put rows that people trained on into their tests."""
    assert content_key(np.arange(3, dtype=np.int16)) == "fd86c21ebc3a6e3aa93dcbc587185676"
    assert split_groups([f"row {number}" for number in range(20)], {"valid": 4}, seed=1)["valid"] == [2, 9, 12, 19]


def test_a_count_looks_past_groups_that_are_too_large() -> None:
    """The groups with the smallest positions are larger than the count, and the one that fits lies far behind them."""
    keys = [f"large {number}" for number in range(200) for _ in range(3)]
    order = sorted(set(keys), key=lambda key: group_position(1, key))
    keys.remove(order[150])
    keys.remove(order[150])
    assert [keys[row] for row in split_groups(keys, {"valid": 1}, seed=1)["valid"]] == [order[150]]
    positions = np.array([group_position(1, key) for key in keys], dtype=np.uint64)
    assert split_positions(positions, {"valid": 1})["valid"] == [group_position(1, order[150])]
