from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from harken.errors import UserError
from harken.inspection import AttentionGrid

LAYERS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4, 5))  # (L, N, T, S)
GRID = AttentionGrid(LAYERS, ["a", "b", "</s>"], ["u", "v", "w", "x", "</s>"], title="five by three")


def test_maps_and_means() -> None:
    np.testing.assert_allclose(GRID.map(1, 2).weights, LAYERS[1, 2])
    np.testing.assert_allclose(GRID.map(layer=1).weights, LAYERS[1].mean(0))
    np.testing.assert_allclose(GRID.map(head=3).weights, LAYERS[:, 3].mean(0))
    np.testing.assert_allclose(GRID.map().weights, LAYERS.mean((0, 1)))
    assert GRID.map(1, 2).title == "five by three: layer 2, head 3"
    assert GRID.map().title == "five by three: mean of all layers and heads"


def test_page_carries_every_weight_and_a_button_for_each() -> None:
    page = GRID.to_html()
    data = re.search(r'<script type="application/json" id="weights">(.*?)</script>', page)
    assert data is not None
    np.testing.assert_allclose(np.array(json.loads(data[1])).reshape(LAYERS.shape) / 1000, LAYERS, atol=0.00051)
    names = re.findall(r'<button [^>]*aria-label="([^"]*)"', page)
    assert len(names) == len(set(names)) == 2 * 4 + 2 + 1
    assert "Layer 2, head 4" in names and page.count('aria-pressed="true"><canvas') == 1
    assert "http" not in page and "&lt;/s&gt;" in page


def test_notebook_frame_holds_the_page_as_text() -> None:
    frame = GRID._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and frame.count("<") == 2


def test_save_and_mistakes(tmp_path: Path) -> None:
    assert GRID.save(tmp_path / "grid.html").read_text(encoding="utf-8") == GRID.to_html()
    with pytest.raises(UserError, match=r"name the file \.html"):
        GRID.save(tmp_path / "grid.png")
    with pytest.raises(UserError, match="There is no head 4; the model has 4"):
        GRID.map(0, 4)
    with pytest.raises(UserError, match=r"shape \(2, 2\); pass layers x heads"):
        AttentionGrid(np.eye(2), ["a", "b"], ["c", "d"])
    with pytest.raises(UserError, match="are 2 x 4 x 5 x 3 but the words ask for 2 x 4 x 1 x 3"):
        AttentionGrid(LAYERS, ["a", "b", "c"], ["d"])
