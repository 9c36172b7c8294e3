"""Products with packed weights for any number of rows, and what surrounds them: quantisation, norm, activations.

    float32   Y = X W^T + b                    X (rows, K), W (O, K) packed by `weights.py`
    int8      Y = s_x s_w (Q_x Q_w^T) + b      Q_x = round(X / s_x), s_x = max_k |X| / 127, one scale for each row

The reference is `torch.nn.Linear`, and `torch.nn.LayerNorm`, `torch.nn.RMSNorm` and `harken.nn.activations` for the
functions of one row.
A product goes panel by panel: the columns of a panel are read from memory once and stay in the cache for all rows.
Arrays are (rows, stride) with strides of whole panels; what lies beyond the logical width is 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from harken.kernels.decoding import tiles
from harken.kernels.decoding.tiles import (
    byte_1,
    byte_2,
    byte_3,
    byte_4,
    byte_5,
    byte_6,
    float_1,
    float_2,
    float_3,
    float_4,
    float_5,
    float_6,
    out_of_line,
)
from harken.kernels.linking import linked_njit
from harken.kernels.numba_math import ROUNDER, exp_not_positive, sigmoid

COLUMNS, ROWS, GROUP, SHIFT, VNNI = tiles.COLUMNS, tiles.ROWS, tiles.GROUP, tiles.SHIFT, tiles.VNNI
DEPTH = 16  # inputs are padded with zero weights to a multiple of it: four steps of the widest instruction
STRIDE = 64  # of every array: whole panels of columns and whole cache lines
VALUE_BYTES = 1 if VNNI else 2  # of a quantised activation
FLAGS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
SUMS: Any = {**FLAGS, "fastmath": {"contract", "reassoc"}}  # sums in any order, so that they become vectors
MAXIMA: Any = {**FLAGS, "fastmath": {"contract", "reassoc", "nnan", "nsz"}}  # no NaN: those are looked for elsewhere
NO_LIMIT = np.float32(-np.inf)
RELU, GELU, SWIGLU, SILU, GELU_TANH, GEGLU = range(6)
INPUTS, OUTPUTS, WEIGHT, BIAS, SCALES, COLUMN_SUMS = range(6)  # columns of the table of products


class Packed(NamedTuple):
    """Packed weights as the kernels take them; `products` (P, 6) has the shape of each and where its parts lie."""

    floats: Any  # biases, norms, scales and, in float32, weights
    values: Any  # int8 weights; empty in float32
    products: Any  # int64: INPUTS, OUTPUTS, then offsets: WEIGHT (in values or floats) and BIAS, SCALES, COLUMN_SUMS
    norms: Any  # (number, 2) int64: offsets of the gain and of the bias, which is -1 for RMS norm


def round_up(number: int, step: int) -> int:
    """The next multiple of `step`.

    >>> round_up(65, 64), round_up(64, 64)
    (128, 64)
    """
    return -(-number // step) * step


@linked_njit(**FLAGS)
def aligned(rows: Any, width: Any) -> Any:
    """Zeros (rows, width) that begin at a cache line; width in whole panels."""
    flat = np.zeros(rows * width + 16, np.float32)
    skip = (-(flat.ctypes.data // 4)) % 16
    return flat[skip : skip + rows * width].reshape(rows, width)


@linked_njit(**FLAGS)
def multiply(
    packed: Any, product: Any, x: Any, quantised: Any, scales: Any, rows: Any, y: Any, low: Any, add: Any, span: Any
) -> None:
    """One product: x (rows, K), or its quantised rows where there are int8 weights, into y.

    Args:
        low: results below are raised to it: 0 for ReLU, -inf for none.
        add: 1 where the result is added to y, otherwise 0.
        span: (first, last) column, in whole panels, and where in y the first goes.
    """
    out_of_line()
    shape = packed.products[product]
    floats, int8 = packed.floats.ctypes.data, packed.values.size > 0
    first, last, target = span
    inputs = (shape[INPUTS] + DEPTH - 1) // DEPTH * DEPTH
    y_stride = y.shape[1] * 4
    x_stride = quantised.shape[1] * VALUE_BYTES if int8 else x.shape[1] * 4
    blocks = (rows + ROWS - 1) // ROWS
    for column in range(first, last, COLUMNS):
        bias = floats + 4 * (shape[BIAS] + column)
        scale, total = floats + 4 * (shape[SCALES] + column), floats + 4 * (shape[COLUMN_SUMS] + column)
        row = 0
        for block in range(blocks):
            left = blocks - block
            count = (rows - row + left - 1) // left  # blocks of about the same size
            out = y.ctypes.data + row * y_stride + 4 * (target + column - first)
            if int8:
                values, of_rows = quantised.ctypes.data + row * x_stride, scales.ctypes.data + 4 * row
                weight, steps = packed.values.ctypes.data + shape[WEIGHT] + column * inputs, inputs // GROUP
                if count == 6:
                    byte_6(values, x_stride, weight, steps, bias, out, y_stride, low, add, of_rows, scale, total)
                elif count == 5:
                    byte_5(values, x_stride, weight, steps, bias, out, y_stride, low, add, of_rows, scale, total)
                elif count == 4:
                    byte_4(values, x_stride, weight, steps, bias, out, y_stride, low, add, of_rows, scale, total)
                elif count == 3:
                    byte_3(values, x_stride, weight, steps, bias, out, y_stride, low, add, of_rows, scale, total)
                elif count == 2:
                    byte_2(values, x_stride, weight, steps, bias, out, y_stride, low, add, of_rows, scale, total)
                else:
                    byte_1(values, x_stride, weight, steps, bias, out, y_stride, low, add, of_rows, scale, total)
            else:
                values, weight = x.ctypes.data + row * x_stride, floats + 4 * (shape[WEIGHT] + column * inputs)
                if count == 6:
                    float_6(values, x_stride, weight, inputs, bias, out, y_stride, low, add)
                elif count == 5:
                    float_5(values, x_stride, weight, inputs, bias, out, y_stride, low, add)
                elif count == 4:
                    float_4(values, x_stride, weight, inputs, bias, out, y_stride, low, add)
                elif count == 3:
                    float_3(values, x_stride, weight, inputs, bias, out, y_stride, low, add)
                elif count == 2:
                    float_2(values, x_stride, weight, inputs, bias, out, y_stride, low, add)
                else:
                    float_1(values, x_stride, weight, inputs, bias, out, y_stride, low, add)
            row += count


@linked_njit(**FLAGS)
def linear(
    packed: Any, product: Any, x: Any, quantised: Any, scales: Any, rows: Any, y: Any, low: Any, add: Any
) -> None:
    """A whole product, with quantisation of its input where the weights are int8."""
    out_of_line()
    shape = packed.products[product]
    if packed.values.size > 0:
        quantise(x, shape[INPUTS], rows, quantised, scales)
    columns = (shape[OUTPUTS] + COLUMNS - 1) // COLUMNS * COLUMNS
    multiply(packed, product, x, quantised, scales, rows, y, low, add, (np.int64(0), columns, np.int64(0)))


@linked_njit(**MAXIMA)
def _largest(values: Any, width: Any) -> Any:
    largest = np.float32(0)
    for k in range(width):
        value = abs(values[k])
        largest = value if value > largest else largest
    return largest


@linked_njit(**SUMS)
def _zero_or_nan(values: Any, width: Any) -> Any:
    """NaN where a value is NaN or infinite, otherwise 0."""
    total = np.float32(0)
    for k in range(width):
        total += values[k] * np.float32(0)
    return total


@linked_njit(**FLAGS)
def quantise(x: Any, width: Any, rows: Any, quantised: Any, scales: Any) -> None:
    """Each row of x (rows, K) as whole numbers from -127 to 127, plus `SHIFT`, and its scale; NaN spoils a row."""
    out_of_line()
    for row in range(rows):
        values, numbers = x[row], quantised[row]
        largest = _largest(values, width)
        scales[row] = largest / np.float32(127) + _zero_or_nan(values, width)
        inverse = np.float32(127) / largest if largest > np.float32(0) else np.float32(0)
        for k in range(width):
            # add 1.5 * 2^23 rounds to the nearest whole number
            numbers[k] = np.int32((values[k] * inverse + ROUNDER) - ROUNDER) + np.int32(SHIFT)


@linked_njit(**SUMS)
def _moments(values: Any, width: Any) -> Any:
    """Mean and variance of one row."""
    total = np.float32(0)
    for k in range(width):
        total += values[k]
    mean = total / np.float32(width)
    squares = np.float32(0)
    for k in range(width):
        squares += (values[k] - mean) * (values[k] - mean)
    return mean, squares / np.float32(width)


@linked_njit(**SUMS)
def _mean_square(values: Any, width: Any) -> Any:
    squares = np.float32(0)
    for k in range(width):
        squares += values[k] * values[k]
    return squares / np.float32(width)


@linked_njit(**FLAGS)
def layer_norm(packed: Any, norm: Any, x: Any, width: Any, rows: Any, y: Any, epsilon: Any) -> None:
    """y = (x - mean) / sqrt(variance + epsilon) * gain + bias for each row; y may be x.

    Of RMS norm x / sqrt(mean square + epsilon) * gain.
    """
    out_of_line()
    gain = packed.floats[packed.norms[norm, 0] : packed.norms[norm, 0] + width]
    is_rms = packed.norms[norm, 1] < 0
    bias = gain if is_rms else packed.floats[packed.norms[norm, 1] : packed.norms[norm, 1] + width]
    for row in range(rows):
        values, out = x[row], y[row]
        if is_rms:
            scale = np.float32(1) / np.float32(math.sqrt(_mean_square(values, width) + epsilon))
            for k in range(width):
                out[k] = values[k] * scale * gain[k]
            continue
        mean, variance = _moments(values, width)
        scale = np.float32(1) / np.float32(math.sqrt(variance + epsilon))
        for k in range(width):
            out[k] = (values[k] - mean) * scale * gain[k] + bias[k]


@linked_njit(**FLAGS)
def _erf(value: Any) -> Any:
    """The error function to 1.5e-7 (Abramowitz and Stegun, 1964, formula 7.1.26)."""
    size = abs(value)
    t = np.float32(1) / (np.float32(1) + np.float32(0.3275911) * size)
    series = np.float32(1.061405429) * t - np.float32(1.453152027)
    series = ((series * t + np.float32(1.421413741)) * t - np.float32(0.284496736)) * t + np.float32(0.254829592)
    return math.copysign(np.float32(1) - series * t * exp_not_positive(-size * size), value)


@linked_njit(**FLAGS)
def _gelu_tanh(value: Any) -> Any:
    """(1 + tanh(z)) / 2 = sigmoid(2 z)."""
    cubic = value * (np.float32(1) + np.float32(0.044715) * value * value)
    return value * sigmoid(np.float32(1.5957691216057308) * cubic)


@linked_njit(**FLAGS)
def activate(kind: Any, values: Any, width: Any, rows: Any) -> None:
    """GELU, its approximation, SiLU, SwiGLU or GEGLU in place; the gated ones read (rows, 2 F) and leave (rows, F).

    ReLU is part of the product.
    """
    out_of_line()
    if kind == GELU:
        for row in range(rows):
            line = values[row]
            for k in range(width):
                line[k] = np.float32(0.5) * line[k] * (np.float32(1) + _erf(line[k] * np.float32(0.7071067811865476)))
    elif kind == GELU_TANH:
        for row in range(rows):
            line = values[row]
            for k in range(width):
                line[k] = _gelu_tanh(line[k])
    elif kind == SILU:
        for row in range(rows):
            line = values[row]
            for k in range(width):
                line[k] = line[k] * sigmoid(line[k])
    elif kind == SWIGLU:
        for row in range(rows):
            line = values[row]
            for k in range(width):
                line[k] = line[k] * sigmoid(line[k]) * line[width + k]
    elif kind == GEGLU:
        for row in range(rows):
            line = values[row]
            for k in range(width):
                line[k] = _gelu_tanh(line[k]) * line[width + k]
