"""Model files and checkpoints of earlier versions, whose recurrent layers kept their weights in their cells, load."""

from pathlib import Path

import pytest
import torch
from torch import nn

from harken.errors import UserError
from harken.models.build import build_encoder
from harken.models.recurrent.config import RecurrentEncoderConfig
from harken.training.weights import load_weights, save_tensors, state_of, with_current_names


def encoder() -> nn.Module:
    return build_encoder(RecurrentEncoderConfig(embedding=3, width=4, layers=2, peephole="diagonal", layer_norm=True))


def old_names(model: nn.Module) -> dict[str, str]:
    """name of today -> name in harken 0.1, as its files have them: layers.0.cells.1.weight_ih."""
    names = {}
    for name in state_of(model):
        place, _, weight = name.rpartition(".")
        base, layer, reverse = weight.partition("_l0")
        names[name] = f"{place}.cells.{int(reverse == '_reverse')}.{base}" if layer else name
    return names


def test_a_model_file_of_an_earlier_version(tmp_path: Path) -> None:
    model, names = encoder(), old_names(encoder())
    assert names["layers.1.weight_hh_l0_reverse"] == "layers.1.cells.1.weight_hh"
    assert names["layers.0.cells.0.weight_ch"] == "layers.0.cells.0.weight_ch"
    stored = {names[name]: torch.randn_like(value) for name, value in state_of(model).items()}
    save_tensors(tmp_path / "old.safetensors", stored)
    load_weights(model, tmp_path / "old.safetensors")
    assert all(torch.equal(value, stored[names[name]]) for name, value in state_of(model).items())
    stored["layers.0.cells.7.weight_ih"] = stored.pop("layers.0.cells.0.weight_ih")
    save_tensors(tmp_path / "wrong.safetensors", stored)
    with pytest.raises(UserError, match="does not match"):
        load_weights(model, tmp_path / "wrong.safetensors")


def test_a_checkpoint_of_an_earlier_version() -> None:
    model = nn.ModuleDict({"encoder": encoder()})
    kinds = ("model", "average", "optimizer.exp_avg", "optimizer.step", "carried")
    names = old_names(model)
    stored = {f"{kind}.{old}": torch.zeros(1) for kind in kinds for old in names.values()}
    assert set(with_current_names(model, stored)) == {f"{kind}.{name}" for kind in kinds for name in names}
