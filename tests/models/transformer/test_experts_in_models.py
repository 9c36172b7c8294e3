"""The experts' balance is part of the loss in training, by its weight, and of nothing else."""

import pytest
import torch

from harken.models.build import build_model
from harken.models.config import DecoderOnlyConfig, RecurrentEncoderConfig, TransformerConfig
from harken.models.encoder_decoder import EncoderDecoder, TranslationModel
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.models.transformer.config import TransformerDecoderConfig
from harken.models.transformer.decoder import TransformerDecoder
from harken.nn import Balance

SOURCE = torch.tensor([[4, 5, 3, 0], [6, 7, 5, 3]])
LENGTHS = torch.tensor([3, 4])
TARGET = torch.tensor([[2, 5, 6], [2, 8, 0]])
WANTED = torch.tensor([[5, 6, 3], [8, 3, 0]])
WORDS = {"layers": 2, "width": 8, "heads": 2, "feedforward": 12, "experts": 3, "dropout": 0.0}


def build(kind: str, balance: float) -> TranslationModel:
    torch.manual_seed(1)
    if kind == "mixed":
        encoder = RecurrentEncoder(RecurrentEncoderConfig(embedding=8, width=6, dropout=0.0))
        decoder = TransformerDecoder(TransformerDecoderConfig(**WORDS, balance=balance))
        return EncoderDecoder(9, 9, encoder, decoder).double()
    config = {"transformer": TransformerConfig, "decoder-only": DecoderOnlyConfig}[kind]
    return build_model(config(**WORDS, balance=balance), 9, 9).double()


@pytest.mark.parametrize(("kind", "layers"), [("transformer", 4), ("decoder-only", 4), ("mixed", 2)])
def test_balance_is_added_for_every_token_in_training_alone(kind: str, layers: int) -> None:
    plain, weighed = build(kind, 0.0), build(kind, 0.5)
    uneven = weighed.train().loss(SOURCE, LENGTHS, TARGET, WANTED) - plain.train().loss(SOURCE, LENGTHS, TARGET, WANTED)
    tokens = int((WANTED != 0).sum())
    found = uneven.item() / (0.5 * tokens)  # the sum over the layers, each 1 where experts are used evenly
    assert 0.5 * layers < found < 3 * layers
    hidden, given = weighed.forward_with_balance(SOURCE, LENGTHS, TARGET, WANTED != 0)
    assert given.item() == pytest.approx(0.5 * found)
    real = WANTED != 0
    assert torch.allclose(hidden[real], weighed(SOURCE, LENGTHS, TARGET)[real], rtol=0, atol=1e-9)
    losses = [model.eval().loss(SOURCE, LENGTHS, TARGET, WANTED) for model in (plain, weighed)]
    assert losses[0] == losses[1]


def test_padding_is_no_work_for_experts() -> None:
    model = build("transformer", 0.5)
    right, balance = Balance(), Balance()
    model.encoder(model.source_embedding(SOURCE), LENGTHS, balance=right)
    wider = torch.cat((SOURCE, torch.full((2, 3), 7)), 1)
    model.encoder(model.source_embedding(wider), LENGTHS, balance=balance)
    assert balance.total().item() == pytest.approx(right.total().item(), abs=1e-12)


def test_the_gate_learns_to_be_even() -> None:
    """Gradient steps along the balance alone bring it down."""
    model = build("transformer", 1.0)
    values = []
    for _ in range(200):
        _, uneven = model.forward_with_balance(SOURCE, LENGTHS, TARGET, WANTED != 0)
        values.append(uneven.item())
        model.zero_grad()
        uneven.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=0.05)
    assert min(values[-5:]) < values[0] - 0.05
