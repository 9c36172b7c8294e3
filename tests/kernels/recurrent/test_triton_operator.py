"""The recurrent operator as torch sees it, without a GPU: shapes, dtypes and gradients of tensors that hold nothing."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import harken.kernels.recurrent.triton.operator  # noqa: F401
from harken.kernels.recurrent.triton.plan import GATES, NORMS, SAVED


def given(kind: str, norm: bool) -> list[Any]:
    """What the operator takes, for 5 steps of 2 rows of 7 units in both directions, in float32."""
    gates, has_cell = GATES[kind], kind in ("lstm", "coupled")
    hidden, cell = torch.zeros(2, 2, 7), torch.zeros(2, 2, 7) if has_cell else None
    gain = torch.ones(2, (NORMS[kind] + has_cell) * 7, requires_grad=True) if norm else None
    weight = torch.zeros(2, gates * 7, 7, requires_grad=True)
    from_input = torch.zeros(5, 2, 2, gates, 7, requires_grad=True)
    lengths = torch.tensor([5, 3], dtype=torch.int32)
    return [from_input, weight, hidden, cell, None, gain, None, None, None, lengths, kind, 0.0, False, True]


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "coupled", "gru", "gru_before", "rnn_tanh"])
def test_shapes_are_known_without_a_launch(kind: str, norm: bool) -> None:
    with FakeTensorMode():
        arguments = given(kind, norm)
        y, hidden, _, _, _, saved, _, normals, scales = torch.ops.harken.recurrent(*arguments)
        (y.sum() + hidden.sum()).backward()
    count = NORMS[kind] if norm else 0
    assert y.shape == (5, 2, 2, 7) and hidden.shape == (2, 2, 7)
    assert saved.shape == (5, 2, 2, SAVED[kind], 7)
    assert normals.shape == (5, 2, 2, count, 7) and scales.shape == (5, 2, 2, count)
    learnt: list[Tensor] = [part for part in arguments[:6] if isinstance(part, Tensor) and part.requires_grad]
    assert len(learnt) == 2 + norm
    assert all(part.grad is not None and part.grad.shape == part.shape for part in learnt)


def test_what_cannot_be_launched_names_its_shape() -> None:
    with pytest.raises(ValueError, match=r"lstm was found for torch\.float32, 2 rows, 7 units"):
        torch.ops.harken.recurrent(*given("lstm", norm=False))
