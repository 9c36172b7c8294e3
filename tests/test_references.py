"""Recipes name parts of other packages as "module:Name", and loading a model folder imports nothing by itself."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import harken
from harken import registry
from harken.recipe import load_recipe

CELL = '''
from pathlib import Path

import torch
from torch import Tensor, nn

from harken.models.base import Encoder, Memory
from harken.nn import AttentionPositions, Cell, Products, Step, length_mask

Path(__file__).with_suffix(".imported").touch()


class Leaky(Cell):
    """h' = 0.5 h + 0.5 tanh(W x + U h + b)"""

    def __init__(self, input_size, hidden_size, layer_norm=False):
        super().__init__("leaky", input_size, hidden_size, gates=1)
        self.draw()

    def weights(self):
        return self.weight_ih, self.weight_hh, self.summed_bias()

    def step(self, x, state, products=None, keep=None):
        linear = products or Products(self)
        W, U, b = linear.weights
        (h,) = state
        n = torch.tanh(linear(x, W, b) + linear(h if keep is None else h * keep, U))
        return Step((0.5 * h + 0.5 * n,), {"candidate": n})


class Near(AttentionPositions):
    """Subtracts the distance from the scores."""

    def __init__(self, head_width, heads):
        super().__init__()

    def functions(self, score, targets, sources, given=None):
        found = super().functions(score, targets, sources, given)
        gap = (torch.arange(sources) - torch.arange(sources - targets, sources)[:, None]).abs()
        return found._replace(bias=lambda query, key: -gap.to(query))


class Ramp(nn.Module):
    """Adds the number of the position to the first feature."""

    def __init__(self, width, length):
        super().__init__()
        self.width = width

    def forward(self, length, start=0):
        first = torch.eye(1, self.width)[0]
        return torch.arange(start, start + length)[:, None] * first


class Bag(Encoder):
    """Every position on its own."""

    def __init__(self, embedding, width=6):
        super().__init__()
        self.project, self.width = nn.Linear(embedding, width), width

    def forward(self, embedded: Tensor, lengths, distances=None):
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        return Memory(torch.tanh(self.project(embedded)), mask)


class NoCell:
    pass
'''
TINY = ["data.size=60", "train.max_steps=2", "train.validate_every=2", "train.precision=float32", "train.workers=1"]
CLASSIFIER = {
    "task": "classify",
    "data": {"corpus": "opinions", "size": 60},
    "train": {"max_steps": 2, "validate_every": 2, "precision": "float32", "workers": 1},
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An importable module that marks its import with a file."""
    (tmp_path / "evil_parts.py").write_text(CELL)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_PLUGINS", {})
    yield tmp_path / "evil_parts.imported"
    sys.modules.pop("evil_parts", None)


def recurrent(cell: str) -> dict[str, Any]:
    return {**CLASSIFIER, "model": {"architecture": "recurrent", "cell": cell, "embedding": 4, "width": 4}}


def test_nothing_in_a_folder_or_a_recipe_imports_a_module(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    harken.train(recurrent("gru"), folder, progress=False)
    (folder / "digests.json").unlink()  # who writes a recipe for others can leave it out
    recipe = (folder / "recipe.toml").read_text()
    assert 'cell = "gru"' in recipe
    for reference in ("evil_parts:Leaky", "evil_parts:NoCell", "evil_parts.deeper:x", ":x", "os:system", "evil_parts:"):
        (folder / "recipe.toml").write_text(recipe.replace('cell = "gru"', f'cell = "{reference}"'))
        with pytest.raises(harken.UserError, match="cell is"):
            harken.load(folder)
        with pytest.raises(harken.UserError, match="cell is"):
            harken.check(folder / "recipe.toml")
    assert not package.exists() and "evil_parts" not in sys.modules
    with pytest.raises(harken.UserError, match=r"if you trust evil_parts.*--plugin evil_parts"):
        harken.train(recurrent("evil_parts:Leaky"), tmp_path / "other")
    assert not package.exists()


def test_imported_objects_that_are_no_parts_are_refused(package: Path) -> None:
    for reference, words in (
        ("os:system", "no class derived from harken.nn.recurrent.cell.Cell"),
        ("subprocess:Popen", "no class derived"),
        ("torch.nn:LSTM", "no class derived"),
        ("harken.nn:LSTMCel", "did you mean harken.nn:LSTMCell"),
    ):
        with pytest.raises(harken.UserError, match=words):
            registry.CELLS.find(reference)
    with pytest.raises(harken.UserError, match="imports no module"):  # anything callable would do as a metric
        registry.METRICS.find("subprocess:run")


def test_a_named_plugin_is_followed_and_needed_again_for_loading(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    model = harken.train(recurrent("evil_parts:Leaky"), folder, plugins=["evil_parts"], progress=False)
    assert package.exists() and 'cell = "evil_parts:Leaky"' in (folder / "recipe.toml").read_text()
    again = harken.load(folder, device="cpu", plugins=["evil_parts"])
    texts = ["the film was good"]
    assert torch.equal(torch.tensor(model.predict_proba(texts)), torch.tensor(again.predict_proba(texts)))
    sys.modules.pop("evil_parts")
    registry._PLUGINS.clear()
    with pytest.raises(harken.UserError, match="imports no module"):
        harken.load(folder)
    import evil_parts  # type: ignore[import-not-found]  # noqa: F401

    assert harken.load(folder, device="cpu").predict(texts) == model.predict(texts)  # imported by the user
    sys.modules.pop("evil_parts")
    from_file = harken.load(folder, device="cpu", plugins=[str(tmp_path / "evil_parts.py")])
    assert from_file.predict(texts) == model.predict(texts)


@pytest.mark.parametrize("positions", ["Near", "Ramp"])
def test_positions(package: Path, tmp_path: Path, positions: str) -> None:
    model = {"architecture": "transformer", "layers": 1, "width": 4, "heads": 2, "feedforward": 4}
    recipe = {**CLASSIFIER, "model": {**model, "positions": f"evil_parts:{positions}"}}
    found = harken.train(recipe, tmp_path / "run", plugins=["evil_parts"], progress=False)
    assert positions in {type(module).__name__ for module in found.model.modules()}
    stack = found.model.reader.encoder.stack
    values = torch.randn(1, 5, 4)
    with torch.no_grad():
        moved = stack(values[:, [1, 0, 2, 3, 4]])[:, [1, 0, 2, 3, 4]]
    assert not torch.allclose(moved, stack(values), atol=1e-4)  # the order counts


def test_encoders(package: Path, tmp_path: Path) -> None:
    table = {"architecture": "own", "encoder": "evil_parts:Bag", "embedding": 4, "options": {"width": 10}}
    found = harken.train({**CLASSIFIER, "model": table}, tmp_path / "run", plugins=["evil_parts"], progress=False)
    assert found.model.reader.width == 10 and "evil_parts:Bag" in repr(found)
    table["options"] = {"widht": 10}
    with pytest.raises(harken.UserError, match=r"model\.options do not fit evil_parts:Bag.*widht"):
        harken.train({**CLASSIFIER, "model": table}, tmp_path / "other", plugins=["evil_parts"], progress=False)
    own = ["model={architecture = 'own', encoder = 'evil_parts:Bag', embedding = 8, tied = 'output'}", *TINY]
    with pytest.raises(harken.UserError, match=r"add a table \[model.decoder\]"):
        load_recipe("phrasebook-attention", own)
    decoder = "model.decoder={architecture = 'recurrent', embedding = 8, width = 8}"
    translator = harken.train("phrasebook-attention", tmp_path / "pairs", overrides=[*own, decoder], progress=False)
    best = translator.translate("the black cat sleeps")
    assert best.attention.shape[1] == 4


def test_every_registry_takes_a_decorator() -> None:
    kinds = {"task", "cell", "score", "positions", "encoder", "metric"}
    for kind in kinds:
        known: registry.Registry = getattr(registry, f"register_{kind}").__self__
        assert getattr(harken, f"register_{kind}") == known.register and known.kind == kind
