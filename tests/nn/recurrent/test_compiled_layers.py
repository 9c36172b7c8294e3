"""Compiled, every layer gives the values and gradients it gives otherwise, as one graph wherever that can be.

`aot_eager` traces forward and backward and runs them without a compiler; inductor, torch's default, writes C++.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.torch_version import TorchVersion
from torch.utils._pytree import tree_leaves

from harken.nn import (
    Attention,
    AttentionPooling,
    DecoderStack,
    DilatedDecoderBlock,
    Dropout,
    EncoderStack,
    Experts,
    GatedBlock,
    GatedDecoderBlock,
    LearnedPositions,
    SelfAttention,
    VariationalDropout,
    dependency_distances,
)
from harken.nn.attention.head_scores import HEAD_SCORES
from harken.nn.attention.scores import SCORES
from harken.nn.positions.kinds import POSITIONS

sys.path.insert(0, str(Path(__file__).parent))
from recurrent_cases import VARIANTS, build

Case = tuple[nn.Module, tuple[Any, ...]]  # a layer and what it is called with
BATCH, TIME, WIDTH = 2, 3, 8


def randoms(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def sequence() -> Tensor:
    return randoms(BATCH, TIME, WIDTH)


def lengths() -> Tensor:
    return torch.tensor([TIME, 1])


def mask() -> Tensor:
    return torch.tensor([[True, True, True], [True, False, False]])


def recurrent(variant: str, with_lengths: bool = False, layers: int = 1, **options: Any) -> Callable[[], Case]:
    def make() -> Case:
        layer = build(variant, 3, 4, layers, **options)
        return layer.eval(), (randoms(BATCH, TIME, 3), None, lengths() if with_lengths else None)

    return make


def lookup(score: str) -> Case:
    return Attention(SCORES[score](WIDTH, WIDTH)), (randoms(BATCH, WIDTH), sequence(), sequence(), mask())


def encoder(positions: str, **options: Any) -> Case:
    stack = EncoderStack(1, WIDTH, 2, 8, positions=positions, buckets=8, **options)
    trees = torch.tensor([[1, -1, 1], [-1, -1, -1]])
    return stack, (sequence(), lengths(), dependency_distances(trees) if positions == "dependency" else None)


def decoder(positions: str, **options: Any) -> Case:
    return DecoderStack(1, WIDTH, 2, 8, positions=positions, **options), (sequence(), sequence(), mask())


def gated() -> Case:
    return GatedDecoderBlock(WIDTH, 5), (
        sequence(),
        randoms(BATCH, TIME, 5),
        (randoms(BATCH, 3, 5), randoms(BATCH, 3, 5)),
        mask(),
    )


def dilated() -> Case:
    layer, (_, *rest) = DilatedDecoderBlock(WIDTH, dilation=2, embedding=5), gated()[1]
    return layer, (sequence(), *rest)


WHOLE: dict[str, Callable[[], Case]] = {
    **{variant: recurrent(variant) for variant in VARIANTS},
    "lstm layer norm": recurrent("lstm", layer_norm=True),
    "gru layer norm": recurrent("gru before", layer_norm=True, bias="one"),
    "lstm zoneout": recurrent("lstm", zoneout=0.3),
    "tanh lengths": recurrent("tanh", True, 2, bidirectional=True),
    "lstm lengths": recurrent("lstm diagonal", True, 2),
    "gru lengths": recurrent("gru before", True, bidirectional=True, batch_first=True),
    **{f"rnn {kind}": recurrent("relu", True, 3, connections=kind) for kind in ("residual", "highway", "dense")},
    **{f"attention {score}": lambda score=score: lookup(score) for score in SCORES},
    "pooling": lambda: (AttentionPooling(WIDTH), (sequence(), lengths())),
    **{
        f"self {score}": lambda score=score: (SelfAttention(WIDTH, 2, score=score), (sequence(),))
        for score in HEAD_SCORES
    },
    **{f"encoder {kind}": lambda kind=kind: encoder(kind) for kind in POSITIONS.shipped},
    "encoder causal": lambda: encoder("rotary", causal=True, norm="post", activation="swiglu"),
    "decoder sinusoidal": lambda: decoder("sinusoidal", activation="gelu"),
    "decoder relative": lambda: decoder("relative", score="additive"),
    "decoder alibi": lambda: decoder("alibi", score="cosine"),
    "learned": lambda: (LearnedPositions(WIDTH, 5), (TIME,)),
    "gated": lambda: (GatedBlock(WIDTH), (sequence(), mask())),
    "gated decoder": gated,
    "dilated decoder": dilated,
}
# The number of tokens an expert gets decides the shape of its product, so it is read in the middle of a pass.
IN_PIECES: dict[str, Callable[[], Case]] = {
    "experts": lambda: (Experts(WIDTH, 8, 3), (sequence(), mask())),
    "encoder experts": lambda: encoder("none", experts=3),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing that was compiled before is used again."""
    torch._dynamo.reset()
    torch.manual_seed(3)
    yield
    torch._dynamo.reset()


def answers(run: Callable[..., Any], layer: nn.Module, inputs: tuple[Any, ...]) -> list[Tensor]:
    """All values, and all gradients of a loss that weighs every number differently."""
    values = [part for part in tree_leaves(run(*inputs)) if isinstance(part, Tensor)]
    given = [part for part in tree_leaves(inputs) if isinstance(part, Tensor) and part.requires_grad]
    loss = sum((part * torch.linspace(-1, 2, part.numel(), dtype=part.dtype).view_as(part)).sum() for part in values)
    into = [*given, *layer.parameters()]
    return [*values, *torch.autograd.grad(loss, into, allow_unused=True, materialize_grads=True)]


def same(case: Case, tolerance: float = 1e-9, **options: Any) -> None:
    layer, inputs = case[0].to(torch.float64), case[1]
    right = answers(layer, layer, inputs)
    found = answers(torch.compile(layer, **options), layer, inputs)
    assert any(part.abs().max() > 0 for part in right[1:])
    for one, other in zip(found, right, strict=True):
        assert torch.allclose(one, other, rtol=tolerance, atol=tolerance * (1 + other.abs().max().item()))


@pytest.mark.parametrize("name", WHOLE)
def test_traced_as_one_graph_it_gives_the_same(name: str) -> None:
    same(WHOLE[name](), backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize("name", IN_PIECES)
def test_traced_in_pieces_it_gives_the_same(name: str) -> None:
    same(IN_PIECES[name](), backend="aot_eager")


@pytest.mark.parametrize("variant", ["gru after", "lstm diagonal"])
def test_one_graph_serves_all_lengths(variant: str) -> None:
    """Nothing is compiled again for other lengths, and rows without steps and NaN behind a row do no harm."""
    layer = build(variant, 3, 4, bidirectional=True)
    graphs = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, backend=graphs, fullgraph=True)
    for rows in ([3, 1], [0, 2], [2, 3], [1, 1]):
        lengths, values = torch.tensor(rows), torch.randn(2, TIME, 3, dtype=torch.float64)
        values[torch.arange(TIME) >= lengths[:, None]] = float("nan")
        found, right = compiled(values, lengths=lengths), layer(values, lengths=lengths)
        for one, other in zip(tree_leaves(found), tree_leaves(right), strict=True):
            assert torch.allclose(one, other, rtol=0, atol=1e-9)
    assert graphs.frame_count == 1


def test_the_width_that_a_kernel_would_take_compiles_too() -> None:
    """In float32 and wide enough for `kernels.cpu_recurrent`, which cannot be traced."""
    layer, values = build("lstm diagonal", 3, 64, dtype=torch.float32), torch.randn(8, 8, 3)
    with torch.no_grad():
        layer.cells[0].weight_hh.mul_(0.1)
        found = torch.compile(layer, backend="aot_eager", fullgraph=True)(values)[0]
        assert torch.allclose(found, layer(values)[0], atol=1e-5)


@pytest.mark.parametrize("kind", [Dropout, VariationalDropout])
def test_noise_is_noise_when_compiled(kind: type[nn.Module]) -> None:
    """Half of the values are gone, the others doubled, and the gradient is of the same half."""
    values = torch.ones(4, 50, 20, requires_grad=True)
    found = torch.compile(kind(0.5), backend="aot_eager", fullgraph=True)(values)
    found.sum().backward()
    assert values.grad is not None
    assert set(found.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(values.grad, found) and 0.6 < found.mean().item() < 1.4


@pytest.fixture(scope="module")
def inductor() -> None:
    """Skips where torch finds no compiler that can build what it writes."""
    try:
        torch.compile(torch.sin)(torch.ones(3))
    except Exception as problem:
        pytest.skip(f"torch cannot compile C++ here: {str(problem).splitlines()[0]}")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WHOLE, *IN_PIECES])
def test_compiled_to_machine_code_it_gives_the_same(name: str, inductor: None) -> None:
    try:
        same((WHOLE | IN_PIECES)[name](), fullgraph=name in WHOLE)
    except RuntimeError as problem:
        if "expected scalar type Double" not in str(problem) or TorchVersion(torch.__version__) >= "2.13":
            raise
        pytest.skip("inductor of torch before 2.13 compiles the gradient of attention in float64 as if in float32")
