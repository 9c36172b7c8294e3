"""A stack of attention is one average, what is learned is what is asked, and the rule can go each way."""

import pytest
import torch

from harken.lab.claims import averaging as lab


@pytest.mark.parametrize("depth", [1, 5])
def test_a_stack_is_one_average_of_its_values(depth: int) -> None:
    product, error = lab.compose(depth, width=8, tokens=5, seed=2)
    assert error < lab.EXACT
    assert torch.allclose(product.sum(-1), torch.ones(5, dtype=torch.float64)) and bool((product >= 0).all())


def test_attention_alone_makes_tokens_alike_and_whole_blocks_do_not() -> None:
    left = {kind: lab.likeness(kind, 6, 16, 8, 4, seed=1) for kind in lab.STACKS}
    assert all(curve[0] == 1.0 and len(curve) == 7 for curve in left.values())
    assert left["attention alone"][-1] < 1e-6 and left["whole block"][-1] > 0.3


def test_for_a_token_alone_attention_without_feed_forward_is_a_linear_map() -> None:
    torch.manual_seed(1)
    model = lab.Signs(feedforward=False, width=16).double()
    one, other = torch.randn(2, 1, 1, 3, dtype=torch.float64)
    assert torch.allclose(model((one + other) / 2), (model(one) + model(other)) / 2)
    curved = lab.Signs(feedforward=True, width=16).double()
    assert not torch.allclose(curved((one + other) / 2), (curved(one) + curved(other)) / 2)


def test_signs_are_those_of_the_product_and_marks_are_not_asked() -> None:
    values, right = lab.signs("mark", 50)
    assert values.shape == (50, 2, 3) and right.shape == (50, 1)
    assert torch.equal(right[:, 0] == 1, values[:, 0, 0] * values[:, 0, 1] > 0)
    assert values[:, 1].unique(dim=0).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("left", "without", "holds"),
    [
        (1e-9, 0.55, True),
        (1e-9, 0.99, None),  # learned by attention alone
        (0.5, 0.55, False),  # the tokens stay apart
    ],
)
def test_rule(left: float, without: float, holds: bool | None) -> None:
    stacks = dict.fromkeys(lab.STACKS, left) | {"whole block": 0.6}
    right = {"without": dict.fromkeys(lab.COMPANY, without), "with": dict.fromkeys(lab.COMPANY, 0.99)}
    answer, verdict = lab.judge(stacks, right)
    assert answer is holds
    assert ("gate" in verdict) is (without > lab.LEARNED)
