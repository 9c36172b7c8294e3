"""Sizes rounded up for a CUDA graph give the same result once cut back; a graph notices what it depends on."""

import pytest
import torch

from harken.kernels.cuda_graphs import aliased_parameters, can_capture, settings_of
from harken.kernels.weights import has_hooks
from harken.models.base import Memory
from harken.models.recurrent.captured import pad_sizes, replay
from harken.models.recurrent.config import RecurrentDecoderConfig
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.nn import length_mask


def example(masked: bool) -> tuple[RecurrentDecoder, torch.Tensor, Memory]:
    torch.manual_seed(1)
    decoder = RecurrentDecoder(RecurrentDecoderConfig(embedding=6, width=8, dropout=0.0))
    mask = length_mask(torch.tensor([5, 2, 4]), 5) if masked else None
    state = torch.randn(3, 8)
    return decoder, torch.randn(3, 9, 6), Memory(torch.randn(3, 5, 8), mask, [(state, state)])


@pytest.mark.parametrize("masked", [True, False])
def test_padding_changes_nothing(masked: bool) -> None:
    decoder, embedded, memory = example(masked)
    right = decoder(embedded, memory)
    wide, wider = pad_sizes(embedded, memory)
    assert wide.shape == (16, 12, 6) and wider.values.shape == (16, 8, 8)
    assert wider.mask is not None and not wider.mask[:, 5:].any()
    assert torch.allclose(decoder(wide, wider)[:3, :9], right, atol=1e-6)
    assert torch.allclose(replay(decoder, embedded, memory), right, atol=1e-6)


def test_a_recording_has_leaves_of_its_own() -> None:
    decoder, embedded, memory = example(True)
    right = decoder(embedded, memory)
    before = list(decoder.parameters())
    with aliased_parameters(decoder) as aliases:
        found = decoder(embedded, memory)
        gradients = torch.autograd.grad(found.sum(), aliases, allow_unused=True)
    assert torch.equal(found, right)
    assert [id(part) for part in decoder.parameters()] == [id(part) for part in before]
    assert all(alias.data_ptr() == part.data_ptr() for alias, part in zip(aliases, before, strict=True))
    exact = torch.autograd.grad(right.sum(), before, allow_unused=True)
    assert all(
        (one is None and other is None) or torch.equal(one, other) for one, other in zip(gradients, exact, strict=True)
    )


def test_settings_and_hooks_are_seen() -> None:
    decoder, _, _ = example(True)
    training = settings_of(decoder)
    assert training == settings_of(decoder)
    decoder.dropout.p = 0.5
    dropping = settings_of(decoder)
    with torch.no_grad():
        assert len({training, dropping, settings_of(decoder), settings_of(decoder.eval())}) == 4
    assert not has_hooks(decoder)
    handle = decoder.attend.score.register_forward_hook(lambda *_: None)
    assert has_hooks(decoder)
    handle.remove()
    assert not can_capture(torch.device("cpu"))
