"""Packed products against torch, in float32 and in int8, for shapes that fill no panel and no tile."""

import numpy as np
import pytest
import torch

from harken.kernels.decoding import products, tiles
from harken.kernels.decoding.description import Linear, Norm
from harken.kernels.decoding.products import COLUMNS, NO_LIMIT, STRIDE, round_up
from harken.kernels.decoding.stack import ACTIVATION_TYPE
from harken.kernels.decoding.weights import cache_line_array, pack, quantise_weight
from harken.nn.fake_int8 import fake_int8

SHAPES = [(1, 16, 64), (3, 5, 7), (6, 64, 64), (13, 37, 130), (7, 300, 65)]  # rows, inputs, outputs


def array(rows, width):
    stride = round_up(width, STRIDE)
    return cache_line_array(rows * stride, np.float32).reshape(rows, stride)


def product(x, linear, precision, low=NO_LIMIT, add=None):
    rows, inputs = x.shape
    values, out = array(rows, inputs), array(rows, len(linear.weight))
    values[:, :inputs] = x.numpy()
    if add is not None:
        out[:, : add.shape[1]] = add.numpy()
    quantised, scales = np.zeros(values.shape, ACTIVATION_TYPE), np.zeros(rows, np.float32)
    packed = pack([linear], [], precision)
    products.linear(packed, 0, values, quantised, scales, rows, out, low, np.int64(add is not None))
    return torch.from_numpy(out), quantised[:, :inputs], scales


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_float32_product_equals_torch(rows, inputs, outputs):
    torch.manual_seed(0)
    x, linear = torch.randn(rows, inputs), Linear(torch.randn(outputs, inputs), torch.randn(outputs))
    found = product(x, linear, "float32")[0]
    torch.testing.assert_close(found[:, :outputs], torch.nn.functional.linear(x, *linear[:2]), atol=1e-4, rtol=1e-5)
    assert not found[:, outputs : round_up(outputs, COLUMNS)].any()  # padding stays 0


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_int8_product_is_exact_in_whole_numbers(rows, inputs, outputs):
    torch.manual_seed(0)
    x, linear = torch.randn(rows, inputs), Linear(torch.randn(outputs, inputs), torch.randn(outputs))
    found, numbers, scales = product(x, linear, "int8")
    weight, weight_scales = map(torch.from_numpy, quantise_weight(linear.weight.numpy()))
    whole = torch.from_numpy(numbers.astype(np.int64)) - products.SHIFT
    assert int(whole.abs().max()) == 127
    torch.testing.assert_close(whole * torch.from_numpy(scales)[:, None], x, atol=x.abs().max().item() / 250, rtol=0)
    sums = (whole @ weight.long().T).double()
    expected = sums * torch.from_numpy(scales).double()[:, None] * weight_scales.double() + linear.bias.double()
    torch.testing.assert_close(found[:, :outputs].double(), expected, atol=1e-4, rtol=1e-5)
    fake = torch.nn.functional.linear(fake_int8(x), fake_int8(linear.weight), linear.bias)  # as training computes it
    torch.testing.assert_close(found[:, :outputs], fake, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_residual_and_relu_are_part_of_the_product(precision):
    torch.manual_seed(0)
    x, linear, residual = torch.randn(9, 32), Linear(torch.randn(20, 32), None), torch.randn(9, 20)
    plain = product(x, linear, precision)[0][:, :20]
    both = product(x, linear, precision, low=np.float32(0), add=residual)[0][:, :20]
    torch.testing.assert_close(both, torch.relu(plain + residual), atol=1e-5, rtol=1e-5)


def test_the_output_layer_never_chooses_padding():
    packed = pack([Linear(torch.randn(5, 4), None, is_output=True)], [], "float32")
    bias = packed.floats[packed.products[0, products.BIAS] :][:COLUMNS]
    assert np.isneginf(bias[5:]).all() and not bias[:5].any()


def test_a_row_of_zeros_and_a_row_with_nan_quantise():
    x = array(2, 16)
    x[1, 3] = np.nan
    numbers, scales = np.zeros((2, 64), ACTIVATION_TYPE), np.zeros(2, np.float32)
    products.quantise(x, 16, 2, numbers, scales)
    assert (numbers[0, :16] == products.SHIFT).all() and scales[0] == 0 and np.isnan(scales[1])


def test_layer_norm_equals_torch():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(5, 70) * 3 + 1, torch.randn(70), torch.randn(70)
    values = array(5, 70)
    values[:, :70] = x.numpy()
    products.layer_norm(pack([], [Norm(weight, bias, 1e-5)], "float32"), 0, values, 70, 5, values, np.float32(1e-5))
    expected = torch.nn.functional.layer_norm(x, (70,), weight, bias, 1e-5)
    torch.testing.assert_close(torch.from_numpy(values[:, :70]), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("kind", "width"), [(products.GELU, 50), (products.SWIGLU, 25)])
def test_activations_equal_torch(kind, width):
    x = torch.linspace(-9, 9, 50).repeat(2, 1)
    values = array(2, 50)
    values[:, :50] = x.numpy()
    products.activate(kind, values, width, 2)
    gate, candidate = x.chunk(2, -1)
    expected = torch.nn.functional.gelu(x) if kind == products.GELU else torch.nn.functional.silu(gate) * candidate
    torch.testing.assert_close(torch.from_numpy(values[:, :width]), expected, atol=1e-6, rtol=1e-5)


def test_compiled_functions_have_names_of_their_own():
    """Code on disk of several processes is linked by these names."""
    functions = [getattr(tiles, f"{kind}_{rows}") for kind in ("float", "byte") for rows in range(1, 7)]
    assert len({function.py_func.__qualname__ for function in functions}) == 12
