"""Gradients and gates inside encoder-decoders: the decoder's steps too, padded or alone, one kind beside another."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from harken.data.io.token_rows import ParallelBatch, ParallelIds, TokenRows
from harken.errors import UserError
from harken.inspection import gates, gradient_flow
from harken.inspection.measures.jacobian import jacobians
from harken.inspection.measures.tracing import still, tracing
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig

PAIRS = [([5, 6, 7, 8, 9], [4, 5, 6]), ([7, 5], [9, 8, 7, 6, 5, 4]), ([4, 4, 4], [6])]


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> ParallelBatch:
    sides = (TokenRows.from_lists([pair[side] for pair in pairs], eos=True) for side in (0, 1))
    return ParallelIds(*sides).batch(range(len(pairs)))


def network(**options: Any) -> Any:
    torch.manual_seed(2)
    return build_model(RecurrentConfig(embedding=6, width=8, layers=2, **options), 12, 12).double()


@pytest.mark.parametrize("attention", ["none", "additive"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_a_decoders_gradients_are_those_of_retained_steps(attention: str, cell: str) -> None:
    model, batch = network(attention=attention, cell=cell).eval(), batch_of(PAIRS)
    memory = model.encode(batch.source, batch.source_lengths)
    hidden, trace = model.decoder(model.target_embedding(batch.target_input), memory, trace=True)
    trace.retain_grad()
    logits = model.logits(model.narrow(hidden))
    F.cross_entropy(logits.flatten(0, 1), batch.target_output.flatten(), ignore_index=0, reduction="sum").backward()
    flow = gradient_flow(model, batch, loss="all")
    names = [layer.name for layer in flow]
    assert names[-2:] == ["decoder layer 1", "decoder layer 2"]
    assert names[0] == "encoder.layers.0 →"
    for depth in (0, 1):
        for word in trace.names:
            wanted = trace[depth].gradient(word).norm(dim=-1).numpy()
            assert np.allclose(np.nan_to_num(flow[depth - 2].gradients[word]), wanted, rtol=1e-9, atol=1e-13), word


def test_rows_meet_at_their_own_ends() -> None:
    """Padding moves no row away from its loss: together is the mean of alone, layer by layer."""
    model = network()
    together = gradient_flow(model, batch_of(PAIRS[:2]))
    alone = [gradient_flow(model, batch_of([pair])) for pair in PAIRS[:2]]
    assert together.loss == pytest.approx(sum(flow.loss for flow in alone), rel=1e-12)
    for number, layer in enumerate(together):
        curves = [flow[number].curve("cell") for flow in alone]
        both = min(map(len, curves))
        assert layer.row_counts("cell").tolist() == [2] * both  # further on one row is left
        assert np.allclose(layer.curve("cell"), (curves[0][:both] + curves[1][:both]) / 2, rtol=1e-9)


def test_a_decoders_jacobian_is_its_cells() -> None:
    model, batch = network(cell="rnn", attention="additive"), batch_of(PAIRS)
    with still(model), tracing(model) as seen:
        model(batch.source, batch.source_lengths, batch.target_input)
    trace = seen[-1].trace
    found = jacobians(trace)
    assert found is not None
    slopes = 1 - trace.hidden.detach() ** 2
    whole = slopes[..., None] * model.decoder.layers[1].weight_hh  # type: ignore[union-attr,index]
    wanted = torch.linalg.matrix_norm(whole, 2)[:, found.steps].T
    assert np.allclose(found.largest["hidden"], wanted.detach().numpy(), rtol=1e-9)


def test_a_recurrent_decoder_on_a_transformers_encoder() -> None:
    decoder = {"architecture": "recurrent", "embedding": 8, "width": 6}
    model = build_model(TransformerConfig(width=8, heads=2, feedforward=16, layers=1, decoder=decoder), 12, 12)
    assert [layer.name for layer in gradient_flow(model, batch_of(PAIRS))] == ["decoder"]


@pytest.mark.parametrize(("attention", "kind"), [("additive", "direct"), ("none", "healthy")])
def test_an_encoder_that_is_attended_to_is_reached_directly(attention: str, kind: str) -> None:
    pairs = [([4, 5, 6, 7, 8, 9], [4, 5, 6, 7])]
    flow = gradient_flow(network(attention=attention, cell="rnn"), batch_of(pairs))
    found = [layer.verdict.kind == "direct" for layer in flow]
    assert found == [kind == "direct"] * 4 + [False] * 2
    assert ("attention takes the loss" in flow[0].verdict.sentence) is (kind == "direct")


def test_a_transformer_has_blocks_in_the_place_of_steps() -> None:
    model = build_model(TransformerConfig(layers=1, width=8, heads=2, feedforward=8), 12, 12)
    flow = gradient_flow(model, batch_of(PAIRS))
    assert [layer.cell for layer in flow] == ["EncoderBlock", "DecoderBlock"]
    with pytest.raises(UserError, match="harken attention"):
        gates(model, batch_of(PAIRS))
