"""Gradients of every step are autograd's own, and the verdict follows what is known of orthogonal matrices."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from harken.errors import UserError
from harken.inspection import gradient_flow
from harken.inspection.measures.verdict import judge
from harken.inspection.pictures.flow import HEADINGS
from harken.nn import GRU, LSTM, RNN

DOUBLE = torch.float64
LAYERS = [
    (RNN, {"nonlinearity": "sigmoid"}),
    (LSTM, {}),
    (LSTM, {"peephole": "diagonal"}),
    (LSTM, {"coupled": True, "proj_size": 2}),
    (LSTM, {"layer_norm": True, "zoneout": 0.2}),
    (GRU, {"reset": "before"}),
    (GRU, {"reset": "after"}),
]


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def orthogonal_rnn(scale: float, width: int = 16) -> RNN:
    torch.manual_seed(1)
    layer = RNN(2, width, bias=False, dtype=DOUBLE, batch_first=True, orthogonal=True)
    with torch.no_grad():
        layer.cells[0].weight_hh.mul_(scale)
    return layer


@pytest.mark.parametrize(("kind", "options"), LAYERS, ids=lambda x: str(x) if isinstance(x, dict) else x.__name__)
@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), depth=st.integers(1, 2), both=st.booleans())
def test_the_norms_are_those_of_retained_gradients(
    kind: type, options: dict[str, Any], lengths: list[int], depth: int, both: bool
) -> None:
    layer = kind(3, 4, num_layers=depth, bidirectional=both, batch_first=True, dtype=DOUBLE, **options).eval()
    given_lengths = torch.tensor(lengths)
    batch = values(len(lengths), max(lengths), 3)
    output, _, trace = layer(batch, lengths=given_lengths, trace=True)
    trace.retain_grad()
    output.square().sum().backward()
    layer.zero_grad()
    flow = gradient_flow(layer, batch, loss=lambda made: made[0].square().sum(), lengths=given_lengths, sampled=0)
    assert len(flow) == depth * (1 + both)
    for number, one in enumerate(flow):
        seen = trace[number // (1 + both), number % (1 + both)]
        assert set(one.words) == set(seen.names)
        for word in seen.names:
            wanted = seen.gradient(word).norm(dim=-1).numpy()
            assert np.allclose(np.nan_to_num(one.gradients[word]), wanted, rtol=1e-9, atol=1e-12)
            assert (np.isnan(one.gradients[word]).sum(1) == max(lengths) - np.array(lengths)).all()
    assert all(parameter.grad is None for parameter in layer.parameters())


@pytest.mark.parametrize("direction", [0, 1])
def test_distance_counts_from_where_a_direction_ends(direction: int) -> None:
    """Rows of other lengths meet at the loss: a row has at distance d what it has there alone."""
    layer = LSTM(2, 5, bidirectional=True, dtype=DOUBLE, batch_first=True)
    batch, lengths = values(2, 7, 2), torch.tensor([7, 4])
    together = gradient_flow(layer, batch, lengths=lengths)[direction].curve("cell")
    alone = [
        gradient_flow(layer, batch[row : row + 1, :size])[direction].curve("cell") for row, size in ((0, 7), (1, 4))
    ]
    assert np.allclose(together, (alone[0][:4] + alone[1]) / 2, rtol=1e-12)  # one row alone goes further: left out


def test_a_curve_stops_where_fewer_than_eight_rows_are_left_and_says_how_many() -> None:
    lengths = torch.tensor([4] * 3 + [7] * 8 + [12] * 7)
    flow = gradient_flow(RNN(2, 4, batch_first=True), torch.randn(18, 12, 2), lengths=lengths)
    layer = flow[0]
    assert layer.row_counts().tolist() == [18] * 4 + [15] * 3 and len(layer.curve()) == 7
    assert layer.verdict.rows == 15 and layer.verdict.distance == 6
    assert layer.to_dict()["rows_by_distance"] == [18] * 4 + [15] * 3


def test_row_counts_are_drawn_where_rows_have_different_lengths() -> None:
    layer, batch = RNN(2, 4, batch_first=True), torch.randn(18, 12, 2)
    (equal,) = gradient_flow(layer, batch).picture().figures()
    assert [panel.y_label for panel in equal.panels] == ["norm of the gradient, mean over rows"]
    (unequal,) = gradient_flow(layer, batch, lengths=torch.tensor([4] * 9 + [12] * 9)).picture().figures()
    assert [panel.y_label for panel in unequal.panels][1:] == ["rows behind each point"]


def test_few_rows_give_a_curve_and_no_verdict() -> None:
    flow = gradient_flow(RNN(2, 4, batch_first=True), torch.randn(3, 12, 2))
    assert flow[0].row_counts().tolist() == [3] * 12
    assert flow.kind == "unclear" and "3 rows are too few for a verdict" in flow.verdict


def test_distance_counts_from_the_last_step_that_the_loss_looks_at() -> None:
    layer, batch = GRU(2, 4, dtype=DOUBLE, batch_first=True), values(2, 9, 2)
    early = gradient_flow(layer, batch, loss=lambda made: made[0][:, 5].square().sum())[0]
    assert np.isnan(early.gradients["hidden"][:, 6:]).all()
    assert np.array_equal(early.curve(), gradient_flow(layer, batch[:, :6])[0].curve())


def test_a_gradient_that_is_nan_has_exploded() -> None:
    flow = gradient_flow(RNN(2, 4, batch_first=True), torch.randn(1, 8, 2), loss=lambda made: made[0].sum() * torch.inf)
    assert flow.kind == "exploding"
    assert "NaN or infinite" in flow.verdict


def test_the_last_state_is_distance_zero() -> None:
    layer = RNN(2, 5, dtype=DOUBLE, batch_first=True)
    batch = values(1, 6, 2)
    curve = gradient_flow(layer, batch)[0].curve()
    assert curve[0] == pytest.approx(2 * layer(batch)[1].norm().item(), rel=1e-12)  # d|h|^2/dh = 2 h


@pytest.mark.parametrize(("scale", "kind"), [(0.9, "vanishing"), (1.0, "healthy"), (1.1, "exploding")])
def test_a_scaled_orthogonal_matrix_decides(scale: float, kind: str) -> None:
    """C1 where it is exact: inputs so small that tanh is a straight line, so |dL/dh| changes by the scale a step."""
    flow = gradient_flow(orthogonal_rnn(scale), 1e-6 * values(8, 50, 2))
    assert flow.kind == kind
    verdict = flow[0].verdict
    assert verdict.factor == pytest.approx(scale, rel=1e-4)
    assert verdict.ratio == pytest.approx(scale**49, rel=1e-3)
    assert flow[0].weights == {"hidden": pytest.approx(scale, rel=1e-6)}
    found = flow[0].jacobians
    assert found is not None
    assert np.exp(found.growth) == pytest.approx(scale, rel=1e-4)
    assert kind in flow.verdict


def test_an_open_forget_gate_keeps_the_cell() -> None:
    """C4: f = 1 and i = 0 exactly, so dC_t/dC_{t-1} is the identity and |dL/dC_t| the same at every step."""
    layer = LSTM(2, 6, dtype=DOUBLE, batch_first=True)
    cell = layer.cells[0]
    with torch.no_grad():
        cell.bias_ih[:6], cell.bias_ih[6:12] = -1e4, 1e4
    first = torch.zeros(1, 8, 6, dtype=DOUBLE), values(1, 8, 6)
    flow = gradient_flow(layer, (values(8, 30, 2), first), loss=lambda made: made[1][1].square().sum())
    assert flow.kind == "healthy"
    assert np.ptp(flow[0].curve("cell")) == 0
    found = flow[0].jacobians
    assert found is not None
    assert (found.largest["cell"] == 1).all()


class Tagger(nn.Module):
    """A user's own: an embedding, a recurrent layer, a head."""

    def __init__(self, recurrent: nn.Module) -> None:
        super().__init__()
        self.embed, self.recurrent, self.head = nn.Embedding(9, 3), recurrent, nn.Linear(4, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.embed(tokens))[0])


def test_a_users_module_with_torchs_layers() -> None:
    torch.manual_seed(0)
    peer = Tagger(nn.LSTM(3, 4, num_layers=2, dropout=0.5, batch_first=True)).train()
    tokens = torch.randint(9, (2, 5))
    flow = gradient_flow(peer, tokens, loss="all")
    assert [layer.name for layer in flow] == ["recurrent layer 1", "recurrent layer 2"]
    assert type(peer.recurrent) is nn.LSTM and peer.recurrent.training
    ours = Tagger(LSTM.from_torch(peer.recurrent))
    ours.embed, ours.head = peer.embed, peer.head
    same = gradient_flow(ours, tokens, loss="all")
    assert np.allclose(flow[0].gradients["forget"], same[0].gradients["forget"], rtol=1e-6)
    assert flow.loss == pytest.approx(peer.eval()(tokens).square().sum().item(), rel=1e-6)


def test_a_frozen_model_is_looked_into_and_stays_frozen() -> None:
    layer = GRU(2, 4, batch_first=True).requires_grad_(False)
    with torch.no_grad():
        flow = gradient_flow(layer, torch.randn(1, 6, 2))
    assert flow[0].curve()[-1] > 0
    assert not any(parameter.requires_grad for parameter in layer.parameters())


def test_what_cannot_be_looked_into_is_said() -> None:
    with pytest.raises(UserError, match=r"no recurrent layer .* harken attention"):
        gradient_flow(nn.Linear(2, 2), torch.randn(3, 2))
    with pytest.raises(UserError, match="need one number"):
        gradient_flow(RNN(2, 3, batch_first=True), torch.randn(1, 4, 2), loss=lambda made: made[0])
    with pytest.raises(UserError, match='may be "last", "all"'):
        gradient_flow(RNN(2, 3, batch_first=True), torch.randn(1, 4, 2), loss="first")
    with pytest.raises(UserError, match="cannot be looked into"):
        gradient_flow("model", torch.randn(1, 4, 2))
    with pytest.raises(UserError, match="no 'forget'; it has hidden"):
        gradient_flow(RNN(2, 3, batch_first=True), torch.randn(1, 4, 2))[0].curve("forget")
    with pytest.raises(KeyError, match="there are layer 1"):
        gradient_flow(RNN(2, 3, batch_first=True), torch.randn(1, 4, 2))["encoder"]


def test_a_gradient_that_grows_has_no_half_life() -> None:
    torch.manual_seed(1)
    layer = RNN(2, 8, batch_first=True, orthogonal=True)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l0").mul_(1.06)
    flow = gradient_flow(layer, 1e-3 * torch.randn(8, 30, 2))
    verdict = flow[0].verdict
    assert verdict.factor == pytest.approx(1.06, rel=1e-3) and flow.kind == "healthy"
    stored = verdict.to_dict()
    assert stored["half_life"] is None and stored["doubling_time"] == pytest.approx(11.9, rel=1e-2)
    assert verdict.pace == "doubled every 11.9 steps"


def test_a_gradient_that_shrinks_has_no_doubling_time_and_one_that_stays_has_neither() -> None:
    shrinking, steady = judge(0.5 ** np.arange(12)).to_dict(), judge(1.0001 ** np.arange(12)).to_dict()
    assert shrinking["half_life"] == pytest.approx(1) and shrinking["doubling_time"] is None
    assert steady["half_life"] is None is steady["doubling_time"]
    assert steady["sentence"].endswith("stays; as much arrives after 11 steps")


@pytest.mark.parametrize("scale", [0.8, 1.0, 1.06, 1.2])
def test_title_row_legend_and_verdict_use_the_same_words(scale: float) -> None:
    flow = gradient_flow(orthogonal_rnn(scale), 1e-6 * values(8, 30, 2))
    picture = flow.picture()
    row = dict(zip(HEADINGS, picture.rows()[0], strict=True))
    note = picture.states().series[0].note
    assert picture.title.endswith(f" {flow.kind}") and row["verdict"] == flow.kind == note.split(",")[0]
    assert f"{flow.kind}: × {row['× a step']} a step, {row['halves or doubles']};" in flow.verdict
    others = {"vanishing", "exploding", "healthy"} - {flow.kind}
    assert not any(word in text for word in others for text in (picture.title, picture.caption, note, flow.verdict))
