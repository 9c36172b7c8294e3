"""Language networks: pieces = whole, step = forward, no look ahead, sizes, and the regularisation of their formulas."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from harken.models.build import build_language
from harken.models.language.config import RecurrentLanguageConfig, TransformerLanguageConfig
from harken.models.recurrent.language import RecurrentLanguage

SIZE = 30
SMALL: dict[str, Any] = {"layers": 3, "embedding": 10, "width": 14}
BLOCKS: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "feedforward": 24}
CONFIGS = {
    "lstm": RecurrentLanguageConfig(
        **SMALL, weight_drop=0.5, word_dropout=0.1, activation_penalty=2.0, temporal_penalty=1.0
    ),
    "narrow top": RecurrentLanguageConfig(**SMALL, top="embedding", dropout_between=0.5),
    "gru dense": RecurrentLanguageConfig(**SMALL, cell="gru", connections="dense", tied=False),
    "rnn highway": RecurrentLanguageConfig(**SMALL, cell="rnn", connections="highway", layer_norm=True),
    "peephole residual": RecurrentLanguageConfig(**SMALL, peephole="diagonal", connections="residual", zoneout=0.1),
    "transformer": TransformerLanguageConfig(**BLOCKS),
    "rotary experts": TransformerLanguageConfig(**BLOCKS, positions="rotary", experts=3, tied=False),
    "learned": TransformerLanguageConfig(**BLOCKS, positions="learned", max_length=16),
}


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(4)
    return CONFIGS[request.param]


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(4, SIZE, (3, 11), generator=torch.Generator().manual_seed(1))


def test_in_pieces_as_whole_and_step_by_step(config: Any, tokens: torch.Tensor) -> None:
    network = build_language(config, SIZE).eval()
    with torch.no_grad():
        whole, _ = network(tokens)
        first, state = network(tokens[:, :4])
        rest, _ = network(tokens[:, 4:], state)
        assert torch.allclose(torch.cat((first, rest), 1), whole, atol=1e-5)
        state, logits = network.start(3), []
        for place in range(tokens.shape[1]):
            logits.append(network.step(tokens[:, place], state))
        assert torch.allclose(torch.stack(logits, 1), network.logits(whole), atol=1e-5)


def test_after_a_prompt_rows_expand_change_places_and_leave(config: Any, tokens: torch.Tensor) -> None:
    network = build_language(config, SIZE).eval()
    with torch.no_grad():
        state = network.start(3, tokens)
        state.expand_(2)
        network.step(torch.tensor([4, 5, 6, 7, 8, 9]), state)
        state.reorder_(torch.tensor([1, 0, 2, 2, 5, 4]))
        state.keep_(torch.tensor([0, 2]))
        found = network.step(torch.tensor([7, 7, 7, 7]), state)
        read = torch.cat((tokens[[0, 0, 2, 2]], torch.tensor([[5, 7], [4, 7], [9, 7], [8, 7]])), 1)
        assert torch.allclose(found, network.logits(network(read)[0])[:, -1], atol=1e-5)


def test_nothing_comes_from_the_future(config: Any, tokens: torch.Tensor) -> None:
    network = build_language(config, SIZE).eval()
    other = tokens.clone()
    other[:, 6:] = 5
    with torch.no_grad():
        assert torch.equal(network(tokens)[0][:, :6], network(other)[0][:, :6])
        layers = network.layers_of(tokens), network.layers_of(other)
    assert torch.equal(layers[0][:, :, :6], layers[1][:, :, :6])
    assert layers[0].shape[:3] == (config.layers, 3, 11)


def test_every_parameter_has_a_gradient(config: Any, tokens: torch.Tensor) -> None:
    network = build_language(config, SIZE).train()
    network.loss(tokens, tokens)[0].backward()
    assert [name for name, parameter in network.named_parameters() if parameter.grad is None] == []


def test_the_loss_is_the_cross_entropy_of_its_logits(config: Any, tokens: torch.Tensor) -> None:
    network = build_language(config, SIZE).eval()
    with torch.no_grad():
        logits = network.logits(network(tokens[:, :-1])[0])
        wanted = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
        assert torch.allclose(network.loss(tokens[:, :-1], tokens[:, 1:])[0], wanted, rtol=1e-5)


def test_activation_and_temporal_penalties_are_their_formulas(tokens: torch.Tensor) -> None:
    options = {"embedding": 8, "width": 12, "dropout": 0.0}
    config = RecurrentLanguageConfig(**options, activation_penalty=2.0, temporal_penalty=0.5)
    network = RecurrentLanguage(config, SIZE).train()
    plain = RecurrentLanguage(RecurrentLanguageConfig(**options), SIZE).train()
    plain.load_state_dict(network.state_dict())
    states = network.layers_of(tokens)[-1]
    penalty = 2 * states.square().mean() + 0.5 * (states[:, 1:] - states[:, :-1]).square().mean()
    found = network.loss(tokens, tokens)[0] - plain.loss(tokens, tokens)[0]
    assert torch.allclose(found, tokens.numel() * penalty, rtol=1e-4)


def test_word_dropout_takes_a_word_everywhere_or_nowhere() -> None:
    network = RecurrentLanguage(RecurrentLanguageConfig(embedding=4, width=4, dropout=0.0, word_dropout=0.5), 6).train()
    tokens, kept = torch.tensor([[4, 5, 4, 5, 4, 4]]), set()
    for seed in range(20):
        torch.manual_seed(seed)
        embedded = network._layers(tokens, None)[0][0][0]  # (T, E)
        plain = network.embedding(tokens)[0] * network.scale
        share = (embedded / plain)[:, 0].round(decimals=4).tolist()
        assert share[0] == share[2] == share[4] == share[5] and share[1] == share[3]
        kept |= set(share)
    assert kept == {0.0, 2.0}


def test_a_bidirectional_language_model_is_refused_with_the_reason() -> None:
    with pytest.raises(ValidationError, match="would see the words it has to predict"):
        RecurrentLanguageConfig(bidirectional=True)


def test_incompatible_options_are_refused() -> None:
    with pytest.raises(ValidationError, match="layers of one width"):
        RecurrentLanguageConfig(top="embedding", connections="residual")
    with pytest.raises(ValidationError, match="only translation has trees"):
        TransformerLanguageConfig(positions="dependency")
