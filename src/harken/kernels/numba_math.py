"""sigmoid and tanh for numba kernels, vectorisable by the compiler.

exp(x) - 1 = 2^n (e^r - 1) + (2^n - 1),   n = round(x / ln 2),   |r| <= ln 2 / 2
sigmoid(x) = 1 / (1 + exp(-x))            tanh(|x|) = -m / (2 + m),   m = exp(-2 |x|) - 1

e^r - 1 is a polynomial in r, so there is no call and no branch. In float32 the results are within 2.5 units in
the last place of the exact ones; float64 takes the C library's functions, which are exact to a unit but slower.

numba is imported by kernels only, where a layer or a training uses them. The argument is reduced as in Cody and Waite
(1980).

>>> import numpy
>>> round(float(sigmoid_of(numpy.float32(0.5))), 6), round(float(tanh_of(numpy.float32(-0.5))), 6)
(0.622459, -0.462117)
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic, overload

from harken.kernels.linking import linked_njit

# Products and sums may be contracted into one instruction; NaN, infinity and the order of sums are as written.
FLAGS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}

INVERSE_LN2 = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
ROUNDER = np.float32(1.5 * 2**23)  # adding it leaves no room for a fraction
LIMIT = np.float32(87.0)  # beyond it exp leaves float32
HALF, ONE, TWO = np.float32(0.5), np.float32(1), np.float32(2)
THIRD, FOURTH, FIFTH = np.float32(1.6666665459e-1), np.float32(4.1665795894e-2), np.float32(8.3334519073e-3)
SIXTH, SEVENTH = np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)


def _typed_power_of_two(typing_context: Any, whole: Any) -> Any:
    """2^n as float32 for an int32 n: n written where a float keeps its exponent."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        bits = builder.add(arguments[0], ir.Constant(ir.IntType(32), 127))
        return builder.bitcast(builder.shl(bits, ir.Constant(ir.IntType(32), 23)), ir.FloatType())

    return numba.types.float32(numba.types.int32), build


_power_of_two: Any = intrinsic(_typed_power_of_two)


@linked_njit(**FLAGS)
def _exp_parts(value: Any) -> Any:
    """(e^r - 1, 2^n)."""
    whole = (value * INVERSE_LN2 + ROUNDER) - ROUNDER
    rest = (value - whole * LN2_HIGH) - whole * LN2_LOW
    series = ((((SEVENTH * rest + SIXTH) * rest + FIFTH) * rest + FOURTH) * rest + THIRD) * rest + HALF
    return rest + rest * rest * series, _power_of_two(np.int32(whole))


@linked_njit(**FLAGS)
def exp_not_positive(value: Any) -> Any:
    """exp(x) of a float32 that is 0 or less, such as a score minus the largest; at least exp(-87). NaN stays NaN."""
    limited = -LIMIT if value < -LIMIT else value
    part, scale = _exp_parts(limited)
    return part * scale + scale


def sigmoid(value: Any) -> Any:
    """For compiled code alone: see the overload."""


def tanh(value: Any) -> Any:
    """For compiled code alone: see the overload."""


@overload(sigmoid, jit_options=FLAGS)
def _sigmoid(value: Any) -> Any:

    def double(value: Any) -> Any:
        return 1.0 / (1.0 + math.exp(-value))

    def single(value: Any) -> Any:
        limited = -value
        limited = LIMIT if limited > LIMIT else limited  # written so that NaN stays NaN
        limited = -LIMIT if limited < -LIMIT else limited
        part, scale = _exp_parts(limited)
        return ONE / (ONE + (part * scale + scale))

    return single if value == numba.types.float32 else double


@overload(tanh, jit_options=FLAGS)
def _tanh(value: Any) -> Any:

    def double(value: Any) -> Any:
        return math.tanh(value)

    def single(value: Any) -> Any:
        limited = -TWO * abs(value)
        limited = -LIMIT if limited < -LIMIT else limited
        part, scale = _exp_parts(limited)
        less_one = part * scale + (scale - ONE)
        return math.copysign(-less_one / (less_one + TWO), value)

    return single if value == numba.types.float32 else double


@linked_njit(**FLAGS)
def sigmoid_of(value: Any) -> Any:
    """1 / (1 + exp(-x)) of a number."""
    return sigmoid(value)


@linked_njit(**FLAGS)
def tanh_of(value: Any) -> Any:
    """tanh of a number."""
    return tanh(value)
