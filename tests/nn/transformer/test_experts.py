"""A mixture of experts: sorting tokens gives what sending all of them everywhere gives, and the balance is counted."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from harken.nn import Experts
from harken.nn.activations import ACTIVATIONS
from harken.nn.transformer import experts as experts_module

WIDTH = 3


def build(experts: int = 4, active: int = 2, dtype: torch.dtype = torch.float64, **options: object) -> Experts:
    torch.manual_seed(1)
    layer = Experts(WIDTH, 5, experts, active, **options)  # type: ignore[arg-type]
    for parameter in layer.parameters():
        parameter.data.normal_()
    return layer.to(dtype)


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.integers(1, 4).flatmap(lambda experts: st.tuples(st.just(experts), st.integers(1, experts))),
    st.sampled_from([*ACTIVATIONS]),
    st.sampled_from([torch.float64, torch.float32]),
    st.booleans(),
)
def test_sorted_equals_reference(
    lengths: list[int], sizes: tuple[int, int], activation: str, dtype: torch.dtype, masked: bool
) -> None:
    """In values and gradients, with experts that nobody chose and batches without a token."""
    layer = build(*sizes, dtype, activation=activation)
    within = 1e-9 if dtype == torch.float64 else 1e-3
    values = torch.randn(len(lengths), 4, WIDTH, dtype=dtype, requires_grad=True)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None] if masked else None
    (fast, balance), (slow, right) = layer(values, mask), layer.reference(values, mask)
    assert torch.allclose(fast, slow, rtol=within, atol=within)
    assert torch.equal(balance, right)
    into, pull = [values, *layer.parameters()], torch.randn_like(fast)
    options = {"allow_unused": True, "materialize_grads": True, "retain_graph": True}
    found = torch.autograd.grad((fast * pull).sum() + balance, into, **options)
    for one, other in zip(found, torch.autograd.grad((slow * pull).sum() + right, into, **options), strict=True):
        assert torch.allclose(one, other, rtol=within, atol=within)


def by_hand(layer: Experts, token: Tensor) -> Tensor:
    """One token, by the text."""
    scores = layer.gate.weight @ token
    chosen = sorted(range(len(scores)), key=lambda number: -scores[number].item())[: layer.active]
    shares = scores[chosen].exp() / scores[chosen].exp().sum()
    if layer.active == 1:
        shares = (scores[chosen] - scores.logsumexp(0)).exp()
    found = torch.zeros_like(token)
    for share, number in zip(shares, chosen, strict=True):
        inner = torch.relu(layer.expand[number] @ token + layer.expand_bias[number])
        found = found + share * (layer.contract[number] @ inner + layer.contract_bias[number])
    return found


@pytest.mark.parametrize("active", [1, 2, 3, 4])
def test_a_token_is_its_equation(active: int) -> None:
    layer, values = build(active=active), torch.randn(6, WIDTH, dtype=torch.float64)
    for token, found in zip(values, layer(values)[0], strict=True):
        assert torch.allclose(found, by_hand(layer, token), rtol=0, atol=1e-12)


@pytest.mark.parametrize("active", [1, 2])
def test_gradcheck(active: int) -> None:
    layer, values = build(3, active), torch.randn(2, 2, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *_: layer(values), (values, *layer.parameters()))


def test_no_expert_sees_a_token_it_was_not_chosen_for(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, values = build(), torch.randn(3, 4, WIDTH, dtype=torch.float64)
    seen: list[tuple[int, list[int]]] = []
    plain = experts_module.grouped_linear

    def counted(tokens: Tensor, weight: Tensor, bias: Tensor, expert: Tensor, counts: Tensor) -> Tensor:
        seen.append((len(tokens), counts.tolist()))
        return plain(tokens, weight, bias, expert, counts)

    monkeypatch.setattr(experts_module, "grouped_linear", counted)
    mask = torch.tensor([[True, True, False, False]] * 3)
    layer(values, mask)
    chosen = layer.choose(values[mask])[0]
    right = [int((chosen == number).sum()) for number in range(layer.experts)]
    assert seen == [(6 * layer.active, right)] * 2  # both maps of the feed-forward layers


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [0, 1, 37])
def test_grouped_mm_equals_the_loop(dtype: torch.dtype, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In values and gradients; the first expert has no tokens."""
    monkeypatch.setattr(experts_module, "FEWEST_TOKENS", 0)
    torch.manual_seed(2)
    values, weight, bias = torch.randn(tokens, 8), torch.randn(3, 16, 8), torch.randn(3, 16)
    expert = torch.randint(1, 3, (tokens,)).sort().values
    counts = torch.stack([(expert == number).sum() for number in range(3)])
    inputs = [part.to(dtype).requires_grad_() for part in (values, weight, bias)]
    grad_output = torch.randn(tokens, 16).to(dtype)
    assert experts_module._has_grouped_mm(inputs[0], inputs[1])
    fast = experts_module.grouped_linear(*inputs, expert, counts)
    fast_gradients = torch.autograd.grad(fast, inputs, grad_output)
    monkeypatch.setattr(experts_module, "_has_grouped_mm", lambda *_: False)
    slow = experts_module.grouped_linear(*inputs, expert, counts)
    within = 1e-5 if dtype == torch.float32 else 0.1
    assert torch.allclose(fast, slow, rtol=within, atol=within)
    for one, other in zip(fast_gradients, torch.autograd.grad(slow, inputs, grad_output), strict=True):
        assert torch.allclose(one, other, rtol=within, atol=within)


@pytest.mark.parametrize("active", [1, 2])
def test_operations_are_counted_on_the_meta_device(active: int) -> None:
    """2 M A (D I + I D) of the experts and 2 M D E of the gate, with no value known."""
    with torch.device("meta"):
        layer, values = Experts(8, 16, 4, active), torch.empty(2, 5, 8)
    with FlopCounterMode(display=False) as counter:
        layer(values)
    assert counter.get_total_flops() == 2 * 10 * active * 2 * 8 * 16 + 2 * 10 * 8 * 4


def test_padding_counts_nowhere() -> None:
    layer, values = build(), torch.randn(2, 4, WIDTH, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    found, balance = layer(values, mask)
    alone, right = layer(values[mask])
    assert torch.equal(found[mask], alone)
    assert torch.equal(balance, right)
    assert (found[~mask] == 0).all()
    (gradient,) = torch.autograd.grad(found.sum() + balance, values)
    assert (gradient[~mask] == 0).all()
    assert not torch.equal(balance, layer(values)[1])


def test_balance_is_load_times_importance() -> None:
    layer, values = build(3, 1), torch.randn(5, WIDTH, dtype=torch.float64)
    shares = torch.softmax(values @ layer.gate.weight.T, -1)
    load = torch.stack([(shares.argmax(-1) == number).double().mean() for number in range(3)])
    assert torch.allclose(layer(values)[1], 3 * (load * shares.mean(0)).sum())


def test_balance_is_one_where_even_and_all_where_one_gets_everything() -> None:
    layer, values = build(4, 1), torch.ones(6, WIDTH, dtype=torch.float64)
    layer.gate.weight.data.zero_()
    assert torch.allclose(layer(values)[1], torch.ones((), dtype=torch.float64))
    layer.gate.weight.data[2] = 100.0
    assert torch.allclose(layer(values)[1], torch.full((), 4.0, dtype=torch.float64))


def test_the_balance_evens_out_the_work() -> None:
    """Following its gradient alone, an expert that got everything gets its share."""
    layer = build(4, 1)
    values = torch.randn(64, WIDTH, dtype=torch.float64)
    values[:, 0] += 2.0
    layer.gate.weight.data.copy_(torch.randn(4, WIDTH) * 0.1)
    layer.gate.weight.data[1, 0] += 1.0
    before = layer(values)[1].item()
    steps = torch.optim.SGD([layer.gate.weight], lr=0.1)
    for _ in range(60):
        steps.zero_grad()
        layer(values)[1].backward()
        steps.step()
    assert before > 1.5
    assert layer(values)[1].item() < 1.1


def test_dropout_in_training_alone() -> None:
    values, layer = torch.randn(20, WIDTH, dtype=torch.float64), build(dropout=0.5)
    assert not torch.allclose(layer(values)[0], layer(values)[0])
    assert torch.equal(layer.eval()(values)[0], layer(values)[0])


def test_options_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 of 2 experts cannot be active; choose 1 to 2"):
        Experts(4, 8, 2, active=3)
    with pytest.raises(ValueError, match="called 'tanh'; choose one of relu, gelu, gelu_tanh, silu, swiglu"):
        Experts(4, 8, 2, activation="tanh")


def test_bfloat16_autocast_is_near_float32() -> None:
    layer, values = build(dtype=torch.float32), torch.randn(8, WIDTH)
    right = layer(values)[0]
    with torch.autocast("cpu", torch.bfloat16):
        half, slow = layer(values)[0], layer.reference(values)[0]
    assert torch.equal(half, slow)
    assert torch.allclose(half.float(), right, rtol=0.05, atol=0.1)
