"""Step Jacobians against formulas and finite differences; vector products against whole matrices."""

from typing import Any

import numpy as np
import pytest
import torch

import harken.inspection.measures.jacobian as jacobian
from harken.inspection.measures.jacobian import jacobians
from harken.inspection.measures.summary import recurrent_norms
from harken.nn import GRU, LSTM, RNN, LSTMCell

DOUBLE = torch.float64
LAYERS = [(RNN, {}), (LSTM, {}), (LSTM, {"peephole": "full"}), (GRU, {"reset": "before"}), (GRU, {"zoneout": 0.3})]
NAMES = [f"{kind.__name__}-{options}" for kind, options in LAYERS]


def values(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("way", [0, 1])
def test_a_vanilla_rnns_jacobian_is_e14(way: int) -> None:
    layer = RNN(2, 6, bidirectional=True, dtype=DOUBLE, batch_first=True)
    _, _, trace = layer(values(3, 5, 2), trace=True)
    found = jacobians(trace[0, way], sampled=9)
    assert found is not None
    assert found.steps.tolist() == ([1, 2, 3, 4], [0, 1, 2, 3])[way]
    slopes = 1 - trace[0, way].hidden ** 2  # (B, T, H)
    whole = slopes[..., None] * layer.cells[way].weight_hh  # diag(sigma') W
    wanted = torch.linalg.matrix_norm(whole, 2)[:, found.steps].T
    assert np.allclose(found.largest["hidden"], wanted.detach().numpy(), rtol=1e-12)
    product = torch.eye(6, dtype=DOUBLE).expand(3, 6, 6)
    for step in found.steps if way == 0 else found.steps[::-1]:
        product = whole[:, step] @ product
    growth = torch.linalg.matrix_norm(product, 2).log().mean() / 4
    assert found.growth == pytest.approx(growth.item(), abs=1e-6)


@pytest.mark.parametrize(("kind", "options"), LAYERS, ids=NAMES)
def test_any_cells_jacobian_is_its_finite_differences(kind: Any, options: dict[str, Any]) -> None:
    layer = kind(2, 4, dtype=DOUBLE, batch_first=True, **options).eval()
    batch = values(2, 5, 2)
    _, _, trace = layer(batch, trace=True)
    found = jacobians(trace[0])
    assert found is not None
    before = [
        part[:, None].detach() for part in (trace[0].hidden[:, 2], *([trace[0].cell[:, 2]] if kind is LSTM else []))
    ]
    state = torch.cat(before, -1).transpose(0, 1)  # (1, B, W)

    def step(flat: torch.Tensor) -> torch.Tensor:
        parts = flat.split(4, -1)
        _, after = layer(batch[:, 3:4], parts if len(parts) > 1 else parts[0])
        return torch.cat(after if isinstance(after, tuple) else (after,), -1)[0].detach()  # (B, W)

    columns = []
    for unit in range(state.shape[-1]):
        nudge = torch.zeros_like(state)
        nudge[..., unit] = 1e-6
        columns.append((step(state + nudge) - step(state - nudge)) / 2e-6)
    whole = torch.stack(columns, -1)  # (B, W out, W in)
    blocks = {"hidden": whole[:, :4, :4], "cell": whole[:, 4:, 4:], "state": whole}
    at = found.steps.tolist().index(3)
    for word, largest in found.largest.items():
        wanted = torch.linalg.matrix_norm(blocks[word], 2).numpy()
        assert np.allclose(largest[at], wanted, rtol=1e-6), word


@pytest.mark.parametrize(("kind", "options"), LAYERS, ids=NAMES)
def test_vector_products_find_what_the_whole_matrix_has(
    kind: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)  # power iteration needs a gap between the two largest singular values
    layer = kind(2, 6, dtype=DOUBLE, batch_first=True, **options)
    _, _, trace = layer(values(3, 8, 2), lengths=torch.tensor([8, 3, 8]), trace=True)
    exact = jacobians(trace[0])
    monkeypatch.setattr(jacobian, "EXACT", 0)
    rough = jacobians(trace[0])
    monkeypatch.setattr(jacobian, "TOLERANCE", 1e-12)
    quick = jacobians(trace[0])
    assert exact is not None and quick is not None and rough is not None
    assert exact.largest["hidden"].shape == (7, 2)  # the two rows that run to the end
    for word in exact.largest:
        assert np.allclose(quick.largest[word], exact.largest[word], rtol=1e-6)
        assert np.allclose(rough.largest[word], exact.largest[word], rtol=1e-3)
    assert quick.growth == pytest.approx(exact.growth, abs=1e-6)


def test_one_step_has_nothing_before_it() -> None:
    _, _, trace = RNN(2, 3, batch_first=True)(torch.randn(1, 1, 2), trace=True)
    assert jacobians(trace[0]) is None


def test_weights_have_their_singular_values() -> None:
    cell = LSTMCell(2, 3, peephole="full", proj_size=2)
    norms = recurrent_norms(cell)
    assert list(norms) == ["all gates", "input", "forget", "candidate", "output", "old cell", "new cell", "projection"]
    wanted = np.linalg.svd(cell.weight_hh[3:6].detach().double().numpy(), compute_uv=False)[0]
    assert norms["forget"] == pytest.approx(wanted, rel=1e-12)
    assert list(recurrent_norms(LSTMCell(2, 3, coupled=True))) == ["all gates", "forget", "candidate", "output"]
