"""Weights, entropies and gradients are those of softmax, and the rule can go each way."""

import math

import pytest
import torch

from harken.lab.claims import saturation as lab


def test_equal_scores_share_the_weight_and_one_high_score_takes_it() -> None:
    direction = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    alike = lab.weigh(torch.zeros(1, 4), direction)
    assert alike["largest"] == pytest.approx(0.25)
    assert alike["entropy"] == pytest.approx(1.0)
    assert alike["gradient"] == pytest.approx(math.sqrt((0.25 * 0.75) ** 2 + 3 * 0.25**4))  # p_i (1 - p_i), -p_i p_j
    one = lab.weigh(torch.tensor([[60.0, 0.0, 0.0, 0.0]]), direction)
    assert one["largest"] == pytest.approx(1.0) and one["entropy"] < 1e-9 and one["gradient"] < 1e-9


def test_random_scores_spread_with_the_root_of_the_width() -> None:
    wide = lab.random_weights("dot", 256, 64, seed=1), lab.random_weights("scaled", 256, 64, seed=1)
    assert wide[0]["largest"] > 0.8 > 0.2 > wide[1]["largest"]


def test_a_head_can_learn_to_look_up() -> None:
    assert lab.train_head("scaled", 64, 120, seed=1)["right"] > 0.8  # an eighth is guessing


def test_runs_are_averaged_without_their_curves() -> None:
    runs = [{"start": s, "end": s, "right": s, "halved": 10 * s, "losses": [s, 2 * s]} for s in (1.0, 3.0)]
    assert lab.mean_of(runs) == {"start": 2.0, "end": 2.0, "right": 2.0, "halved": 20.0}


def found(largest: float, gradient: float) -> dict[str, float]:
    return {"largest": largest, "entropy": 0.5, "gradient": gradient}


GROWING = {4: found(0.3, 0.2), 4096: found(0.97, 0.02)}
STEADY = {4: found(0.1, 0.2), 4096: found(0.1, 0.2)}
SHARP = {
    "dot": {64: {"start": 0.8, "right": 0.9, "halved": 80}},
    "scaled": {64: {"start": 0.1, "right": 1.0, "halved": 20}},
}
SOFT = {
    "dot": {64: {"start": 0.1, "right": 0.9, "halved": 80}},
    "scaled": {64: {"start": 0.1, "right": 1.0, "halved": 20}},
}


@pytest.mark.parametrize(
    ("bare", "divided", "head", "holds"),
    [
        (GROWING, STEADY, SHARP, True),
        (GROWING, STEADY, SOFT, None),  # random vectors saturate, the head does not
        (GROWING, {4: found(0.1, 0.2), 4096: found(0.4, 0.2)}, SHARP, None),  # divided scores saturate as well
        (STEADY, STEADY, SHARP, False),
        ({4: found(0.3, 0.2), 4096: found(0.97, 0.19)}, STEADY, SHARP, False),  # the gradient is still there
    ],
)
def test_rule(bare: dict, divided: dict, head: dict, holds: bool | None) -> None:
    assert lab.judge({"dot": bare, "scaled": divided}, head)[0] is holds


def test_the_verdict_names_the_widths_at_which_the_undivided_head_is_ahead() -> None:
    narrow = {"dot": {16: {"start": 0.4, "right": 0.97, "halved": 175}}, "scaled": {16: {"start": 0.1, "right": 0.9}}}
    narrow["scaled"][16]["halved"] = 194
    head = {kind: narrow[kind] | SHARP[kind] for kind in SHARP}
    holds, verdict = lab.judge({"dot": GROWING, "scaled": STEADY}, head)
    assert holds is True and verdict.endswith("; at width 16 the undivided head is ahead, with 97% and 90% right")
    assert "ahead" not in lab.judge({"dot": GROWING, "scaled": STEADY}, SHARP)[1]
