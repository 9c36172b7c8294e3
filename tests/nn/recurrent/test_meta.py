"""Recurrent layers run on the meta device, so that their FLOPs can be counted without computing anything."""

import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parent))
from recurrent_cases import VARIANTS

B, T, INPUTS, H = 3, 5, 8, 16


def flops(variant: str, lengths: torch.Tensor | None, device: str = "meta") -> int:
    """Of one forward and one backward pass."""
    kind, options = VARIANTS[variant]
    layer = kind(INPUTS, H, batch_first=True, device=device, **options)
    with FlopCounterMode(display=False) as counter:
        output, _ = layer(torch.zeros(B, T, INPUTS, device=device), lengths=lengths)
        output.sum().backward()
    assert output.shape[:2] == (B, T) and output.device.type == device
    return counter.get_total_flops()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_cell_runs_forward_and_backward_on_meta(variant: str) -> None:
    assert flops(variant, None) == flops(variant, torch.full((B,), T))


def test_flops_are_those_of_the_products() -> None:
    forward = 2 * B * T * 4 * H * (INPUTS + H)
    # backward: dW and dU of all steps, and dh of all but the first, whose state needs no gradient
    backward = forward + 2 * B * (T - 1) * 4 * H * H
    assert flops("lstm diagonal", None) == forward + backward


def test_lengths_shorten_the_count_where_they_are_known() -> None:
    full, half = flops("lstm diagonal", None), flops("lstm diagonal", torch.tensor([5, 3, 1]))
    assert half < full
    assert flops("lstm diagonal", torch.empty(B, dtype=torch.long, device="meta")) == full


def test_the_noise_of_training_runs_on_meta() -> None:
    kind, _ = VARIANTS["lstm"]
    layer = kind(
        INPUTS, H, 2, batch_first=False, layer_norm=True, zoneout=0.1, recurrent_dropout=0.1, dropout=0.1, device="meta"
    )
    assert layer(torch.zeros(T, B, INPUTS, device="meta"))[0].is_meta
