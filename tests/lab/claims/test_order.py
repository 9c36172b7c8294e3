"""What is blind to order is found to be, the blind guess is the best one, and the rule can go each way."""

import math

import pytest
import torch

from harken.lab.claims import order as lab


@pytest.mark.parametrize("kind", lab.KINDS)
def test_only_a_network_without_positions_is_blind_to_order(kind: str) -> None:
    moved = lab.reordering(kind, seed=1)
    assert (moved < lab.BLIND) if kind == "none" else (moved > 1e-3)


def test_alibi_cannot_tell_before_from_after_in_an_encoder() -> None:
    torch.manual_seed(1)
    words = torch.randint(lab.WORDS, (2, 9))
    for kind, blind in (("ALiBi", True), ("relative", False)):
        model = lab.Reader(kind).double()
        same = torch.allclose(model(words.flip(1)), model(words).flip(1), atol=1e-10)
        assert same is blind


def test_the_blind_guess_counts_the_others_only() -> None:
    # of 0 0 1: the 2nd place sees {0, 1} and guesses 0, which is right; the 3rd sees {0, 0}, right again
    assert lab.blind_guess(torch.tensor([[0, 0, 1]])) == 1.0
    # of 1 0 1: the 2nd sees {1, 1}, right; the 3rd sees {0, 1} and guesses the first, 0, right
    assert lab.blind_guess(torch.tensor([[1, 0, 1], [0, 1, 1]])) == 0.75


def shares(at: float, beyond: float) -> dict[int, float]:
    return {n: at if n <= lab.LONGEST else beyond for n in lab.LENGTHS}


@pytest.mark.parametrize(
    ("change", "moved", "holds"),
    [
        ({}, 1e-16, True),
        ({"none": shares(0.5, 0.5)}, 1e-16, None),
        ({}, 0.1, None),
        ({"sinusoidal": shares(1.0, 0.95)}, 1e-16, None),
        ({"learned": shares(1.0, 0.9)}, 1e-16, None),
        ({"none": shares(0.5, 0.5), "sinusoidal": shares(1.0, 1.0), "learned": shares(1.0, 1.0)}, 0.1, False),
    ],
)
def test_rule(change: dict[str, dict[int, float]], moved: float, holds: bool | None) -> None:
    right = {kind: shares(1.0, 0.6) for kind in lab.KINDS}
    right |= {"none": shares(0.2, 0.1), "learned": shares(1.0, math.nan)} | change
    assert lab.judge({"none": moved}, right, shares(0.2, 0.1), "too long")[0] is holds
