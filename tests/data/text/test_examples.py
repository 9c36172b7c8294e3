"""Held-out examples share no group with the rest; what harken makes follows its rules."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from harken.data.io.ragged import FrameRows
from harken.data.synthetic import gestures, opinions
from harken.data.text.examples import Labelled, split_off
from harken.errors import UserError


def hold_out(examples: Labelled, count: int, seed: int) -> tuple[Labelled, Labelled]:
    parts = split_off(examples, {"valid": count}, seed)
    return parts["valid"], parts["train"]


def test_groups_are_never_cut() -> None:
    people = [f"s{number % 7}" for number in range(70)]
    examples = Labelled(list(range(70)), ["a"] * 70, people)
    held, rest = hold_out(examples, 20, seed=4)
    assert held.groups and rest.groups
    assert not set(held.groups) & set(rest.groups) and len(held) == 20 and len(rest) == 50
    assert sorted(held.values + rest.values) == list(range(70))
    again, _ = hold_out(examples, 20, seed=4)
    other, _ = hold_out(examples, 20, seed=6)
    assert again.values == held.values != other.values


def test_equal_texts_stay_together_whatever_their_case_and_spacing() -> None:
    texts = [f"text {number}" for number in range(40)]
    both = Labelled(texts + [text.upper().replace(" ", "  ") for text in texts], ["a"] * 80)
    held, rest = hold_out(both, 10, seed=1)
    assert not {" ".join(text.lower().split()) for text in held.values} & {
        " ".join(text.lower().split()) for text in rest.values
    }


def test_parts_are_held_out_with_their_whole_but_not_tested_on() -> None:
    examples = Labelled(
        ["a b", "a", "b", "c d", "c", "d"], list("101101"), ["1"] * 3 + ["2"] * 3, [False, True, True] * 2
    )
    held, rest = hold_out(examples, 1, seed=1)
    assert len(held) == 1 and len(rest) == 3
    assert set(held.values[0].split()).isdisjoint(rest.values)
    assert examples.wholes().values == ["a b", "c d"]


def test_holding_out_everything_is_refused() -> None:
    with pytest.raises(UserError, match="leaves none for train"):
        hold_out(Labelled(["a", "b"], ["0", "1"]), 2, seed=1)


def test_equal_signals_stay_together_and_more_of_them_move_none() -> None:
    signals = [np.full((2, 1), number % 50, np.float32) for number in range(100)]
    held, rest = hold_out(Labelled(signals, ["a"] * 100), 10, seed=1)
    assert not {float(one[0, 0]) for one in held.values} & {float(one[0, 0]) for one in rest.values}
    more = split_off(Labelled([*signals, np.full((3, 1), 7.5, np.float32)], ["a"] * 101), {"valid": 0.1}, seed=1)
    before = split_off(Labelled(signals, ["a"] * 100), {"valid": 0.1}, seed=1)
    assert {one.tobytes() for one in before["valid"].values} == {
        one.tobytes() for one in more["valid"].values if len(one) == 2
    }


def test_sets_are_joined_with_their_groups() -> None:
    one, other = Labelled([1], ["a"]), Labelled([2], ["b"], ["g"], [True])
    both = Labelled.of([*one.examples(), *other.examples()])
    assert (both.values, both.labels, both.groups, both.parts) == ([1, 2], ["a", "b"], ["", "g"], [False, True])


def label_of(text: str) -> str:
    """The label by the rules above, from the words alone."""
    words = text
    if "although" in words:
        before, _, after = words.partition("although")
        words = before if before.strip(" ,").split()[-1:] and opinions_in(before) else after.partition(",")[2]
    elif " but the " in words:
        words = words.partition(" but the ")[2]
    clauses = opinions_in(words)
    return opinions.POSITIVE if clauses and clauses[0] else opinions.NEGATIVE


def opinions_in(text: str) -> list[bool]:
    """The opinion of each clause: True is good."""
    clauses, turned = [], False
    for word in text.replace("anything but", "not").replace("far from", "not").split():
        turned = turned or word in ("not", "never", "hardly")
        if word in opinions.GOOD or word in opinions.BAD:
            clauses.append((word in opinions.GOOD) != turned)
            turned = False
    return clauses


def test_opinions_follow_their_rules_and_splits_share_nothing() -> None:
    splits = opinions.make_splits(800, seed=2)
    parts = [splits.train, splits.valid, splits.tests["test"]]
    assert [len(part) for part in parts] == [800, 1000, 1000]
    assert len({text for part in parts for text in part.values}) == 2800
    for part in parts:
        assert [label_of(text) for text in part.values] == part.labels
        assert 0.45 < part.labels.count("positive") / len(part) < 0.55
    assert opinions.make_splits(800, seed=2).train.values == splits.train.values
    assert opinions.make_splits(800, seed=3).train.values != splits.train.values


def test_order_decides_an_opinion() -> None:
    assert label_of("the soup was good but the view was dull") == "negative"
    assert label_of("the view was dull but the soup was good") == "positive"
    assert label_of("although the soup was never dull , the view was anything but good") == "negative"
    assert label_of("the soup was hardly bad , although the view was dull") == "positive"


def test_gestures_of_a_pair_pass_the_same_places_in_another_order() -> None:
    splits = gestures.make_splits(600, seed=1)
    assert Counter(splits.train.labels).keys() == set(gestures.CLASSES)
    turning = {"circle-left": [], "circle-right": []}  # type: ignore[var-annotated]
    for frames, label in zip(splits.train.values, splits.train.labels, strict=True):
        assert frames.dtype == np.float32 and frames.shape[1] == 2 and 24 <= len(frames) <= 48
        if label in turning:
            x, y = (frames - frames.mean(0)).T
            turning[label].append(float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])))  # the area it goes around
    assert np.mean(np.array(turning["circle-left"]) > 0) > 0.97
    assert np.mean(np.array(turning["circle-right"]) < 0) > 0.97
    assert np.array_equal(gestures.make_splits(600, seed=1).valid.values[5], splits.valid.values[5])


def test_frames_are_padded_and_refused_where_they_do_not_fit() -> None:
    rows = FrameRows([np.arange(6.0).reshape(3, 2), np.arange(2.0).reshape(1, 2) + 9])
    frames, lengths = rows.gather([1, 0])
    assert lengths.tolist() == [1, 3] and frames.dtype == torch.float32
    assert frames[0].tolist() == [[9.0, 10.0], [0.0, 0.0], [0.0, 0.0]]
    assert frames[1].tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    with pytest.raises(UserError, match=r"signal 2 has shape \(4, 3\); give \(time, channels\) with 2 channels"):
        FrameRows([np.ones((1, 2)), np.ones((4, 3))])
    with pytest.raises(UserError, match=r"signal 1 has shape \(0, 2\)"):
        FrameRows([np.ones((0, 2))])
    with pytest.raises(UserError, match="signal 1 has a value that is missing"):
        FrameRows([np.array([[np.nan]])])
