"""The innermost matrix product: a few rows times a panel of columns, as LLVM vector code for the CPU it runs on.

    float32   Y[r, c] = max(low, sum_k X[r, k] W[k, c] + b_c [+ Y[r, c]])
    int8      the same with sum_k in whole numbers, times the scale of row r and the scale of column c

A panel holds `COLUMNS` columns of a weight, `GROUP` values of one column after another: 1 in float32; in int8 as many
as one instruction multiplies and adds (4 with VNNI, otherwise 2). All sums of a tile stay in registers; `ROWS` is what
they have room for. numba compiles for the CPU of the process and keys its cache by that CPU's name and features, so
what is chosen here from the same features never meets another CPU.

VNNI multiplies unsigned by signed bytes, so activations are stored as q + 128 and 128 sum_k W[k, c] is subtracted.
Without it activations are 16-bit numbers, whose products are added in pairs: no intermediate result can saturate.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from harken.kernels.linking import linked_njit

I8, I16, I32, I64, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
FLAGS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
CONTRACT = ("contract",)


def _features() -> set[str]:
    """The instruction sets that numba compiles for."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return {name[1:] for name in str(features).split(",") if name.startswith("+")}


FEATURES = _features()
if "avx512f" in FEATURES:
    LANES, VECTORS = 16, 4
elif "avx2" in FEATURES:
    LANES, VECTORS = 8, 2
else:
    LANES, VECTORS = 4, 2
ROWS = 6  # of a tile: ROWS * VECTORS sums, VECTORS weights and an activation fill 29 of 32 or 15 of 16 registers
COLUMNS = LANES * VECTORS


def _vnni_operands() -> Any:
    """The type of the byte operands of the VNNI intrinsic in this LLVM; None where the CPU or LLVM has none."""
    if not {"avx512f", "avx512vnni"} <= FEATURES:
        return None
    for operand in ("<64 x i8>", "<16 x i32>"):  # since LLVM 22, and before
        # Only a call is verified, not a declaration alone
        name = "@llvm.x86.avx512.vpdpbusd.512"
        text = f"""
            declare <16 x i32> {name}(<16 x i32>, {operand}, {operand})
            define <16 x i32> @add(<16 x i32> %sum, {operand} %x) {{
              %result = call <16 x i32> {name}(<16 x i32> %sum, {operand} %x, {operand} %x)
              ret <16 x i32> %result
            }}"""
        try:
            binding.parse_assembly(text).verify()
        except RuntimeError:
            continue
        return ir.VectorType(I8, 64) if "i8" in operand else ir.VectorType(I32, 16)
    return None


_VNNI_TYPE = _vnni_operands()
VNNI = _VNNI_TYPE is not None
GROUP = 4 if VNNI else 2  # int8 values of a column that lie together
SHIFT = 128 if VNNI else 0  # added to int8 activations
_PMADDWD = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd"} if "avx2" in FEATURES else {}
if "avx512bw" not in FEATURES:
    _PMADDWD.pop(16, None)


def _function(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    module = builder.module
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    """A vector of one scalar."""
    vector = ir.VectorType(value.type, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _load(builder: Any, address: Any, kind: Any, align: int) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=align)


def _at(builder: Any, base: Any, offset: int) -> Any:
    return builder.add(base, ir.Constant(I64, offset)) if offset else base


def _multiply_float(builder: Any, sums: Any, weights: Any, values: list[Any], rows: int) -> list[Any]:
    """One k: sums + x_r W[k], rows x vectors."""
    done = []
    for row in range(rows):
        value = _splat(builder, values[row], LANES)
        for vector in range(VECTORS):
            product = builder.fmul(value, weights[vector], flags=CONTRACT)
            done.append(builder.fadd(sums[row * VECTORS + vector], product, flags=CONTRACT))
    return done


def _multiply_bytes(builder: Any, sums: Any, weights: Any, values: list[Any], rows: int) -> list[Any]:
    """One group of k."""
    total = ir.VectorType(I32, LANES)
    done = []
    for row in range(rows):
        value = _splat(builder, values[row], LANES)  # (LANES,) of 4 bytes, or of 2 16-bit numbers
        for vector in range(VECTORS):
            before = sums[row * VECTORS + vector]
            if VNNI:
                call = _function(builder, "llvm.x86.avx512.vpdpbusd.512", total, [total, _VNNI_TYPE, _VNNI_TYPE])
                x, w = (builder.bitcast(part, _VNNI_TYPE) for part in (value, weights[vector]))
                done.append(builder.call(call, [before, x, w]))
                continue
            pairs = ir.VectorType(I16, 2 * LANES)
            x, w = builder.bitcast(value, pairs), weights[vector]
            if LANES in _PMADDWD:
                call = _function(builder, _PMADDWD[LANES], total, [pairs, pairs])
                done.append(builder.add(before, builder.call(call, [x, w])))
                continue
            wide = ir.VectorType(I32, 2 * LANES)
            product = builder.mul(builder.sext(x, wide), builder.sext(w, wide))
            even, odd = (
                builder.shuffle_vector(product, product, ir.Constant(total, list(range(first, 2 * LANES, 2))))
                for first in (0, 1)
            )
            done.append(builder.add(before, builder.add(even, odd)))
    return done


def _weights_of_bytes(builder: Any, address: Any) -> list[Any]:
    size = LANES * GROUP
    loaded = [
        _load(builder, _at(builder, address, vector * size), ir.VectorType(I8, size), size) for vector in range(VECTORS)
    ]
    return loaded if VNNI else [builder.sext(part, ir.VectorType(I16, size)) for part in loaded]


def _weights_of_floats(builder: Any, address: Any) -> list[Any]:
    kind, size = ir.VectorType(F32, LANES), 4 * LANES
    return [_load(builder, _at(builder, address, vector * size), kind, size) for vector in range(VECTORS)]


def _loop(builder: Any, rows: int, steps: Any, x: Any, stride: Any, weight: Any, quantised: bool) -> list[Any]:
    """The sums of a tile after all k; `steps` groups of k, a multiple of the unrolling."""
    unroll = 2 if rows > 2 else 4
    group_bytes = COLUMNS * (GROUP if quantised else 4)  # of the weight, per step
    scalar = I32 if quantised else F32  # what one step reads of a row: 4 bytes in all three forms
    total = ir.VectorType(I32 if quantised else F32, LANES)
    before = builder.block
    body, after = builder.append_basic_block("tile"), builder.append_basic_block("tiled")
    starts = [builder.add(x, builder.mul(stride, ir.Constant(I64, row))) for row in range(rows)]
    end = builder.add(weight, builder.mul(steps, ir.Constant(I64, group_bytes)))
    builder.branch(body)
    builder.position_at_end(body)
    offset, pointer = builder.phi(I64), builder.phi(I64)
    sums = [builder.phi(total) for _ in range(rows * VECTORS)]
    offset.add_incoming(ir.Constant(I64, 0), before)
    pointer.add_incoming(weight, before)
    for part in sums:
        part.add_incoming(ir.Constant(total, [0] * LANES if quantised else [0.0] * LANES), before)
    current: list[Any] = list(sums)
    for step in range(unroll):
        address = _at(builder, pointer, step * group_bytes)
        weights = _weights_of_bytes(builder, address) if quantised else _weights_of_floats(builder, address)
        moved = _at(builder, offset, 4 * step)
        values = [_load(builder, builder.add(start, moved), scalar, 4) for start in starts]
        multiply = _multiply_bytes if quantised else _multiply_float
        current = multiply(builder, current, weights, values, rows)
    next_offset, next_pointer = _at(builder, offset, 4 * unroll), _at(builder, pointer, group_bytes * unroll)
    offset.add_incoming(next_offset, builder.block)
    pointer.add_incoming(next_pointer, builder.block)
    for part, new in zip(sums, current, strict=True):
        part.add_incoming(new, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", next_pointer, end), body, after)
    builder.position_at_end(after)
    return current


def _store(builder: Any, sums: list[Any], bias: Any, y: Any, stride: Any, low: Any, accumulate: Any, rows: int) -> None:
    """Bias, residual connection and ReLU, then out of the registers."""
    kind, size = ir.VectorType(F32, LANES), 4 * LANES
    floor = _splat(builder, low, LANES)
    adding, plain, done = (builder.append_basic_block(name) for name in ("adding", "plain", "stored"))
    builder.cbranch(builder.icmp_signed("!=", accumulate, ir.Constant(I64, 0)), adding, plain)
    for block, residual in ((adding, True), (plain, False)):
        builder.position_at_end(block)
        biases = [_load(builder, _at(builder, bias, vector * size), kind, size) for vector in range(VECTORS)]
        for row in range(rows):
            start = builder.add(y, builder.mul(stride, ir.Constant(I64, row)))
            for vector in range(VECTORS):
                value = builder.fadd(sums[row * VECTORS + vector], biases[vector])
                pointer = builder.inttoptr(_at(builder, start, vector * size), kind.as_pointer())
                if residual:
                    value = builder.fadd(value, builder.load(pointer, align=size))
                value = builder.select(builder.fcmp_ordered("<", value, floor), floor, value)  # NaN stays NaN
                builder.store(value, pointer, align=size)
        builder.branch(done)
    builder.position_at_end(done)


def _out_of_line(context: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), build


out_of_line: Any = intrinsic(_out_of_line)  # called in a function that is called from many places: compiled once


def _float_tile(rows: int) -> Any:
    """tile(x, x_stride, weight, steps, bias, y, y_stride, low, accumulate); strides in bytes, k in steps."""

    def typed(context: Any, x: Any, xs: Any, w: Any, steps: Any, bias: Any, y: Any, ys: Any, low: Any, add: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, stride, weight, steps, bias, y, y_stride, low, accumulate = arguments
            sums = _loop(builder, rows, steps, x, stride, weight, quantised=False)
            _store(builder, sums, bias, y, y_stride, low, accumulate, rows)
            return context.get_dummy_value()

        i64 = types.int64
        return types.void(i64, i64, i64, i64, i64, i64, i64, types.float32, i64), build

    return intrinsic(typed)


def _byte_tile(rows: int) -> Any:
    """tile(x, x_stride, weight, steps, bias, y, y_stride, low, accumulate, row_scales, column_scales, column_sums)."""

    def typed(
        context: Any,
        x: Any,
        xs: Any,
        w: Any,
        n: Any,
        b: Any,
        y: Any,
        ys: Any,
        low: Any,
        add: Any,
        r: Any,
        c: Any,
        s: Any,
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, stride, weight, steps, bias, y, y_stride, low, accumulate, row_scales, scales, sums_of = arguments
            sums = _loop(builder, rows, steps, x, stride, weight, quantised=True)
            floats, whole, size = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES), 4 * LANES
            scale = [_load(builder, _at(builder, scales, vector * size), floats, size) for vector in range(VECTORS)]
            shift = [_load(builder, _at(builder, sums_of, vector * size), whole, size) for vector in range(VECTORS)]
            scaled = []
            for row in range(rows):
                of_row = _splat(builder, _load(builder, _at(builder, row_scales, 4 * row), F32, 4), LANES)
                for vector in range(VECTORS):
                    exact = builder.sitofp(builder.sub(sums[row * VECTORS + vector], shift[vector]), floats)
                    scaled.append(builder.fmul(exact, builder.fmul(of_row, scale[vector])))
            _store(builder, scaled, bias, y, y_stride, low, accumulate, rows)
            return context.get_dummy_value()

        i64 = types.int64
        return types.void(i64, i64, i64, i64, i64, i64, i64, types.float32, i64, i64, i64, i64), build

    return intrinsic(typed)


def _compiled(function: Any, name: str) -> Any:
    """The function compiled under a name of its own.

    Numba's names for compiled functions are their Python name, argument types and a number, which counts from 1 in each
    process. Functions of one Python name would be taken for each other where code on disk is of several processes.
    """
    function.__name__ = function.__qualname__ = name
    return linked_njit(**FLAGS)(function)


def _float_function(rows: int) -> Any:
    tile = _float_tile(rows)

    def run(x, xs, w, steps, bias, y, ys, low, add):  # type: ignore[no-untyped-def]
        out_of_line()
        tile(x, xs, w, steps, bias, y, ys, low, add)

    return _compiled(run, f"float_{rows}")


def _byte_function(rows: int) -> Any:
    tile = _byte_tile(rows)

    def run(x, xs, w, steps, bias, y, ys, low, add, row_scales, scales, sums):  # type: ignore[no-untyped-def]
        out_of_line()
        tile(x, xs, w, steps, bias, y, ys, low, add, row_scales, scales, sums)

    return _compiled(run, f"byte_{rows}")


float_1, float_2, float_3, float_4, float_5, float_6 = (_float_function(rows) for rows in range(1, ROWS + 1))
byte_1, byte_2, byte_3, byte_4, byte_5, byte_6 = (_byte_function(rows) for rows in range(1, ROWS + 1))
