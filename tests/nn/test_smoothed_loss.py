"""The definition of the loss equals torch's cross-entropy with label smoothing."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.nn import smoothed_cross_entropy


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 6),
    st.integers(2, 8),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from([0, 1, -1]),
    st.integers(0, 1000),
)
def test_equals_torch(rows: int, vocabulary: int, smoothing: float, padding: int, seed: int) -> None:
    torch.manual_seed(seed)
    logits = (5 * torch.randn(rows, vocabulary, dtype=torch.float64)).requires_grad_()
    targets = torch.randint(vocabulary, (rows,))
    targets[::2] = padding
    ours = smoothed_cross_entropy(logits, targets, smoothing, padding)
    theirs = F.cross_entropy(logits, targets, ignore_index=padding, label_smoothing=smoothing, reduction="sum")
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-9)
    found, right = torch.autograd.grad(ours, logits)[0], torch.autograd.grad(theirs, logits)[0]
    assert torch.allclose(found, right, rtol=0, atol=1e-9)
    assert (found[targets == padding] == 0).all()


def test_uniform_logits_cost_log_v() -> None:
    assert smoothed_cross_entropy(torch.zeros(3, 7), torch.tensor([1, 2, 0])).item() == pytest.approx(
        2 * torch.tensor(7.0).log().item()
    )


def test_bfloat16_logits_are_summed_in_float32() -> None:
    logits = torch.randn(4, 5).bfloat16()
    loss = smoothed_cross_entropy(logits, torch.tensor([1, 2, 3, 4]), 0.1)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(smoothed_cross_entropy(logits.float(), torch.tensor([1, 2, 3, 4]), 0.1).item())
