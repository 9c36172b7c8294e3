"""How a recurrent layer is cut into programs, and when it is, without a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harken.kernels.recurrent.call import CellKind
from harken.kernels.recurrent.triton import backend
from harken.kernels.recurrent.triton.plan import GATES, Chip, gate_rows, plan_of, shared_bytes

H200 = Chip(132, 232448)
kinds = st.sampled_from(sorted(GATES))
dtypes = st.sampled_from([torch.bfloat16, torch.float16, torch.float32])


@given(kinds, dtypes, st.integers(1, 600), st.integers(1, 2500), st.integers(1, 2), st.booleans())
def test_a_plan_is_on_the_chip_at_once_and_covers_everything(
    kind: str, dtype: torch.dtype, rows: int, hidden: int, directions: int, backward: bool
) -> None:
    plan = plan_of(kind, dtype, rows, hidden, directions, H200, backward)
    if plan is None:
        return
    assert plan.programs(rows, hidden, directions) <= H200.processors
    assert shared_bytes(plan, kind, backward, dtype.itemsize) <= H200.shared
    assert plan.parts * plan.columns * plan.chunks >= hidden
    assert plan.programs(rows, hidden, 1) * plan.units * plan.rows >= rows * hidden
    sizes = (plan.units, plan.rows, plan.parts, plan.columns, plan.warps)
    assert all(size & (size - 1) == 0 for size in sizes)
    assert 1 <= plan.group <= plan.chunks * GATES[kind]


@given(kinds, dtypes, st.integers(1, 600), st.integers(1, 2500), st.booleans())
def test_what_is_read_of_a_norm_has_a_number_for_every_thread(
    kind: str, dtype: torch.dtype, rows: int, hidden: int, backward: bool
) -> None:
    plan = plan_of(kind, dtype, rows, hidden, 1, H200, backward)
    if plan is None:
        return
    blocks, pairs, together, norms = plan.norm(kind, hidden)[:4]
    assert blocks * plan.units >= hidden and blocks & (blocks - 1) == 0
    for gates in {gate_rows(kind)} | ({1} if norms > together else set()):
        read = min(blocks, pairs // gates)  # programs that are read at once, as in the kernel
        assert read >= 1 and read * gates * 2 * plan.rows >= 32 * plan.warps


@pytest.mark.parametrize(
    ("rows", "hidden", "directions"), [(16, 768, 1), (16, 768, 2), (64, 512, 2), (8, 256, 2), (128, 1024, 1)]
)
@pytest.mark.parametrize("backward", [False, True])
def test_the_shapes_that_matter_have_a_plan(rows: int, hidden: int, directions: int, backward: bool) -> None:
    for kind in GATES:
        assert plan_of(kind, torch.bfloat16, rows, hidden, directions, H200, backward) is not None


def uses_triton(
    time: int, rows: int = 16, dtype: torch.dtype = torch.bfloat16, equal: bool = False, **options: Any
) -> bool:
    """Whether an LSTM of 768 units in one direction takes the kernel for (rows, time) on a GPU; `equal`: no lengths."""
    kind = CellKind("lstm", **options)
    x: Any = SimpleNamespace(shape=(rows, time, 8), is_cuda=True, device=SimpleNamespace(index=0))
    lengths = None if equal else torch.tensor([time])
    call: Any = SimpleNamespace(
        x=x, kind=kind, hidden_size=768, is_projected=False, compute_dtype=dtype, torch_name=kind.torch_name,
        lengths=lengths, bidirectional=False, trace=False,
    )  # fmt: skip
    return backend.TRITON.supports(call)


def test_the_rule_for_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "chip_of", lambda device: H200)
    monkeypatch.setattr(backend, "has_triton", lambda: True)
    backend._max_rows.cache_clear()
    assert uses_triton(64) and not uses_triton(63)  # a short sequence is left to cuDNN ...
    assert uses_triton(8, peephole="diagonal") and not uses_triton(7, peephole="diagonal")  # ... where it has the cell
    assert not uses_triton(64, peephole="full")
    assert not uses_triton(64, rows=500)
    assert not uses_triton(64, dtype=torch.float64)
    with torch.no_grad():
        assert uses_triton(64, dtype=torch.float16)
    assert uses_triton(64, dtype=torch.float16, equal=True)
    with torch.no_grad():
        assert not uses_triton(64, dtype=torch.float16, equal=True)  # cuDNN's persistent kernel
    backend._max_rows.cache_clear()
