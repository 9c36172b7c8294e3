"""Sentences hold what decides, one way cannot see ahead, and the rule can go each way."""

import pytest
import torch

from harken.lab.claims import both_ways as lab


def test_what_decides_stands_where_it_is_said_to() -> None:
    words, place, sense, offset = lab.sentences(200, torch.Generator().manual_seed(1))
    for row in range(200):
        ambiguous = lab.VOCABULARY[words[row, place[row]]]
        decider = lab.VOCABULARY[words[row, place[row] + offset[row]]]
        assert decider in lab.SENSES[ambiguous][int(sense[row])]
        mine = {word for senses in lab.SENSES[ambiguous] for word in senses}
        assert sum(lab.VOCABULARY[word] in mine for word in words[row]) == 1  # nothing else decides
    assert set(offset.tolist()) == set(lab.OFFSETS)


def test_one_way_does_not_see_ahead_and_both_ways_do() -> None:
    words, place, _, _ = lab.sentences(1, torch.Generator().manual_seed(1))
    changed = words.clone()
    changed[0, int(place[0]) + 1 :] = 0
    for both in (False, True):
        model = lab.Tagger(8, both)
        assert torch.equal(model(words, place), model(changed, place)) is not both


def test_parameters_are_nearly_equal() -> None:
    units = lab.widths(24)
    sizes = [lab.parameters(lab.Tagger(units[kind], both)) for kind, both in lab.DIRECTIONS.items()]
    assert units["one way"] > units["both ways"] and max(sizes) / min(sizes) < 1.03


def shares(behind: float, ahead: float) -> list[list[float]]:
    return [[behind if at < 0 else ahead for at in lab.OFFSETS]] * 2


@pytest.mark.parametrize(
    ("one", "both", "holds"),
    [
        (shares(1.0, 0.5), shares(0.99, 1.0), True),
        (shares(1.0, 0.5), shares(0.9, 1.0), None),  # worse where the decision lies behind
        (shares(1.0, 0.5), shares(1.0, 0.55), False),
    ],
)
def test_rule(one: list[list[float]], both: list[list[float]], holds: bool | None) -> None:
    assert lab.judge({"one way": one, "both ways": both})[0] is holds
