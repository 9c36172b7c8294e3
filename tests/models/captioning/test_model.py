"""Captioners: step equals forward, pictures do not know of each other, sizes by arithmetic, and where regions look."""

from typing import Any

import pytest
import torch

from harken.models.captioning.config import AnyImageConfig, PatchesConfig, RegionsConfig
from harken.models.captioning.image_encoder import RegionEncoder
from harken.models.captioning.model import CaptionModel, build_caption_model
from harken.models.convolutional.config import ConvolutionalDecoderConfig
from harken.models.recurrent.config import RecurrentDecoderConfig
from harken.models.sizing import measure
from harken.models.transformer.config import TransformerDecoderConfig

DECODERS: list[Any] = [
    RecurrentDecoderConfig(embedding=10, width=12, attention="multiplicative"),
    RecurrentDecoderConfig(embedding=8, width=8, attend="before"),
    TransformerDecoderConfig(width=12, heads=2, feedforward=16, layers=2),
    ConvolutionalDecoderConfig(width=12, embedding=8, layers=2),
]
ENCODERS: list[Any] = [
    (RegionsConfig, {"channels": [6, 16], "width": 12, "depth": [1, 2]}),
    (PatchesConfig, {"patch": 4, "width": 8, "heads": 2, "layers": 1, "feedforward": 16}),
]


def build(encoder: Any, decoder: Any, **more: Any) -> tuple[AnyImageConfig, CaptionModel]:
    kind, words = encoder
    config = kind(**words, decoder=decoder, **more)
    torch.manual_seed(1)
    return config, build_caption_model(config, 16, 20).eval()


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda one: one.architecture)
@pytest.mark.parametrize("encoder", ENCODERS, ids=["regions", "patches"])
def test_any_image_encoder_with_any_decoder(encoder: Any, decoder: Any) -> None:
    _, model = build(encoder, decoder)
    images, target = 255 * torch.rand(3, 3, 16, 16), torch.randint(4, 20, (3, 5))
    whole = model.logits(model(images, None, target))
    state, steps = model.start(images, None), []
    for place in range(5):
        steps.append(model.step(target[:, place], state))
    torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=1e-4, atol=1e-5)
    alone = model.logits(model(images[1:2], None, target[1:2]))  # norms are not over the batch
    torch.testing.assert_close(alone, whole[1:2], rtol=1e-4, atol=1e-5)
    weights = model.attention(images, None, target)
    assert weights is not None and weights.shape[-2:] == (5, 16) and model.grid == (4, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    model.train()
    model.loss(images, None, target, target).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("encoder", ENCODERS, ids=["regions", "patches"])
def test_an_image_is_shared_by_the_words_of_its_caption(encoder: Any) -> None:
    _, model = build(encoder, DECODERS[0])
    short, long = (measure(model, length).flops for length in (2, 20))
    assert short > 1.5 * long


def test_reading_a_picture_once_for_all_its_captions_changes_nothing() -> None:
    _, model = build(ENCODERS[0], DECODERS[0])
    images, owner = 255 * torch.rand(2, 3, 16, 16), torch.tensor([0, 0, 1])
    target, wanted = torch.randint(4, 20, (3, 5)), torch.randint(4, 20, (3, 5))
    wanted[1, 3:] = 0
    once = model.loss_of_captions(images, owner, target, wanted, 0.1)
    torch.testing.assert_close(once, model.loss(images[owner], None, target, wanted, 0.1))


def test_padding_of_a_caption_changes_nothing() -> None:
    _, model = build(ENCODERS[0], DECODERS[0])
    images, owner = 255 * torch.rand(2, 3, 16, 16), torch.tensor([0, 1])
    target = torch.randint(4, 20, (2, 6))
    target[1, 4:] = 0
    together = model.loss_of_captions(images, owner, target, target)
    apart = model.loss_of_captions(images[:1], owner[:1], target[:1], target[:1])
    apart = apart + model.loss_of_captions(images[1:], owner[:1], target[1:, :4], target[1:, :4])
    torch.testing.assert_close(together, apart)


def test_focus_is_the_entropy_of_the_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.models.captioning.model.MIN_WEIGHT", 0.0)
    _, model = build(ENCODERS[0], DECODERS[0], focus=0.5)
    images, target = 255 * torch.rand(8, 3, 16, 16), torch.randint(4, 20, (8, 5))
    target[0, 3:] = 0
    plain = model.loss_of_captions(images, torch.arange(8), target, target)  # not in training
    for part in model.modules():
        part.training = part is model  # training, but for dropout
    weights = model.attention(images[:1], None, target[:1])
    assert weights is not None
    maps = weights[0, 0, 0, :3]  # an eighth of eight captions: the first, of three real words
    entropy = -(maps * maps.log()).sum(-1).mean()
    terms = (target != 0).sum()
    wanted = plain + 0.5 * torch.exp(-5 * plain / terms) * terms * entropy
    torch.testing.assert_close(model.loss_of_captions(images, torch.arange(8), target, target), wanted)
    monkeypatch.setattr("harken.models.captioning.model.MIN_WEIGHT", 2.0)
    torch.testing.assert_close(model.loss_of_captions(images, torch.arange(8), target, target), plain)


def test_a_recurrent_decoder_knows_nothing_before_it_looks() -> None:
    _, model = build(ENCODERS[0], DECODERS[0])
    first, second = (model.start(255 * torch.rand(1, 3, 16, 16), None) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.layers[0], second.layers[0], strict=True))  # type: ignore[attr-defined]
    assert not torch.allclose(first.memory, second.memory)  # type: ignore[attr-defined]


def test_a_region_sees_19_pixels_and_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halvings and convolutions of 3 x 3: 3, 7, 11, 19; only the mean colour comes from further off."""
    config = RegionsConfig(channels=[8, 8, 8], width=8, dropout=0.0, decoder=DECODERS[0])
    encoder = RegionEncoder(config, size=64)
    images = torch.rand(1, 3, 64, 64).mul_(255).requires_grad_()
    monkeypatch.setattr("harken.models.captioning.image_encoder.contrast", lambda images: images / 64)
    encoder(images).values[0, 3 * 8 + 4, 0].backward()  # row 3, column 4
    assert images.grad is not None
    seen = images.grad[0].abs().sum(0).nonzero()
    assert seen.min(0).values.tolist() == [24 - 9, 32 - 9] and seen.max(0).values.tolist() == [24 + 9, 32 + 9]
    same = encoder(torch.zeros(1, 3, 64, 64)).values[0].reshape(8, 8, 8)
    assert not torch.allclose(same[4, 4], same[4, 5]) and not torch.allclose(same[4, 4], same[5, 4])


def test_pictures_that_cannot_be_cut_are_refused() -> None:
    config = RegionsConfig(channels=[4, 4, 4], decoder=DECODERS[0])
    with pytest.raises(ValueError, match=r"data.image_size 20 is not a multiple of 8, .*; choose 16"):
        config.side(20)
