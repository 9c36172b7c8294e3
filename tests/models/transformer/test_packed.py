"""Packed pairs have the loss and the gradients of the padded batch."""

import numpy as np
import pytest
import torch

from harken.data.io.token_rows import ParallelIds, TokenRows
from harken.data.packing import Window, pack
from harken.models.build import build_model
from harken.models.config import DecoderOnlyConfig, TransformerConfig
from harken.models.encoder_decoder import TranslationModel
from harken.models.language.config import TransformerLanguageConfig
from harken.models.transformer import packed
from harken.models.transformer.language import TransformerLanguage
from harken.models.transformer.packed import grow_positions, packed_arguments, packed_loss, why_not_blocks

PAIRS = 7


def model_with(architecture: str = "transformer", **changes: object) -> TranslationModel:
    options = {"layers": 2, "width": 16, "heads": 2, "feedforward": 32, "dropout": 0.0} | changes
    config = DecoderOnlyConfig if architecture == "decoder-only" else TransformerConfig
    torch.manual_seed(0)
    return build_model(config(**options), 30, 30).double()


@pytest.fixture
def pairs() -> ParallelIds:
    random = np.random.default_rng(0)
    sides = [[random.integers(4, 30, random.integers(1, 9)).tolist() for _ in range(PAIRS)] for _ in range(2)]
    return ParallelIds(*(TokenRows.from_lists(side, eos=True) for side in sides))


@pytest.mark.parametrize(
    "changes",
    [
        *({"positions": kind} for kind in ("sinusoidal", "learned", "rotary", "none")),
        *({"attention": score} for score in ("dot", "cosine", "multiplicative")),
        {"norm": "post", "activation": "swiglu", "tied": "none"},
        {"embedding_norm": True, "activation": "gelu_tanh", "scale_embeddings": False},
        *({"decoder_mixer": "ssru", "norm": norm} for norm in ("pre", "post")),
        {"decoder_mixer": "ssru", "int8": True},
        *(
            {"architecture": "decoder-only", "positions": kind, "norm": norm}
            for kind, norm in (("sinusoidal", "pre"), ("learned", "post"), ("rotary", "pre"))
        ),
        {"architecture": "decoder-only", "embedding_norm": True, "tied": "output"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_packed_equals_padded_in_loss_and_gradients(changes: dict, pairs: ParallelIds) -> None:
    # A source that is moved to the right has other angles in rotary positions, and differences of equal size.
    turns = changes.get("positions") == "rotary" and "architecture" in changes
    rtol, atol = (1e-6, 1e-7) if turns else (1e-9, 1e-12)
    rounds, changes = "int8" in changes, {key: value for key, value in changes.items() if key != "int8"}
    model, indices = model_with(**changes), np.arange(PAIRS)
    if rounds:
        model.round_to_int8()
    assert why_not_blocks(model) is None
    padded = pairs.batch(indices)
    losses = model.loss(padded.source, padded.source_lengths, padded.target_input, padded.target_output, 0.1)
    wanted = torch.autograd.grad(losses, list(model.parameters()))
    grow_positions(model, 16)
    loss = packed_loss(model, *packed_arguments(pack(pairs, indices, Window(64, 80))), 0.1)
    found = torch.autograd.grad(loss, list(model.parameters()))
    torch.testing.assert_close(loss, losses, rtol=rtol / 1e3, atol=0)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "sinusoidal"},
        {"positions": "learned", "activation": "gelu_tanh", "scale_embeddings": False, "tied": False},
        {"positions": "rotary", "norm": "post", "activation": "swiglu"},
    ],
    ids=str,
)
def test_packed_rows_of_a_language_model_equal_the_blocks_in_loss_and_gradients(
    changes: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"layers": 2, "width": 16, "heads": 2, "feedforward": 32, "dropout": 0.0, "max_length": 1024} | changes
    torch.manual_seed(0)
    model = TransformerLanguage(TransformerLanguageConfig(**options), 30).double()
    tokens = torch.randint(30, (3, 600))  # longer than a new table of sinusoids
    losses = []
    for reason in (None, "the CPU has no kernels"):  # packed rows first, as blocks let tables of positions grow
        monkeypatch.setattr(packed, "why_no_triton", lambda is_on_gpu, reason=reason: reason)
        assert packed.PACKED_ROWS.supports(model.stack, tokens.device) == (reason is None)
        losses.append(model.loss(tokens[:, :-1], tokens[:, 1:], smoothing=0.1)[0])
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-12, atol=0)
    expected, gradients = (torch.autograd.grad(loss, list(model.parameters())) for loss in losses)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-12)


def test_sinusoidal_tables_grow_before_packed_sentences_read_them() -> None:
    model = model_with()
    grow_positions(model, 2000)
    assert model.encoder.stack.positions.table.shape[0] >= 2000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "relative"},
        {"positions": "alibi"},
        {"attention_dropout": 0.1},
        {"experts": 2},
        {"attention": "additive"},
        {"architecture": "decoder-only", "positions": "alibi"},
        {"decoder": {"architecture": "recurrent", "embedding": 16, "width": 16}},
    ],
    ids=str,
)
def test_other_networks_are_not_packed(changes: dict) -> None:
    assert why_not_blocks(model_with(**changes))
