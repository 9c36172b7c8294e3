"""gradient_flow and attention_maps on modules that know nothing of harken: torch's, Hugging Face-like, own cells."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import harken.nn
from harken.errors import UserError
from harken.inspection import attention_maps, gates, gradient_flow
from harken.nn import Cell, Products, Stack, Step


class Loop(nn.Module):
    """A loop over a cell, as a user writes it; returns (B, T, H)."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, values: Tensor) -> Tensor:
        state, outputs = None, []
        for x in values.unbind(1):
            state = self.cell(x, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs, 1)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("home", [nn, harken.nn])
def test_a_loop_over_cells_is_the_layer(kind: str, home: Any) -> None:
    layer = getattr(harken.nn, kind)(3, 5, batch_first=True)
    cell = getattr(home, f"{kind}Cell")(3, 5)
    cell.load_state_dict({name.removesuffix("_l0"): weight for name, weight in layer.state_dict().items()})
    values = torch.randn(2, 7, 3)
    wanted, found = gradient_flow(layer, values)[0], gradient_flow(Loop(cell), values)[0]
    assert (found.name, found.cell) == ("cell", kind)
    for word in {"hidden", "cell"} & set(wanted.gradients):
        assert np.allclose(found.gradients[word], wanted.gradients[word], rtol=1e-4)
    assert found.verdict.kind == wanted.verdict.kind
    assert next(iter(found.weights.values())) == pytest.approx(next(iter(wanted.weights.values())))
    assert "cell" in str(gradient_flow(Loop(cell), values))  # drawn


class Gated(Cell):
    """A cell of a user's own, with three gates that harken knows nothing of."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__("gated", input_size, hidden_size, gates=3)
        self.draw()

    def weights(self) -> Any:
        return self.weight_ih, self.weight_hh, self.summed_bias()

    def step(self, x: Tensor, state: Any, products: Products | None = None, keep: Tensor | None = None) -> Step:
        linear = products or Products(self)
        W, U, b = linear.weights
        (h,) = state
        r, z, n = (linear(x, W, b) + linear(h, U)).chunk(3, -1)
        r, z = torch.sigmoid(r), torch.sigmoid(z)
        return Step((z * h + (1 - z) * torch.tanh(r * n),), {"reset": r, "update": z})


def test_an_own_cell_has_flow_jacobians_gates_and_pictures() -> None:
    stack = Stack.of(Gated, 3, 5, num_layers=2, bidirectional=True, batch_first=True)
    values = torch.randn(2, 7, 3)
    flow = gradient_flow(stack, values, loss="all")
    assert [layer.name for layer in flow] == ["layer 1 →", "layer 1 ←", "layer 2 →", "layer 2 ←"]
    assert list(flow[0].weights) == ["all gates", "gate 1", "gate 2", "gate 3"]
    assert flow[0].jacobians is not None and set(flow[0].gradients) == {"hidden", "reset", "update"}
    trace = gates(stack, values)
    assert trace[0].values["update"].shape == (7, 5) and "update" in str(trace)
    assert repr(trace) == "GateTrace('Gates': " + ", ".join(f"{layer.name} (Gated, 5 units)" for layer in flow) + ")"
    output = stack(values)[0]
    assert torch.allclose(output, stack.reference(values)[0], atol=1e-6)


def autograd_norms(blocks: list[nn.Module], values: Tensor, last: Any) -> list[Tensor]:
    """|dL/dx| at the output of every block by hand."""
    kept = []
    for block in blocks:
        values = block(values)
        values.retain_grad()
        kept.append(values)
    last(values).square().sum().backward()
    return [one.grad.norm(dim=-1) for one in kept]  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("home", [nn, harken.nn])
@pytest.mark.parametrize("batch_first", [True, False])
def test_transformers_by_layer_and_position(home: Any, batch_first: bool) -> None:
    layer = home.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=batch_first)
    encoder = home.TransformerEncoder(layer, 3)
    values = torch.randn(2, 5, 8) if batch_first else torch.randn(5, 2, 8)
    flow = gradient_flow(encoder, values)
    assert [one.name for one in flow] == ["layers.0", "layers.1", "layers.2"]
    wanted = autograd_norms(list(encoder.layers), values, (lambda x: x[:, -1]) if batch_first else (lambda x: x[-1]))
    for found, norms in zip(flow, wanted, strict=True):
        expected = norms if batch_first else norms.t()
        reached = ~np.isnan(found.gradients["hidden"])
        assert np.allclose(found.gradients["hidden"][reached], expected.numpy()[reached], rtol=1e-4)
        assert found.by_position().shape == (5,) and found.verdict.kind in ("direct", "unclear")
    assert np.isnan(flow[2].gradients["hidden"]).sum() == 0 and (flow[2].gradients["hidden"][:, :4] == 0).all()
    assert list(flow.by_layer()) == ["layers.0", "layers.1", "layers.2"]
    assert "layers.0" in str(flow)


def test_harkens_transformer_translator() -> None:
    from harken.data.io.token_rows import ParallelBatch
    from harken.models.build import build_model
    from harken.models.config import TransformerConfig

    model = build_model(TransformerConfig(layers=2, width=8, heads=2, feedforward=16), 20, 20)
    source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 4))
    fields = dict.fromkeys(ParallelBatch._fields) if hasattr(ParallelBatch, "_fields") else {}
    given = {"source": source, "source_lengths": torch.tensor([5, 3]), "target_input": target}
    given |= {"target_output": target.roll(-1, 1), "target_lengths": torch.tensor([4, 4])}
    batch = ParallelBatch(**{**fields, **given})
    flow = gradient_flow(model, batch, loss="all")
    assert len(flow.layers) == 4 and {layer.cell for layer in flow} == {"EncoderBlock", "DecoderBlock"}
    assert np.isnan(flow[0].gradients["hidden"][1, 3:]).all()  # padding
    maps = attention_maps(model, batch)
    shapes = [layer.weights.shape for layer in maps]
    assert shapes.count((2, 2, 5, 5)) == 2 and shapes.count((2, 2, 4, 5)) == 2 and shapes.count((2, 2, 4, 4)) == 2
    assert all(np.allclose(layer.weights.sum(-1), 1) for layer in maps)


class Block(nn.Module):
    """A block in the manner of Hugging Face: returns a tuple, with weights on request."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, hidden: Tensor, output_attentions: bool = False) -> tuple[Tensor, ...]:
        query, key, value = self.project(hidden).chunk(3, -1)
        weights = torch.softmax(query @ key.transpose(1, 2) / 8**0.5, -1)
        return (hidden + self.out(weights @ value), *([weights[:, None]] if output_attentions else []))


class Reader(nn.Module):
    """A model in the manner of Hugging Face: named inputs, named outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings, self.layer = nn.Embedding(9, 8), nn.ModuleList(Block() for _ in range(2))

    def forward(self, input_ids: Tensor, output_attentions: bool = False) -> Any:
        hidden, found = self.embeddings(input_ids), []
        for layer in self.layer:
            hidden, *weights = layer(hidden, output_attentions)
            found += weights
        return SimpleNamespace(last_hidden_state=hidden, attentions=tuple(found) if found else None)


def test_models_with_named_inputs_and_outputs() -> None:
    model, ids = Reader(), {"input_ids": torch.randint(9, (2, 5))}
    flow = gradient_flow(model, ids)
    assert [layer.name for layer in flow] == ["layer.0", "layer.1"]
    assert flow[0].gradients["hidden"].shape == (2, 5)
    maps = attention_maps(model, ids)
    assert [layer.name for layer in maps] == ["attentions.0", "attentions.1"]
    wanted = model(**ids, output_attentions=True).attentions
    assert all(np.allclose(layer.weights, w.detach()) for layer, w in zip(maps, wanted, strict=True))
    grid = maps.picture(["a", "b", "c", "d", "e"], row=1)
    assert grid.layers.shape == (2, 1, 5, 5) and grid.map(0, 0).weights.sum() == pytest.approx(5)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("home", [nn, harken.nn])
def test_attention_of_torchs_layers_equals_what_they_return(home: Any) -> None:
    encoder = home.TransformerEncoder(home.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    values = torch.randn(2, 5, 8)
    with torch.no_grad():
        before = encoder(values)
        maps = attention_maps(encoder, values)
        first = encoder.layers[0].self_attn(values, values, values, average_attn_weights=False)[1]
        assert torch.equal(encoder(values), before)  # left as it was
    assert np.allclose(maps["layers.0.self_attn"].weights, first, atol=1e-6)
    attention = home.MultiheadAttention(8, 2)
    single = attention_maps(attention, (values[0], values[0], values[0]), need_weights=False)
    assert single[0].weights.shape == (1, 2, 5, 5)
    assert repr(single) == "AttentionMaps(1 layer: MultiheadAttention (1, 2, 5, 5))"


def test_what_has_no_attention_says_so() -> None:
    with pytest.raises(UserError, match="Linear gave no attention weights"):
        attention_maps(nn.Linear(2, 2), torch.randn(1, 2))
    with pytest.raises(UserError, match="no attention layer has 'cross' in its name"):
        attention_maps(nn.MultiheadAttention(8, 2), (torch.randn(5, 8),) * 3).picture(layers="cross")


def test_torchs_layers_inside_a_users_module_and_a_loss_function() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.LSTM(4, 6, 2, batch_first=True))
    ids = torch.randint(9, (3, 8))
    flow = gradient_flow(model, ids, loss=lambda made: F.mse_loss(made[0], torch.zeros_like(made[0])))
    assert [layer.name for layer in flow] == ["1 layer 1", "1 layer 2"] and repr(flow).startswith(
        "GradientFlow(2 layers"
    )
