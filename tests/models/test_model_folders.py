"""From words in a recipe through training to a folder that translates: networks of mixed and of unusual parts."""

from pathlib import Path

import pytest
import torch

import harken
from harken.recipe import load_recipe

BASE = """
[data]
corpus = "phrasebook"
size = 60
[tokenizer]
kind = "word"
joint = {joint}
[model]
{model}
[train]
max_steps = 3
batch_tokens = 200
validate_every = 3
validate_sentences = 4
precision = "float32"
device = "cpu"
workers = {workers}
threads = 1
"""
TRANSFORMER = """architecture = "transformer"
layers = 1
width = 8
heads = 2
feedforward = 16
"""
RECURRENT = """architecture = "recurrent"
cell = "rnn"
embedding = 8
width = 6
"""
MODELS = {
    "transformer with recurrent decoder": f'{TRANSFORMER}tied = "output"\n[model.decoder]\n{RECURRENT}',
    "recurrent with transformer decoder": f'{RECURRENT}tied = "all"\n[model.decoder]\n{TRANSFORMER}experts = 3\n',
    "decoder-only": f'{TRANSFORMER.replace("transformer", "decoder-only")}positions = "rotary"\n',
    "recurrent": f'{RECURRENT.replace("rnn", "lstm")}coupled = true\nlayers = 3\nbidirectional = "first"\n'
    'connections = "residual"\nconnections_from = 3\n',
}


@pytest.mark.parametrize("title", MODELS)
def test_a_folder_keeps_the_network(title: str, tmp_path: Path) -> None:
    workers = 2 if title == "transformer with recurrent decoder" else 1
    joint = "false" if "output" in MODELS[title] else "true"
    (tmp_path / "mine.toml").write_text(BASE.format(model=MODELS[title], joint=joint, workers=workers))
    trained = harken.train(tmp_path / "mine.toml", tmp_path / "out", progress=False)
    loaded = harken.load(tmp_path / "out")
    assert f", {title}\n" in (tmp_path / "out" / "card.md").read_text()
    assert loaded.recipe.model == trained.recipe.model == load_recipe(tmp_path / "out" / "recipe.toml").model
    for (name, one), (other_name, other) in zip(
        trained.model.named_parameters(), loaded.model.named_parameters(), strict=True
    ):
        assert name == other_name
        assert torch.equal(one, other), name
    one, other = (model.translate("the black cat sleeps", beam=2) for model in (trained, loaded))
    assert (one.text, one.score) == (other.text, other.score)
    assert one.alignment is not None
