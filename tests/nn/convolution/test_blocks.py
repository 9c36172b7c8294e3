"""Blocks of ConvS2S and ByteNet: their equations, no leak from padding or future, cached = whole."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from harken.nn import (
    DilatedBlock,
    DilatedDecoderBlock,
    GatedBlock,
    GatedDecoderBlock,
    SourceAttention,
    dilations,
    unfold,
)
from harken.nn.convolution.attention import keys_values

WIDTH, EMBEDDING = 6, 4
HALF = math.sqrt(0.5)
each_dtype = st.sampled_from([torch.float64, torch.float32])


def ready(block: nn.Module, dtype: torch.dtype = torch.float64) -> Any:
    """No parameter at a value that could hide a mistake."""
    torch.manual_seed(1)
    for parameter in block.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.5)
    return block.to(dtype).eval()


ENCODERS = {
    "gated": lambda: GatedBlock(WIDTH, 3),
    "dilated": lambda: DilatedBlock(WIDTH, 3, dilation=2),
}
DECODERS = {
    "gated": lambda: GatedDecoderBlock(WIDTH, EMBEDDING, 3),
    "dilated": lambda: DilatedDecoderBlock(WIDTH, 3, dilation=2),
    "dilated with attention": lambda: DilatedDecoderBlock(WIDTH, 2, dilation=3, embedding=EMBEDDING),
}
each_encoder, each_decoder = pytest.mark.parametrize("kind", ENCODERS), pytest.mark.parametrize("kind", DECODERS)


class Case:
    """A decoder's inputs: T = 5 target positions, sources of 4 and 2 words."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, dtype=dtype, requires_grad=True)

        self.values, self.embedded = draw(2, 5, WIDTH), draw(2, 5, EMBEDDING)
        self.memory, self.source = draw(2, 4, EMBEDDING), draw(2, 4, EMBEDDING)
        self.mask = torch.tensor([[True] * 4, [True, True, False, False]])
        self.pairs = keys_values(self.memory, self.source)


def near(found: Tensor, right: Tensor, dtype: torch.dtype = torch.float64) -> bool:
    return found.shape == right.shape and torch.allclose(found, right, atol=1e-9 if dtype == torch.float64 else 1e-4)


@given(st.sampled_from([*ENCODERS]), st.lists(st.integers(1, 6), min_size=1, max_size=3), each_dtype)
def test_padding_and_neighbours_change_nothing(kind: str, lengths: list[int], dtype: torch.dtype) -> None:
    block, values = ready(ENCODERS[kind](), dtype), torch.randn(len(lengths), 6, WIDTH, dtype=dtype)
    found = block(values, torch.arange(6) < torch.tensor(lengths)[:, None])
    for row, length in enumerate(lengths):
        assert near(found[row : row + 1, :length], block(values[row : row + 1, :length]), dtype)


def test_gated_block_is_its_equation() -> None:
    block, values = ready(GatedBlock(WIDTH, 3)), torch.randn(1, 4, WIDTH, dtype=torch.float64)
    signal, gate = block.convolution(values).chunk(2, -1)
    assert near(block(values), (values + signal * torch.sigmoid(gate)) * HALF)


def test_dilated_block_is_its_equation() -> None:
    block, values = ready(DilatedBlock(WIDTH, 3, 2)), torch.randn(1, 4, WIDTH, dtype=torch.float64)
    narrow = block.narrow(torch.relu(block.narrow_norm(values)))
    seen = block.convolution(torch.relu(block.inner_norm(narrow)))
    assert narrow.shape[-1] == seen.shape[-1] == WIDTH // 2
    assert near(block(values), values + block.widen(torch.relu(block.widen_norm(seen))))


def by_hand(layer: SourceAttention, case: Case) -> tuple[Tensor, Tensor]:
    """Contexts and weights, a word at a time, over the real words of each source."""
    contexts, weights = torch.zeros(2, 5, WIDTH).double(), torch.zeros(2, 5, 4).double()
    for row, length in enumerate(case.mask.sum(1).tolist()):
        keys = case.memory[row, :length]
        values = (keys + case.source[row, :length]) * HALF
        for place in range(5):
            query = (layer.query(case.values[row, place]) + case.embedded[row, place]) * HALF
            shares = torch.softmax(torch.stack([query @ key for key in keys]), 0)
            weights[row, place, :length] = shares
            contexts[row, place] = layer.output(
                math.sqrt(length) * sum(s * v for s, v in zip(shares, values, strict=True))
            )
    return contexts, weights


def test_source_attention_is_its_equation() -> None:
    layer, case = ready(SourceAttention(WIDTH, EMBEDDING)), Case()
    contexts, weights = by_hand(layer, case)
    assert near(layer(case.values, case.embedded, case.pairs, case.mask), contexts)
    found, shares = layer.with_weights(case.values, case.embedded, case.pairs, case.mask)
    assert near(found, contexts)
    assert near(shares, weights)
    assert near(shares.sum(-1), torch.ones(2, 5).double())
    open_found = layer(case.values[:1], case.embedded[:1], tuple(part[:1] for part in case.pairs))
    assert near(open_found, contexts[:1])
    keys, values = keys_values(case.memory)  # encoders of other kinds hand over no embeddings
    assert keys is values is case.memory


def test_a_source_without_words_gives_numbers() -> None:
    layer, case = ready(SourceAttention(WIDTH, EMBEDDING)), Case()
    mask = torch.tensor([[True] * 4, [False] * 4])
    for found in (
        layer(case.values, case.embedded, case.pairs, mask),
        layer.with_weights(case.values, case.embedded, case.pairs, mask)[0],
    ):
        assert near(found[1], layer.output.bias.expand(5, -1))
        gradients = torch.autograd.grad(found.square().sum(), [case.memory, case.values], retain_graph=True)
        assert not any(gradient.isnan().any() for gradient in gradients)


@given(st.sampled_from([*DECODERS]), each_dtype)
def test_three_ways_through_a_decoder_block(kind: str, dtype: torch.dtype) -> None:
    block, case, past = ready(DECODERS[kind](), dtype), Case(dtype), None
    whole = block(case.values, case.embedded, case.pairs, case.mask)
    slow, weights = block.with_weights(case.values, case.embedded, case.pairs, case.mask)
    assert near(slow, whole, dtype)
    assert (weights is None) == (block.attention is None)
    for place in range(5):
        here = slice(place, place + 1)
        inputs = (case.values[:, here], past, case.embedded[:, here], case.pairs, case.mask)
        assert near(block.step(*inputs)[0], whole[:, here], dtype)
        now, past, shares = block.step(*inputs, need_weights=True)
        assert near(now, whole[:, here], dtype)
        if weights is not None:
            assert near(shares, weights[:, here], dtype)
            assert (shares[1, :, 2:] == 0).all()


@each_decoder
def test_no_gradient_from_the_future_or_from_padding(kind: str) -> None:
    block, case = ready(DECODERS[kind]()), Case()
    into = [case.values, case.embedded, case.memory, case.source]
    for place in range(5):
        found = block(case.values, case.embedded, case.pairs, case.mask)[:, place].sum()
        values, embedded, *source = torch.autograd.grad(
            found, into, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        assert (values[:, place + 1 :] == 0).all()
        assert (values[:, place] != 0).all()
        assert (embedded[:, [other for other in range(5) if other != place]] == 0).all()
        for part in source:
            assert (part[~case.mask] == 0).all()
            assert bool((part[case.mask] != 0).all()) == (block.attention is not None)


@each_decoder
def test_gradcheck(kind: str) -> None:
    block, case = ready(DECODERS[kind]()), Case()
    leaves = (case.values, case.embedded, case.memory, case.source)

    def run(*_: Tensor) -> Tensor:
        return block(case.values, case.embedded, keys_values(case.memory, case.source), case.mask)

    assert torch.autograd.gradcheck(run, leaves, fast_mode=True)
    assert torch.autograd.gradcheck(run, (case.values, *block.parameters()), fast_mode=True)


@given(st.integers(1, 6), st.integers(0, 6), st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_unfolding_reads_where_it_writes(length: int, start: int, lengths: list[int]) -> None:
    memory = torch.randn(len(lengths), 4, 2)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    found = unfold(memory, mask, length, start)
    for row, words in enumerate(lengths):
        for place in range(length):
            right = memory[row, start + place] if start + place < words else torch.zeros(2)
            assert torch.equal(found[row, place], right)
    assert torch.equal(unfold(memory, None, 4), memory)


def test_five_blocks_see_thirty_one_words_to_each_side() -> None:
    blocks = [ready(DilatedBlock(2, 3, dilation)) for dilation in dilations(5)]
    values = torch.randn(1, 80, 2, dtype=torch.float64, requires_grad=True)
    found = values
    for block in blocks:
        block.narrow_norm = block.inner_norm = block.widen_norm = nn.Identity()  # so that no unit is closed by chance
        for parameter in block.parameters():
            parameter.data.abs_()
        found = block(found.abs())
    (gradient,) = torch.autograd.grad(found[0, 40].sum(), values)
    seen = (gradient[0] != 0).any(-1).nonzero()[:, 0].tolist()
    assert seen == list(range(40 - 31, 40 + 32))


@pytest.mark.parametrize("kind", [*ENCODERS])
def test_dropout_in_training_alone(kind: str) -> None:
    block = {"gated": GatedBlock(WIDTH, 3, 0.5), "dilated": DilatedBlock(WIDTH, 3, 2, 0.5)}[kind]
    values = torch.randn(2, 5, WIDTH)
    assert not torch.allclose(block(values), block(values))
    assert torch.equal(block.eval()(values), block(values))
