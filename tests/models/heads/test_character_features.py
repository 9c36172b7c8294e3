"""Words as vectors of their own plus their characters."""

import pytest
import torch

from harken.models.heads.character_features import CharacterFeatures, WordBatch, WordInput

KINDS = ("lstm", "convolutional")


@pytest.mark.parametrize("kind", KINDS)
def test_padding_of_a_spelling_changes_nothing(kind: str) -> None:
    torch.manual_seed(1)
    features = CharacterFeatures(20, 5, 6, kind)
    short, long = torch.tensor([[4, 5, 6]]), torch.tensor([[4, 5, 6, 0, 0, 0], [7, 8, 9, 4, 5, 6]])
    torch.testing.assert_close(features(short)[0], features(long)[0])
    assert not torch.allclose(features(long)[0], features(long)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_is_its_vector_plus_its_spelling(kind: str) -> None:
    torch.manual_seed(1)
    inputs = WordInput(10, 20, 8, characters=kind, character_embedding=5, character_width=6)
    batch = WordBatch(torch.tensor([[4, 1], [1, 0]]), torch.tensor([[0, 1], [1, 0]]), torch.tensor([[4, 5], [6, 0]]))
    spelled = inputs.project(inputs.speller(batch.spellings)) * 8**-0.5
    embedded = inputs(batch)
    torch.testing.assert_close(embedded[0, 0], inputs.words.table.weight[4] + spelled[0])
    torch.testing.assert_close(embedded[0, 1], inputs.words.table.weight[1] + spelled[1])
    torch.testing.assert_close(embedded[0, 1], embedded[1, 0])


def test_without_characters_a_word_is_its_vector() -> None:
    inputs = WordInput(10, 20, 8, characters="none")
    batch = WordBatch(torch.tensor([[4, 0]]), torch.zeros(1, 2, dtype=torch.long), torch.tensor([[4]]))
    torch.testing.assert_close(inputs(batch), inputs.words.table.weight[[4, 0]][None])
    assert sum(parameter.numel() for parameter in inputs.parameters()) == 80


def test_word_dropout_reads_words_as_unknown_in_training_alone() -> None:
    torch.manual_seed(1)
    inputs = WordInput(10, 20, 8, characters="none", word_dropout=0.25)
    words = torch.full((50, 80), 5)
    words[:, 60:] = 0
    batch = WordBatch(words, torch.zeros_like(words), torch.tensor([[4]]))
    embedded, unknown = inputs(batch), inputs.words.table.weight[1]
    share = (embedded[:, :60] == unknown).all(-1).float().mean().item()
    assert 0.22 < share < 0.28
    assert (embedded[:, 60:] == 0).all()
    inputs.eval()
    assert (inputs(batch)[:, :60] == inputs.words.table.weight[5]).all()


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match="character_width 7 is odd"):
        CharacterFeatures(9, 4, 7, "lstm")
    with pytest.raises(ValueError, match='it may be "lstm" or "convolutional"'):
        CharacterFeatures(9, 4, 8, "transformer")
