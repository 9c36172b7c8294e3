"""Masked tokens: what is hidden, what is asked for, and taking a reader over."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from harken.errors import UserError
from harken.models.build import build_encoder
from harken.models.config import RecurrentEncoderConfig, TransformerEncoderConfig
from harken.models.heads.character_features import WordInput
from harken.models.heads.masked import MASK, Masked, MaskedModel, mask_tokens
from harken.models.pretrained import copy_weights, rows_in
from harken.models.reader import FrameInput, Reader, TokenInput
from harken.models.recurrent.encoder import RecurrentEncoder


def reader(tokens: int = 20, width: int = 8, seed: int = 1) -> Reader:
    torch.manual_seed(seed)
    return Reader(
        TokenInput(tokens, width),
        build_encoder(TransformerEncoderConfig(layers=2, width=width, heads=2, feedforward=16)),
    )


def test_words_are_hidden_in_the_shares_of_the_paper() -> None:
    torch.manual_seed(1)
    ids = torch.randint(4, 1000, (200, 100))
    ids[:, 90], ids[:, 91:] = 3, 0
    masked = mask_tokens(ids, 1000, rate=0.15)
    words = ids >= 4
    assert not masked.chosen[~words].any() and torch.equal(masked.ids[~masked.chosen], ids[~masked.chosen])
    assert masked.chosen[words].float().mean().item() == pytest.approx(0.15, abs=0.01)
    hidden, gold = masked.ids[masked.chosen], ids[masked.chosen]
    assert (hidden == MASK).float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert (hidden == gold).float().mean().item() == pytest.approx(0.1, abs=0.02)
    others = hidden[(hidden != MASK) & (hidden != gold)]
    assert others.min() >= 4 and others.max() < 1000 and len(others.unique()) > 150


def test_masks_are_drawn_anew_and_repeat_with_a_generator() -> None:
    ids = torch.randint(4, 50, (10, 20))
    assert not torch.equal(mask_tokens(ids, 50).chosen, mask_tokens(ids, 50).chosen)
    one, other = (mask_tokens(ids, 50, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one.ids, other.ids) and torch.equal(one.chosen, other.chosen)


def test_the_loss_is_cross_entropy_at_the_chosen_places_whatever_the_padding() -> None:
    model = MaskedModel(reader()).eval()
    ids, lengths = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2])
    masked = Masked(torch.tensor([[5, 2, 7, 8], [2, 10, 0, 0]]), torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0]]).bool())
    with torch.no_grad():
        loss = model.loss(ids, lengths, masked)
        alone = [
            model.loss(ids[:1], None, Masked(masked.ids[:1], masked.chosen[:1])),
            model.loss(ids[1:, :2], None, Masked(masked.ids[1:, :2], masked.chosen[1:, :2])),
        ]
        torch.testing.assert_close(loss, sum(alone))
        logits = model(masked.ids, lengths, masked.chosen)
        torch.testing.assert_close(loss, F.cross_entropy(logits, torch.tensor([6, 8, 9]), reduction="sum"))


def test_any_encoder_will_do_and_frames_will_not() -> None:
    model = MaskedModel(Reader(TokenInput(20, 6), RecurrentEncoder(RecurrentEncoderConfig(embedding=6, width=10))))
    chosen = torch.tensor([[True, False, True]])
    assert model(torch.tensor([[2, 5, 2]]), None, chosen).shape == (2, 20)
    with pytest.raises(ValueError, match="needs an input of tokens"):
        MaskedModel(Reader(FrameInput(3, 6), RecurrentEncoder(RecurrentEncoderConfig(embedding=6, width=10))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The weights of a masked model."""
    save_file(dict(MaskedModel(reader(seed=5)).named_parameters()), tmp_path / "model.safetensors")
    return tmp_path


def test_a_reader_with_the_same_vocabulary_is_taken_over_whole(folder: Path) -> None:
    ours, theirs = reader(seed=2), reader(seed=5)
    assert copy_weights(ours, folder) == 20
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)


def test_of_another_vocabulary_what_both_know_is_taken(folder: Path) -> None:
    torch.manual_seed(2)
    theirs = reader(seed=5)
    words = WordInput(7, 9, 8, character_embedding=4, character_width=4)
    ours = Reader(words, build_encoder(TransformerEncoderConfig(layers=2, width=8, heads=2, feedforward=16)))
    before = words.words.table.weight.detach().clone()
    assert copy_weights(ours, folder, rows_in(["owl", "new", "cat"], {"cat": 9, "owl": 4})) == 6
    table, known = words.words.table.weight, theirs.inputs.table.weight
    assert torch.equal(table[[0, 1, 2, 3, 4, 6]], known[[0, 1, 2, 3, 4, 9]])  # type: ignore[index]
    assert torch.equal(table[5], before[5])


def test_what_does_not_fit_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 20 tokens, but here are 30"):
        copy_weights(reader(tokens=30), folder)
    with pytest.raises(UserError, match=r"another than this recipe's \(first difference: .*recipe.toml has"):
        copy_weights(reader(width=12), folder)
    with pytest.raises(UserError, match=r"which has no model\.safetensors"):
        copy_weights(reader(), tmp_path / "none")
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="which is no masked model"):
        copy_weights(reader(), tmp_path)


def test_a_job_that_cannot_start_from_another_model_says_so() -> None:
    config = RecurrentEncoderConfig(start="runs/masked")
    with pytest.raises(UserError, match=r"model\.start is runs/masked, but this job cannot start from another model"):
        build_encoder(config)
    assert build_encoder(config, may_start=True).width == 512
