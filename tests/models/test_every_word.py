"""Every word of `[model]`, and every encoder with every decoder: the contract that search and training rely on.

One step at a time equals the whole target at once; padding and neighbours change nothing; rows can be reordered; the
future is not seen; every parameter has a gradient; a step along the gradient lowers the loss.
"""

from itertools import product
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor

from harken.models.build import build_model
from harken.models.config import ModelConfig
from harken.models.encoder_decoder import TranslationModel
from harken.nn import smoothed_cross_entropy

VOCABULARY = 9
RECURRENT = {"architecture": "recurrent", "embedding": 4, "width": 6}
TRANSFORMER = {"architecture": "transformer", "layers": 2, "width": 8, "heads": 2, "feedforward": 10}
CONVOLUTIONAL = {"architecture": "convolutional", "layers": 2, "embedding": 4, "width": 8, "max_length": 16}
SIDES = {
    "recurrent": RECURRENT,
    "gru-none": {**RECURRENT, "cell": "gru", "layers": 2, "attention": "none"},
    "rnn-constant": {**RECURRENT, "cell": "rnn", "attention": "none", "context": "constant"},
    "transformer": TRANSFORMER,
    "convs2s": CONVOLUTIONAL,
    "bytenet": {**CONVOLUTIONAL, "style": "bytenet"},
}
WORDS: dict[str, dict[str, Any]] = {
    f"{encoder} with {decoder}": {**SIDES[encoder], "tied": "output", "decoder": SIDES[decoder]}
    for encoder, decoder in product(SIDES, SIDES)
}
CELLS: list[dict[str, Any]] = [
    {"cell": "rnn"},
    {"cell": "rnn", "nonlinearity": "relu", "attend": "before"},
    {"cell": "rnn", "nonlinearity": "sigmoid", "layer_norm": True},
    {"peephole": "diagonal"},
    {"peephole": "full", "attention": "none"},
    {"coupled": True, "attend": "before"},
    {"coupled": True, "peephole": "full", "layer_norm": True, "zoneout": 0.2},
    {"layer_norm": True},
    {"forget_bias": 0.5, "zoneout": 0.1, "recurrent_dropout": 0.2},
    {"cell": "gru", "reset": "before"},
    {"cell": "gru", "reset": "before", "layer_norm": True, "recurrent_dropout": 0.2},
    {"cell": "gru", "layer_norm": True, "zoneout": 0.1},
    {"attention": "none", "context": "constant"},
    {"cell": "gru", "attention": "none", "context": "constant", "context_to": "all"},
]
DEEP: list[dict[str, Any]] = [
    {"connections": kind, "connections_from": first, "cell": cell, **more}
    for kind, first, cell, more in [
        ("residual", 2, "lstm", {}),
        ("residual", 3, "lstm", {"bidirectional": "first", "attend": "before", "look_from": "bottom"}),
        ("residual", 3, "gru", {"bidirectional": "first", "context_to": "all"}),
        ("highway", 2, "rnn", {"context_to": "all", "attend": "before"}),
        ("highway", 3, "gru", {"variational": False}),
        ("dense", 2, "lstm", {"context_to": "all"}),
        ("dense", 3, "lstm", {"attention": "none"}),
        ("none", 2, "lstm", {"look_from": "bottom", "context_to": "all", "coverage": True}),
    ]
]
WORDS |= {"-".join(map(str, words.values())): {**RECURRENT, "tied": "output", **words} for words in CELLS}
WORDS |= {"deep-" + "-".join(map(str, words.values())): {**RECURRENT, "layers": 3, **words} for words in DEEP}
WORDS |= {
    "experts": {**TRANSFORMER, "experts": 3, "experts_active": 2},
    "one expert of two": {**TRANSFORMER, "experts": 2, "experts_active": 1, "norm": "post", "activation": "swiglu"},
    "recurrent with experts": {**RECURRENT, "embedding": 8, "decoder": {**TRANSFORMER, "experts": 3}},
}
for positions, words in {
    "sinusoidal": {},
    "learned": {"max_length": 32, "norm": "post"},
    "relative": {"tied": "output", "attention": "cosine"},
    "rotary": {"tied": "none", "activation": "swiglu"},
    "alibi": {"experts": 3},
    "none": {"layers": 1, "attention": "additive"},
}.items():
    ONE = {**TRANSFORMER, "architecture": "decoder-only", "positions": positions}
    WORDS[f"decoder-only {positions}"] = {**ONE, **words}

every_word = pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
SOURCE = torch.tensor([[4, 5, 3, 0, 0], [6, 7, 8, 5, 3], [8, 4, 4, 3, 0]])  # (B, S)
LENGTHS = torch.tensor([3, 5, 4])
TARGET = torch.tensor([[2, 5, 6, 7], [2, 8, 4, 0], [2, 4, 0, 0]])  # (B, T), BOS first
WANTED = torch.tensor([[5, 6, 7, 3], [8, 4, 3, 0], [4, 3, 0, 0]])


def build(words: dict[str, Any], spread: float = 0.3) -> TranslationModel:
    """A tiny network in float64 and eval mode, with no parameter at a special value."""
    torch.manual_seed(1)
    config = TypeAdapter(ModelConfig).validate_python(words)
    model = build_model(config, VOCABULARY, VOCABULARY)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=spread)
    return model.double().eval()


def close(found: Tensor, right: Tensor, tolerance: float = 1e-9) -> bool:
    return found.shape == right.shape and torch.allclose(found, right, rtol=0, atol=tolerance)


@every_word
@torch.no_grad()
def test_step_equals_forward(words: dict[str, Any]) -> None:
    model = build(words)
    whole = model.logits(model(SOURCE, LENGTHS, TARGET))  # (B, T, V)
    weights = model.attention(SOURCE, LENGTHS, TARGET)
    state = model.start(SOURCE, LENGTHS)
    state.need_weights = True
    for place in range(TARGET.shape[1]):
        logits, attention = model.step(TARGET[:, place], state), state.attention
        assert close(logits, whole[:, place])
        assert (attention is None) == (weights is None)
        if attention is not None:
            assert close(attention, model.alignment(weights)[:, place])
            assert close(attention.sum(-1), torch.ones(3, dtype=torch.float64))
            assert (attention[0, 3:] == 0).all()
            assert (weights[0, ..., 3:] == 0).all()


@every_word
def test_padding_neighbours_and_the_future_change_nothing(words: dict[str, Any]) -> None:
    model = build(words)
    together = model(SOURCE, LENGTHS, TARGET)  # with deferred weight gradients
    # padding moves a prefix along the table of angles, whose entries are rounded to float32
    moved = 1e-6 if words.get("positions") == "rotary" else 1e-9
    with torch.no_grad():
        wider = torch.cat((SOURCE, torch.full((3, 2), 7)), 1)  # what stands in the padding is of no account either
        assert close(model(wider, LENGTHS, TARGET), together, moved)
        for row, length in enumerate(LENGTHS.tolist()):
            alone = SOURCE[row : row + 1, :length]
            assert close(model(alone, None, TARGET[row : row + 1]), together[row : row + 1], moved)
        changed = TARGET.clone()
        changed[:, 2:] = 8 - changed[:, 2:]
        after = model(SOURCE, LENGTHS, changed)
        assert close(after[:, :2], together[:, :2])
        assert not torch.allclose(after[:, 2], together[:, 2])


@every_word
@torch.no_grad()
def test_hypotheses_expand_change_places_and_leave(words: dict[str, Any]) -> None:
    model, owner = build(words), torch.tensor([0, 0, 2, 2])
    state = model.start(SOURCE, LENGTHS)
    state.need_weights = True
    model.step(torch.tensor([2, 2, 2]), state)
    state.expand_(2)
    model.step(torch.tensor([4, 5, 6, 7, 8, 4]), state)
    state.keep_(torch.tensor([0, 2]))
    state.reorder_(torch.tensor([1, 0, 3, 3]))
    read = torch.tensor([[2, 5, 7], [2, 4, 6], [2, 4, 5], [2, 4, 8]])
    logits = model.step(read[:, -1], state)
    assert close(logits, model.logits(model(SOURCE[owner], LENGTHS[owner], read))[:, -1])
    if state.attention is not None:
        weights = model.attention(SOURCE[owner], LENGTHS[owner], read)
        assert close(state.attention, model.alignment(weights)[:, -1])


@every_word
def test_loss_is_its_definition_and_every_parameter_has_a_part_in_it(words: dict[str, Any]) -> None:
    model = build(words)
    parameters = dict(model.named_parameters())
    hidden = model(SOURCE, LENGTHS, TARGET)
    slow = smoothed_cross_entropy(model.logits(hidden).flatten(0, 1), WANTED.flatten(), 0.1)
    fast = model.loss(SOURCE, LENGTHS, TARGET, WANTED, 0.1)
    assert close(fast, slow)
    found = torch.autograd.grad(fast, list(parameters.values()))
    for key, one, other in zip(parameters, found, torch.autograd.grad(slow, list(parameters.values())), strict=True):
        assert close(one, other), key
        assert one.abs().max() > 0, key


@every_word
def test_a_step_along_the_gradient_lowers_the_loss(words: dict[str, Any]) -> None:
    model = build(words, spread=0.0)
    before = model.loss(SOURCE, LENGTHS, TARGET, WANTED)
    before.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad, alpha=1e-4)
        assert model.loss(SOURCE, LENGTHS, TARGET, WANTED) < before - 1e-4


@every_word
def test_training_is_noisy_and_finite(words: dict[str, Any]) -> None:
    """Dropout, zoneout and recurrent dropout act in training, and gradients stay numbers."""
    model = build(words).train()
    losses = [model.loss(SOURCE, LENGTHS, TARGET, WANTED) for _ in range(2)]
    assert losses[0] != losses[1]
    losses[0].backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
