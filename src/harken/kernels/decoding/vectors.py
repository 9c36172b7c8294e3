"""Vectors of `LANES` float32 numbers as values of compiled functions.

numba has no vector type, and LLVM's own vectoriser guards short loops with checks that cost more than the loops. Here a
vector is a value like any other: loaded from an address, computed with, stored. For compiled code alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

from harken.kernels.decoding.tiles import CONTRACT, F32, LANES

LLVM = ir.VectorType(F32, LANES)
REORDER = ("reassoc", "contract")


class VectorType(types.Type):
    """numba's name for it."""

    def __init__(self) -> None:
        super().__init__(name=f"float32x{LANES}")


VECTOR = VectorType()


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, LLVM)


def _operation(result: Any, arguments: tuple[Any, ...], build: Callable[..., Any]) -> Any:
    """An intrinsic with these types; `build(builder, *values)` makes its instructions."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        result_value = build(builder, *values)
        return context.get_dummy_value() if result_value is None else result_value

    signature = result(*arguments)
    typed: dict[int, Callable[..., Any]] = {
        1: lambda context, a: (signature, generate),
        2: lambda context, a, b: (signature, generate),
        3: lambda context, a, b, c: (signature, generate),
    }
    return intrinsic(typed[len(arguments)])


def _splat(builder: Any, value: Any) -> Any:
    first = builder.insert_element(ir.Constant(LLVM, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(LLVM, ir.Undefined), zeros)


def _reduce(name: str, builder: Any, arguments: list[Any]) -> Any:
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(F32, [argument.type for argument in arguments])
        function = ir.Function(builder.module, kind, name)
    return builder.call(function, arguments, fastmath=REORDER)


def _load(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, LLVM.as_pointer()), align=4)


def _number(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, F32.as_pointer()), align=4)


def _set_number(builder: Any, address: Any, value: Any) -> None:
    builder.store(value, builder.inttoptr(address, F32.as_pointer()), align=4)


def _store(builder: Any, address: Any, vector: Any) -> None:
    builder.store(vector, builder.inttoptr(address, LLVM.as_pointer()), align=4)


def _multiply_add(builder: Any, left: Any, right: Any, added: Any) -> Any:
    return builder.fadd(added, builder.fmul(left, right, flags=CONTRACT), flags=CONTRACT)


def _larger(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _lanes_above(builder: Any, left: Any, right: Any) -> Any:
    bits = builder.bitcast(builder.fcmp_ordered(">", left, right), ir.IntType(LANES))
    return builder.zext(bits, ir.IntType(64))


def _first_bit(builder: Any, bits: Any) -> Any:
    return builder.cttz(bits, ir.Constant(ir.IntType(1), 1))


def _sum(builder: Any, vector: Any) -> Any:
    return _reduce(f"llvm.vector.reduce.fadd.v{LANES}f32", builder, [ir.Constant(F32, -0.0), vector])


def _maximum(builder: Any, vector: Any) -> Any:
    return _reduce(f"llvm.vector.reduce.fmax.v{LANES}f32", builder, [vector])


load = _operation(VECTOR, (types.int64,), _load)  # from an address
store = _operation(types.void, (types.int64, VECTOR), _store)
number = _operation(types.float32, (types.int64,), _number)
set_number = _operation(types.void, (types.int64, types.float32), _set_number)
splat = _operation(VECTOR, (types.float32,), _splat)
multiply_add = _operation(VECTOR, (VECTOR, VECTOR, VECTOR), _multiply_add)  # a b + c
larger = _operation(VECTOR, (VECTOR, VECTOR), _larger)  # of each lane
vector_sum = _operation(types.float32, (VECTOR,), _sum)
vector_maximum = _operation(types.float32, (VECTOR,), _maximum)
lanes_above = _operation(types.int64, (VECTOR, VECTOR), _lanes_above)  # bit i: whether lane i of a is above that of b
first_bit = _operation(types.int64, (types.int64,), _first_bit)  # the lowest bit that is set; one must be
