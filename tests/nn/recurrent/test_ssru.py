"""The SSRU against its equation, its scan against a loop, gradients and the cache of search."""

import pytest
import torch

from harken.nn import DecoderStack
from harken.nn.recurrent.ssru import SSRU, SSRUCache, linear_recurrence


def loop(decay, values):
    state, found = torch.zeros_like(values[:, 0]), []
    for t in range(values.shape[1]):
        state = decay[:, t] * state + values[:, t]
        found.append(state)
    return torch.stack(found, 1)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 33])
def test_the_scan_equals_a_loop_in_values_and_gradients(length):
    torch.manual_seed(0)
    decay = torch.rand(2, length, 3, dtype=torch.float64, requires_grad=True)
    values = torch.randn(2, length, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, length, 3, dtype=torch.float64)
    found, expected = linear_recurrence(decay, values), loop(decay, values)
    torch.testing.assert_close(found, expected)
    ours = torch.autograd.grad((found * weights).sum(), (decay, values))
    theirs = torch.autograd.grad((expected * weights).sum(), (decay, values))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_the_unit_is_its_equation():
    torch.manual_seed(1)
    layer, x = SSRU(3).double(), torch.randn(2, 4, 3, dtype=torch.float64)
    layer.forget_bias.data.normal_()
    forget_weight, weight = layer.forget_candidate.weight.chunk(2)
    f = torch.sigmoid(x @ forget_weight.T + layer.forget_bias)
    torch.testing.assert_close(layer(x), torch.relu(loop(f, (1 - f) * (x @ weight.T))))


def test_low_precision_keeps_its_states_in_float32():
    layer, x = SSRU(8).bfloat16(), torch.randn(2, 6, 8).bfloat16()
    output, state = layer.step(x[:, 0], torch.zeros(2, 8))
    assert (output.dtype, state.dtype, layer(x).dtype) == (torch.bfloat16, torch.float32, torch.bfloat16)
    assert SSRUCache(1, 2, 8, x).values.dtype == torch.float32


def test_a_cache_is_reordered_cut_and_reset():
    cache, layer = SSRUCache(2, 3, 4), SSRU(4)
    with torch.no_grad():
        for number in (0, 1):
            cache.advance_()
            cache.step(layer, torch.randn(3, 4), number)
    before = cache.values.clone()
    cache.reorder_(torch.tensor([2, 0, 0]))
    assert torch.equal(cache.values, before[:, [2, 0, 0]])
    cache.select_(torch.tensor([1]))
    assert torch.equal(cache.values, before[:, [0]])
    cache.reset_()
    assert cache.length == 0
    assert not cache.values.any()


def test_a_stack_with_recurrent_units_steps_one_token_at_a_time():
    stack, values = DecoderStack(1, 8, 2, 16, mixer="ssru").eval(), torch.randn(1, 3, 8)
    cross_kv, cache = stack.precompute_cross_kv(values), None
    with torch.no_grad():
        whole = stack(values, values)
        for time in range(3):
            now, cache, _ = stack.step(values[:, time : time + 1], cache, cross_kv)
            assert torch.allclose(now[:, 0], whole[:, time], atol=1e-5)
    with pytest.raises(ValueError, match="one token of each row at a time, not 3"):
        stack.step(values, None, cross_kv)
