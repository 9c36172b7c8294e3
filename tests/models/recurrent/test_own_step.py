"""A cell of one's own in a recurrent decoder: training, the reference and search compute the same step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from harken.models.base import Memory
from harken.models.recurrent.config import RecurrentDecoderConfig
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.nn import GRUCell, LSTMCell, Products, Step


class Damped(LSTMCell):
    """An LSTM that lets half of h through."""

    def step(self, x: Tensor, state: Any, products: Products | None = None, keep: Tensor | None = None) -> Step:
        (h, c), gates = super().step(x, state, products, keep)
        return Step((0.5 * h, c), gates)


def decoder_with(make: Any, **options: Any) -> RecurrentDecoder:
    torch.manual_seed(3)
    decoder = RecurrentDecoder(RecurrentDecoderConfig(embedding=4, width=6, **options)).eval()
    make(decoder.layers[0])
    return decoder


def outputs(decoder: RecurrentDecoder) -> tuple[Tensor, Tensor, Tensor]:
    """`forward`, `reference` and `step`, each (B, T, H)."""
    torch.manual_seed(4)
    embedded, memory = torch.randn(2, 3, 4), Memory(torch.randn(2, 5, 6), None)
    state = decoder.start(memory)
    with torch.no_grad():
        steps = [decoder.step(token, state) for token in embedded.unbind(1)]
    return decoder(embedded, memory), decoder.reference(embedded, memory)[0], torch.stack(steps, 1)


def replace_class(cell: Any) -> None:
    cell.__class__ = Damped


def replace_step(cell: Any) -> None:
    plain = type(cell).step
    cell.step = lambda x, state, products=None, keep=None: Step(
        tuple(0.5 * part for part in plain(cell, x, state, products, keep).state), {}
    )


@pytest.mark.parametrize("make", [replace_class, replace_step])
@pytest.mark.parametrize("attend", ["after", "before"])
def test_forward_equals_reference_equals_step(make: Any, attend: str) -> None:
    plain = outputs(decoder_with(lambda cell: None, attend=attend))
    forward, reference, steps = outputs(decoder_with(make, attend=attend))
    assert not torch.allclose(reference, plain[1], atol=1e-3)
    assert torch.allclose(forward, reference, atol=1e-6) and torch.allclose(steps, reference, atol=1e-6)


def test_gates_of_a_subclass_reach_the_gradient() -> None:
    decoder = decoder_with(replace_class)
    embedded, memory = torch.randn(2, 3, 4), Memory(torch.randn(2, 5, 6), None)
    weights = [weight for weight in decoder.parameters() if weight.requires_grad]
    fast = torch.autograd.grad(decoder(embedded, memory).sum(), weights, allow_unused=True)
    slow = torch.autograd.grad(decoder.reference(embedded, memory)[0].sum(), weights, allow_unused=True)
    for one, other in zip(fast, slow, strict=True):
        assert (one is None and other is None) or torch.allclose(one, other, atol=1e-5)


def test_a_gru_of_ones_own() -> None:
    class Kept(GRUCell):
        def step(self, x: Tensor, state: Any, products: Products | None = None, keep: Tensor | None = None) -> Step:
            return Step(tuple(0.5 * part for part in super().step(x, state, products, keep).state), {})

    def make(cell: Any) -> None:
        cell.__class__ = Kept

    forward, reference, steps = outputs(decoder_with(make, cell="gru"))
    assert torch.allclose(forward, reference, atol=1e-6) and torch.allclose(steps, reference, atol=1e-6)
