"""A label for every step: any encoder, softmax or CRF."""

import pytest
import torch
import torch.nn.functional as F

from harken.models.base import Encoder
from harken.models.build import build_encoder
from harken.models.config import ConvolutionalEncoderConfig, TransformerEncoderConfig
from harken.models.heads.tagger import TaggingModel
from harken.models.reader import FrameInput, Reader, TokenInput
from harken.models.recurrent.config import RecurrentEncoderConfig
from harken.models.recurrent.encoder import RecurrentEncoder


def encoder(kind: str) -> Encoder:
    torch.manual_seed(1)
    if kind == "recurrent":
        return RecurrentEncoder(RecurrentEncoderConfig(embedding=8, width=8, layers=2, dropout=0.0))
    if kind == "transformer":
        return build_encoder(TransformerEncoderConfig(layers=1, width=8, heads=2, feedforward=16))
    return build_encoder(ConvolutionalEncoderConfig(layers=2, width=8, embedding=8, kernel=3, dropout=0.0))


@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize("kind", ["recurrent", "transformer", "convolutional"])
def test_padding_changes_neither_loss_nor_tags(kind: str, crf: bool) -> None:
    model = TaggingModel(Reader(TokenInput(12, 8), encoder(kind)), 5, crf).eval()
    ids, lengths = torch.tensor([[4, 5, 6, 7], [8, 9, 0, 0]]), torch.tensor([4, 2])
    labels = torch.tensor([[0, 1, 2, 3], [4, 0, 3, 3]])
    with torch.no_grad():
        alone = [model.loss(ids[:1], None, labels[:1]), model.loss(ids[1:, :2], None, labels[1:, :2])]
        torch.testing.assert_close(model.loss(ids, lengths, labels), sum(alone))
    tags, chances = model.tag(ids, lengths)
    short, short_chances = model.tag(ids[1:, :2], None)
    assert tags[1, :2].tolist() == short[0].tolist()
    torch.testing.assert_close(chances[1, :2], short_chances[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(chances[0].sum(-1), torch.ones(4))


def test_without_a_crf_the_loss_is_cross_entropy() -> None:
    model = TaggingModel(Reader(FrameInput(3, 8), encoder("recurrent")), 4).eval()
    frames, labels = torch.randn(2, 5, 3), torch.randint(4, (2, 5))
    with torch.no_grad():
        wanted = F.cross_entropy(model(frames).flatten(0, 1), labels.flatten(), reduction="sum")
        torch.testing.assert_close(model.loss(frames, None, labels), wanted)


def test_every_parameter_learns() -> None:
    model = TaggingModel(Reader(TokenInput(12, 8), encoder("recurrent")), 5, crf=True)
    model.loss(torch.tensor([[4, 5, 6]]), None, torch.tensor([[0, 1, 2]])).backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in model.parameters())
