"""What search relies on, for every architecture: one step at a time equals the whole target at once.

Also: padding and neighbours change nothing, states can be reordered by row, no position sees the future, and the loss
is its definition in values and in all gradients.
"""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from harken.models.build import build_model
from harken.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from harken.models.encoder_decoder import EncoderDecoder
from harken.nn import smoothed_cross_entropy

VOCABULARY = 9
TIED = ["all", "output", "none"]
RECURRENT = [
    {"cell": cell, "attention": attention, "layers": layers, "input_feeding": feeding, "bidirectional": both}
    for cell, attention, layers, feeding, both in product(
        ["lstm", "gru"], ["none", "dot", "multiplicative", "additive"], [1, 2], [True, False], [True, False]
    )
    if feeding or attention != "none"
]
OPTIONS: list[dict[str, Any]] = [
    {"tied": TIED[index % 3], "embedding": (4, 6)[index // 3 % 2], **options} for index, options in enumerate(RECURRENT)
]
OPTIONS += [{"norm": norm, "tied": tied, "layers": 2} for norm, tied in product(["pre", "post"], TIED)]
OPTIONS += [{"norm": "pre", "tied": "all", "encoder_layers": 1, "decoder_layers": 3, "alignment_heads": [1]}]
OPTIONS += [{"norm": "pre", "tied": "all", "layers": 2, "alignment_layer": -1}]
OPTIONS += [
    {"positions": "learned", "max_length": 32, "norm": "pre", "tied": "all", "layers": 2, "activation": "gelu"},
    {"positions": "relative", "max_distance": 2, "norm": "pre", "tied": "output", "layers": 2, "attention": "cosine"},
    {"positions": "rotary", "norm": "post", "tied": "none", "layers": 2, "activation": "swiglu", "attention": "dot"},
    {"positions": "alibi", "norm": "pre", "tied": "all", "layers": 2, "activation": "swiglu"},
    {"positions": "relative", "norm": "pre", "tied": "all", "layers": 2, "attention": "additive"},
    {"norm": "post", "tied": "all", "layers": 2, "activation": "silu", "output_bias": True},
    {"norm": "post", "tied": "all", "layers": 2, "activation": "gelu_tanh", "embedding_norm": True}
    | {"scale_embeddings": False},
    {"positions": "buckets", "buckets": 8, "max_distance": 6, "tied": "embeddings", "layers": 2, "norm_kind": "rms"}
    | {"norm": "pre", "head_width": 3, "bias": False, "activation": "geglu", "attention": "dot"},
    {"positions": "alibi", "norm": "post", "tied": "output", "layers": 1, "attention": "multiplicative"},
    {"positions": "none", "norm": "pre", "tied": "all", "layers": 1, "attention": "cosine"},
    {"decoder_mixer": "ssru", "norm": "pre", "tied": "all", "encoder_layers": 1, "decoder_layers": 2},
    {"decoder_mixer": "ssru", "norm": "post", "tied": "none", "layers": 2, "positions": "rotary"},
    {"cell": "gru", "attention": "scaled", "layers": 1, "tied": "all", "embedding": 4},
    {"cell": "lstm", "attention": "cosine", "layers": 2, "tied": "output", "embedding": 6},
    {"cell": "lstm", "attention": "additive", "layers": 1, "tied": "all", "embedding": 4, "coverage": True},
]
OPTIONS += [
    {
        "cell": cell,
        "attention": attention,
        "attend": "before",
        "layers": layers,
        "tied": "output",
        "embedding": 4,
        **more,
    }
    for cell, attention, layers, more in [
        ("lstm", "additive", 1, {}),
        ("gru", "additive", 2, {"coverage": True}),
        ("lstm", "dot", 2, {"input_feeding": False}),
        ("gru", "cosine", 1, {"bidirectional": False}),
    ]
]
CONVOLUTIONAL: list[dict[str, Any]] = [
    {"style": "convs2s", "tied": "all", "layers": 2, "embedding": 6},
    {
        "style": "convs2s",
        "tied": "output",
        "encoder_layers": 1,
        "decoder_layers": 3,
        "kernel": 5,
        "alignment_layer": -2,
    },
    {"style": "convs2s", "tied": "none", "layers": 2, "positions": "sinusoidal"},
    {"style": "bytenet", "tied": "output", "layers": 3, "embedding": 6, "attention": "none", "positions": "none"},
    {"style": "bytenet", "tied": "all", "layers": 2, "attention": "none", "max_length": 32},
    {"style": "bytenet", "tied": "none", "layers": 3, "attention": "dot", "positions": "sinusoidal"},
]
OPTIONS += [{"embedding": 8, **options} for options in CONVOLUTIONAL]


def build(options: dict[str, Any], dropout: float = 0.3) -> EncoderDecoder:
    """A tiny network in float64 and eval mode, no parameter at a value that could hide a mistake."""
    torch.manual_seed(1)
    target_size = VOCABULARY if options["tied"] in ("all", "embeddings") else VOCABULARY + 2
    if "cell" in options:
        config: Any = RecurrentConfig(width=6, dropout=dropout, **options)
    elif "style" in options:
        config = ConvolutionalConfig(width=8, dropout=dropout, **options)
    else:
        config = TransformerConfig(width=8, heads=2, feedforward=10, dropout=dropout, **options)
    model = build_model(config, VOCABULARY, target_size)
    assert isinstance(model, EncoderDecoder)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return model.double().eval()


def name(options: dict[str, Any]) -> str:
    return "-".join(f"{key}={value}" for key, value in options.items())


every_architecture = pytest.mark.parametrize("options", OPTIONS, ids=name)
SOURCE = torch.tensor([[4, 5, 3, 0, 0], [6, 7, 8, 5, 3], [8, 4, 4, 3, 0]])  # (B, S)
LENGTHS = torch.tensor([3, 5, 4])
TARGET = torch.tensor([[2, 5, 6, 7], [2, 8, 4, 0], [2, 4, 0, 0]])  # (B, T), BOS first
WANTED = torch.tensor([[5, 6, 7, 3], [8, 4, 3, 0], [4, 3, 0, 0]])


def close(found: Tensor, right: Tensor) -> bool:
    return found.shape == right.shape and torch.allclose(found, right, rtol=0, atol=1e-9)


@every_architecture
@torch.no_grad()
def test_step_equals_forward(options: dict[str, Any]) -> None:
    model = build(options)
    whole = model.logits(model(SOURCE, LENGTHS, TARGET))  # (B, T, V)
    weights = model.attention(SOURCE, LENGTHS, TARGET)
    state = model.start(SOURCE, LENGTHS, max_length=2)  # caches grow
    state.need_weights = True
    for place in range(TARGET.shape[1]):
        logits, attention = model.step(TARGET[:, place], state), state.attention
        assert close(logits, whole[:, place])
        if options.get("attention") == "none":
            assert attention is None
            assert weights is None
        else:
            assert close(attention, model.alignment(weights)[:, place])
            assert close(attention.sum(-1), torch.ones(3, dtype=torch.float64))
            assert (attention[0, 3:] == 0).all()


@every_architecture
def test_forward_with_gradients_equals_forward_without(options: dict[str, Any]) -> None:
    """Training takes other products than translating (deferred weight gradients)."""
    model = build(options)
    with torch.no_grad():
        right = model(SOURCE, LENGTHS, TARGET)
    assert close(model(SOURCE, LENGTHS, TARGET), right)


@every_architecture
@torch.no_grad()
def test_padding_and_neighbours_change_nothing(options: dict[str, Any]) -> None:
    model = build(options)
    together = model(SOURCE, LENGTHS, TARGET)
    wider = torch.cat((SOURCE, torch.full((3, 2), 7)), 1)  # what stands in the padding is of no account either
    assert close(model(wider, LENGTHS, TARGET), together)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = SOURCE[row : row + 1, :length]
        for lengths in (None, LENGTHS[row : row + 1]):
            assert close(model(alone, lengths, TARGET[row : row + 1]), together[row : row + 1])


@every_architecture
@torch.no_grad()
def test_hypotheses_expand_change_places_and_leave(options: dict[str, Any]) -> None:
    """Three sources with two hypotheses each: every step equals the whole target of what each row has read."""
    model, first = build(options), torch.tensor([2, 2, 2])
    state = model.start(SOURCE, LENGTHS, max_length=6)
    state.need_weights = True
    model.step(first, state)
    state.expand_(2)
    read = first.repeat_interleave(2)[:, None]  # (R, t) what each row has read
    owner = torch.arange(3).repeat_interleave(2)

    def check(tokens: list[int]) -> None:
        nonlocal read
        read = torch.cat((read, torch.tensor(tokens)[:, None]), 1)
        logits = model.step(read[:, -1], state)
        assert close(logits, model.logits(model(SOURCE[owner], LENGTHS[owner], read))[:, -1])
        if state.attention is not None:
            weights = model.attention(SOURCE[owner], LENGTHS[owner], read)
            assert close(state.attention, model.alignment(weights)[:, -1])

    check([4, 5, 6, 7, 8, 4])
    order = torch.tensor([1, 0, 2, 2, 5, 5])
    state.reorder_(order)
    read = read[order]
    check([5, 5, 7, 4, 6, 8])
    state.keep_(torch.tensor([0, 2]))
    read, owner = read[[0, 1, 4, 5]], owner[[0, 1, 4, 5]]
    check([6, 4, 5, 7])
    order = torch.tensor([1, 0, 3, 3])
    state.reorder_(order)
    read = read[order]
    check([4, 8, 8, 5])


@every_architecture
@torch.no_grad()
def test_a_state_that_starts_with_a_beam_equals_one_that_is_expanded(options: dict[str, Any]) -> None:
    model, tokens = build(options), torch.tensor([4, 5, 6, 7, 8, 4])
    state = model.start(SOURCE, LENGTHS, beam=2)
    expanded = model.start(SOURCE, LENGTHS)
    expanded.expand_(2)
    for _ in range(2):
        assert close(model.step(tokens, state), model.step(tokens, expanded))
    with pytest.raises(ValueError, match="only a state with one hypothesis"):
        state.expand_(2)


@every_architecture
@torch.no_grad()
def test_later_tokens_change_no_earlier_state(options: dict[str, Any]) -> None:
    model = build(options)
    before = model(SOURCE, LENGTHS, TARGET)
    for place in range(1, TARGET.shape[1]):
        changed = TARGET.clone()
        changed[:, place:] = 8 - changed[:, place:]
        after = model(SOURCE, LENGTHS, changed)
        assert close(after[:, :place], before[:, :place])
        assert not torch.allclose(after[:, place], before[:, place])


@every_architecture
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_its_definition(options: dict[str, Any], smoothing: float) -> None:
    model = build(options)
    parameters = dict(model.named_parameters())
    hidden = model(SOURCE, LENGTHS, TARGET)
    slow = smoothed_cross_entropy(model.logits(hidden).flatten(0, 1), WANTED.flatten(), smoothing)
    fast = model.loss(SOURCE, LENGTHS, TARGET, WANTED, smoothing)
    assert close(fast, slow)
    found = torch.autograd.grad(fast, list(parameters.values()))
    for key, one, other in zip(parameters, found, torch.autograd.grad(slow, list(parameters.values())), strict=True):
        assert close(one, other), key
        assert one.abs().max() > 0, key


@every_architecture
def test_tied_matrices_are_one(options: dict[str, Any]) -> None:
    model = build(options)
    source, target = model.source_embedding.weight, model.target_embedding.weight
    assert (source is target) == (options["tied"] in ("all", "embeddings"))
    assert (model.output_weight is target) == (options["tied"] in ("all", "output"))
    places = [parameter.data_ptr() for parameter in model.parameters()]
    assert len(places) == len(set(places))
    counted = [p for p in model.parameters() if any(p is known for known in (source, target, model.output_weight))]
    assert len(counted) == {"all": 1, "embeddings": 2, "output": 2, "none": 3}[options["tied"]]


SHORT = [
    OPTIONS[0],
    next(o for o in OPTIONS if "norm" in o and o["tied"] == "none"),
    next(o for o in OPTIONS if o.get("attention") == "additive" and o["layers"] == 2),
    next(o for o in OPTIONS if o.get("style") == "convs2s" and "layers" in o),
]


@pytest.mark.parametrize("options", SHORT, ids=name)
@torch.no_grad()
def test_dropout_in_training_alone(options: dict[str, Any]) -> None:
    model, plain = build(options, dropout=0.5), build(options, dropout=0.0)
    plain.load_state_dict(model.state_dict())
    right = plain.train()(SOURCE, LENGTHS, TARGET)
    assert close(model(SOURCE, LENGTHS, TARGET), right)
    model.train()
    assert not torch.allclose(model(SOURCE, LENGTHS, TARGET), model(SOURCE, LENGTHS, TARGET))
    torch.manual_seed(5)
    first = model(SOURCE, LENGTHS, TARGET)
    torch.manual_seed(5)
    assert torch.equal(model(SOURCE, LENGTHS, TARGET), first)


@pytest.mark.parametrize("options", SHORT, ids=name)
def test_one_seed_gives_one_network(options: dict[str, Any]) -> None:
    """First weights do not depend on where in memory the modules happen to lie."""
    for tied in TIED:
        models = [build({**options, "tied": tied}) for _ in range(6)]  # all alive, so all in places of their own
        for model in models[1:]:
            for one, other in zip(model.parameters(), models[0].parameters(), strict=True):
                assert torch.equal(one, other)


@pytest.mark.parametrize("options", [o for o in SHORT if o.get("attention") != "none"], ids=name)
@torch.no_grad()
def test_the_memory_is_kept_once_a_source_and_not_moved(options: dict[str, Any]) -> None:
    model = build(options)
    state = model.start(SOURCE, LENGTHS, beam=2)
    memory, mask = state.memory, state.mask
    model.step(torch.tensor([4, 5, 6, 7, 8, 4]), state)
    state.reorder_(torch.tensor([1, 0, 2, 2, 5, 4]))
    assert state.memory is memory
    assert state.mask is mask
    parts = [memory] if isinstance(memory, Tensor) else memory
    assert {len(part if isinstance(part, Tensor) else part[0]) for part in parts} == {3}


POSITIONS = ["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("attention", ["scaled", "additive", "cosine", "ssru"])
@torch.no_grad()
def test_fixed_shapes_give_the_same_logits(positions: str, attention: str) -> None:
    """What a CUDA graph captures: tensors never change their shape or address, and the position is a tensor."""
    if (positions, attention) == ("rotary", "additive"):
        pytest.skip("rotary positions need a dot product")
    kind = {"decoder_mixer": "ssru"} if attention == "ssru" else {"attention": attention}
    more = {"positions": positions, **kind, "max_length": 16, "max_distance": 2}
    model = build({"norm": "pre", "tied": "all", "layers": 2, **more})
    decoder, memory = model.decoder, model.encode(SOURCE, LENGTHS)
    fixed, plain = decoder.start(memory, 2, 8, static=True), decoder.start(memory, 2, 8)
    places = fixed.cache.values.data_ptr(), fixed.cache.position.data_ptr()
    order = torch.tensor([1, 0, 2, 2, 5, 4])
    for tokens in ([4, 5, 6, 7, 8, 4], [6, 6, 7, 5, 4, 4], [8, 7, 6, 5, 4, 8]):
        embedded = model.target_embedding(torch.tensor(tokens))
        assert close(decoder.step(embedded, fixed), decoder.step(embedded, plain))
        fixed.reorder_(order)
        plain.reorder_(order)
    assert (fixed.cache.values.data_ptr(), fixed.cache.position.data_ptr()) == places
