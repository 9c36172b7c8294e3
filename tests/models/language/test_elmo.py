"""The network of ELMo: what each direction sees, and that padding is nothing."""

import numpy as np
import pytest
import torch

from harken.data.text.tagged import Tagged
from harken.models.heads.character_features import WordBatch
from harken.models.language.config import ElmoConfig
from harken.models.language.elmo import ElmoNetwork, reverse_indices
from harken.tasks.elmo.task import ElmoRows
from harken.tasks.words import Vocabulary

SENTENCES = [("give", "me", "the", "stick"), ("stick",), ("we", "stick", "to", "the", "plan", "now")]


@pytest.fixture
def known() -> Vocabulary:
    return Vocabulary.learn([Tagged(words, ()) for words in SENTENCES], lowercase=False, min_count=1)


def network(known: Vocabulary, spelling: str = "convolutional") -> ElmoNetwork:
    torch.manual_seed(3)
    sizes = known.word_count, known.character_count
    config = ElmoConfig(width=6, character_embedding=5, character_width=8, spelling=spelling)
    return ElmoNetwork(config, *sizes).eval()


@pytest.mark.parametrize("spelling", ["convolutional", "lstm"])
def test_padding_changes_nothing(known: Vocabulary, spelling: str) -> None:
    model, rows = network(known, spelling), ElmoRows.of(SENTENCES, known)
    together = model.layers_of(*rows.gather([0, 1, 2]))
    for number, words in enumerate(SENTENCES):
        alone = model.layers_of(*rows.gather([number]))
        assert torch.allclose(together[:, number, : len(words) + 2], alone[:, 0], atol=1e-6)
    losses = [model.loss(*rows.gather([number])) for number in range(3)]
    assert model.loss(*rows.gather([0, 1, 2])).item() == pytest.approx(sum(loss.item() for loss in losses), rel=1e-5)


def test_neither_direction_sees_what_it_predicts(known: Vocabulary) -> None:
    model = network(known)
    _, lengths = ElmoRows.of(SENTENCES, known).gather([2])
    words = torch.randn(1, 8, 6, requires_grad=True)
    turned = reverse_indices(lengths, 8)
    ahead = model._read(model.ahead, words)
    back = [
        made.gather(1, turned[:, :, None].expand(-1, -1, 6))
        for made in model._read(model.back, words.gather(1, turned[:, :, None].expand(-1, -1, 6)))
    ]
    for layer in range(2):
        (gradient,) = torch.autograd.grad(ahead[layer][0, 3].sum(), words, retain_graph=True)
        assert not gradient[0, 4:].any() and gradient[0, :4].abs().sum(-1).all()
        (gradient,) = torch.autograd.grad(back[layer][0, 3].sum(), words, retain_graph=True)
        assert not gradient[0, :3].any() and gradient[0, 3:].abs().sum(-1).all()


def test_the_loss_is_that_of_the_next_and_of_the_previous_words(known: Vocabulary) -> None:
    model = network(known)
    batch, lengths = ElmoRows.of(SENTENCES, known).gather([0, 1])
    _, ahead, back = model.directions(batch, lengths)
    wanted = 0.0
    for row, length in enumerate(lengths.tolist()):
        for place in range(length - 1):
            chances = torch.log_softmax(model.output(ahead[-1][row, place]), -1)
            wanted -= chances[batch.words[row, place + 1]].item()
            chances = torch.log_softmax(model.output(back[-1][row, place + 1]), -1)
            wanted -= chances[batch.words[row, place]].item()
    assert model.loss(batch, lengths).item() == pytest.approx(wanted, rel=1e-5)


def test_the_second_layer_adds_to_the_first(known: Vocabulary) -> None:
    model = network(known)
    batch, lengths = ElmoRows.of(SENTENCES, known).gather([1])
    spelled, ahead, _ = model.directions(batch, lengths)
    first = model.ahead[0](spelled)[0]
    assert torch.allclose(ahead[0], first)
    assert torch.allclose(ahead[1], first + model.ahead[1](first)[0])


def test_the_lowest_layer_is_the_word_alone(known: Vocabulary) -> None:
    model, rows = network(known), ElmoRows.of(SENTENCES, known)
    layers = model.layers_of(*rows.gather([0, 2])).detach().numpy()
    assert np.array_equal(layers[0, 0, 4], layers[0, 1, 2])  # stick
    assert not np.allclose(layers[1, 0, 4], layers[1, 1, 2])


def test_a_batch_is_moved_whole(known: Vocabulary) -> None:
    batch, _ = ElmoRows.of(SENTENCES, known).gather([0])
    assert isinstance(batch.to("cpu"), WordBatch)
    assert batch.words[0, 0] == 2 and batch.words[0, -1] == 3
