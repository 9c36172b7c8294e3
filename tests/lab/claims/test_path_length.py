"""Chains and hops are what can be counted by hand, and the rule can go each way."""

import pytest
import torch

from harken.lab.claims import path_length as lab


def test_a_chain_is_the_longest_way_and_not_the_number_of_operations() -> None:
    x = torch.ones(2, requires_grad=True)
    wide = sum((x * factor for factor in range(1, 6)), x)  # five products at once, five sums one after the other
    assert lab.longest_chain(wide) == 6
    assert lab.longest_chain(torch.stack([x.exp() for _ in range(9)]).sum()) == 3


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("RNN", 9), ("LSTM", 9), ("self-attention", 1), ("convolution", 8), ("dilated convolution", 4)],
)
def test_hops_between_the_ends_of_nine_words(kind: str, expected: int) -> None:
    assert lab.hops(kind, 9, seed=1) == expected


def test_after_k_rounds_a_cell_has_seen_k_words_and_attention_all() -> None:
    torch.manual_seed(1)
    for kind, expected in (("RNN", [4, 5]), ("self-attention", [0, 1, 2, 3, 4, 5])):
        values = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
        made = lab.rounds(kind, values)
        outputs = next(made) if kind == "self-attention" else [next(made), next(made)][1]
        (gradient,) = torch.autograd.grad(outputs[-1].sum(), values)
        assert gradient.abs().sum(-1).nonzero().flatten().tolist() == expected


def test_one_step_adds_the_same_to_the_chain_every_time() -> None:
    chains = [lab.chain("LSTM", n, 0) for n in (3, 4, 5)]
    assert chains[2] - chains[1] == chains[1] - chains[0] > 0
    assert lab.chain("self-attention", 3, 1) == lab.chain("self-attention", 30, 1)


LINE, FLAT = {8: 80, 16: 160}, {8: 22, 16: 22}


@pytest.mark.parametrize(
    ("recurrent", "attention", "holds"),
    [(LINE, FLAT, True), (LINE, LINE, None), (FLAT, FLAT, None), (FLAT, LINE, False)],
)
def test_rule(recurrent: dict[int, int], attention: dict[int, int], holds: bool | None) -> None:
    found = {"RNN": recurrent, "LSTM": recurrent, "self-attention": attention}
    found |= {"convolution": LINE, "dilated convolution": LINE}
    assert lab.judge(found, found)[0] is holds
