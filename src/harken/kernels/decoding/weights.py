"""Packing: the weights of a model as the kernels read them, in float32 or int8.

A weight (O, K) becomes panels of `COLUMNS` outputs, each (K / group, COLUMNS, group), so that a tile reads it from
front to back; both sides are padded with zeros. In int8 every output has its own scale, max_k |W| / 127. The output
layer is packed like the rest, with a bias of -inf for outputs that only fill the last panel.

>>> spec = Linear(np.array([[1, -2], [0.5, 0]], np.float32), None)
>>> packed = pack([spec], [], "int8")
>>> packed.values.dtype.name, packed.products[0, :2].tolist()
('int8', [2, 2])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.kernels.decoding.description import Linear, Norm, SpecialTokens
from harken.kernels.decoding.products import COLUMNS, DEPTH, GROUP, SHIFT, STRIDE, Packed, round_up
from harken.kernels.decoding.topk import Allowed
from harken.lazy_torch import as_array

if TYPE_CHECKING:
    pass


@dataclass
class _Flat:
    """A buffer filled from front to back, each part from a cache line on."""

    array: Any
    used: int = 0

    def reserve(self, size: int) -> int:
        start = self.used
        self.used += round_up(size, 64)
        return start

    def add(self, values: Any) -> int:
        start = self.reserve(len(values))
        self.array[start : start + len(values)] = values
        return start


def cache_line_array(size: int, dtype: Any) -> Any:
    """Zeros that begin at a cache line."""
    if size == 0:
        return np.zeros(0, dtype)
    count = size * np.dtype(dtype).itemsize
    raw = np.zeros(count + 64, np.uint8)
    skip = -raw.__array_interface__["data"][0] % 64  # `raw.ctypes` takes longer than all the rest
    return raw[skip : skip + count].view(dtype)


def pack(
    linears: Sequence[Linear],
    norms: Sequence[Norm],
    precision: str,
    last: tuple[np.ndarray, np.ndarray] | None = None,
) -> Packed:
    """Everything in two flat arrays.

    Args:
        precision: "float32" or "int8".
        last: in int8, what `quantise_weight` gave for the last product, where that is known.
    """
    int8 = precision == "int8"
    shapes = [(round_up(len(linear.weight), COLUMNS), round_up(linear.weight.shape[1], DEPTH)) for linear in linears]
    weights = sum(round_up(outputs * inputs, 64) for outputs, inputs in shapes)
    others = sum(3 * round_up(outputs, 64) for outputs, _ in shapes) + sum(
        2 * round_up(len(n.weight), 64) for n in norms
    )
    floats = _Flat(cache_line_array(others + (0 if int8 else weights), np.float32))
    values = _Flat(cache_line_array(weights if int8 else 0, np.int8))
    products = np.zeros((len(linears), 6), np.int64)
    for number, (linear, (outputs, inputs)) in enumerate(zip(linears, shapes, strict=True)):
        weight = as_array(linear.weight)
        bias = np.full(outputs, -np.inf if linear.is_output else 0.0, np.float32)
        bias[: len(weight)] = 0.0 if linear.bias is None else as_array(linear.bias)
        line = products[number]
        line[:2] = weight.shape[1], len(weight)
        line[3] = floats.add(bias)
        if int8:
            known = last if last is not None and number == len(linears) - 1 else quantise_weight(weight)
            line[2], line[4], line[5] = _pack_bytes(*known, outputs, inputs, values, floats)
        else:
            line[2] = floats.reserve(outputs * inputs)
            _panels(weight, floats.array[line[2] : line[2] + outputs * inputs], outputs, inputs, 1)
    offsets = [tuple(-1 if part is None else floats.add(as_array(part)) for part in norm[:2]) for norm in norms]
    return Packed(floats.array, values.array, products, np.array(offsets, np.int64).reshape(-1, 2))


def _panels(weight: np.ndarray, target: np.ndarray, outputs: int, inputs: int, group: int) -> None:
    """weight (O, K) into target (O' K',), panel by panel."""
    if weight.shape != (outputs, inputs):
        padded = np.zeros((outputs, inputs), weight.dtype)
        padded[: weight.shape[0], : weight.shape[1]] = weight
        weight = padded
    parts = weight.reshape(outputs // COLUMNS, COLUMNS, inputs // group, group).transpose(0, 2, 1, 3)
    target.reshape(parts.shape)[...] = parts


def quantise_weight(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(O, K) -> int8 (O, K) and scales (O,): W is about int8 * scale.

    >>> quantise_weight(np.array([[1, -2], [0, 0]], np.float32))[0].tolist()
    [[64, -127], [0, 0]]
    """
    scales = np.abs(weight).max(1) / np.float32(127)
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    return np.rint(weight * inverse[:, None]).astype(np.int8), scales


def _pack_bytes(
    numbers: np.ndarray, scales: np.ndarray, outputs: int, inputs: int, values: _Flat, floats: _Flat
) -> tuple[int, int, int]:
    start = values.reserve(outputs * inputs)
    _panels(numbers, values.array[start : start + outputs * inputs], outputs, inputs, GROUP)
    padded = np.zeros(outputs, np.float32)
    padded[: len(scales)] = scales
    sums = np.zeros(outputs, np.int32)
    sums[: len(scales)] = SHIFT * numbers.sum(1, dtype=np.int32)
    return start, floats.add(padded), floats.add(sums.view(np.float32))


@dataclass
class OutputLayer:
    """The output layer, of which a shortlist takes a part."""

    layer: Linear
    precision: str
    quantised: tuple[np.ndarray, np.ndarray] | None = None  # the whole weight in int8, once it was needed

    def part(self, allowed: Any, special: SpecialTokens) -> tuple[Packed, Allowed]:
        """The layer with the tokens that some source of a batch may write, and who may write which.

        Args:
            allowed: (B, V) bool, a shortlist.
        """
        columns = allowed.any(0)
        columns[: max(special) + 1] = True  # the kernel knows special tokens by their columns
        tokens = np.flatnonzero(columns)
        whole = as_array(self.layer.weight)
        bias: Any = None if self.layer.bias is None else as_array(self.layer.bias)[tokens]
        known = None
        if self.precision == "int8":
            if self.quantised is None:
                self.quantised = quantise_weight(whole)
            numbers, scales = self.quantised
            known = numbers[tokens], scales[tokens]
        weight: Any = whole[tokens] if known is None else known[0]
        packed = pack([Linear(weight, bias, is_output=True)], [], self.precision, known)
        excluded = np.zeros((len(allowed), round_up(len(tokens), STRIDE)), np.float32)
        excluded[:, : len(tokens)][~allowed[:, tokens]] = -np.inf
        return packed, Allowed(tokens, excluded)
