"""Every job can be looked into from the command line: attention, gates over time, the flow of gradients."""

import json
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.inspection import gradient_flow

SHORT = [
    "train.max_steps=2",
    "train.max_epochs=none",
    "train.max_minutes=none",
    "train.workers=1",
    "train.device=cpu",
    "train.precision=float32",
]
TEXTS = {
    "opinions-classify": "the film was not good",
    "phrasebook-tag": "the black cat sleeps",
    "phrasebook-language": "the black cat sleeps",
    "phrasebook-masked": "the black [MASK] sleeps",
    "seasons-forecast": "shop 1",
    "stories-answer": "Anna took the key. Anna went to the hall. Where is the key?",
    "penfont-handwriting": "hello",
}
BOTH = "opinions-classify"  # written in every form here; the forms of each picture are tested in tests/inspection
LAYERS = {  # recipe -> its recurrent layers, in the order in which they read
    "opinions-classify": ["reader.encoder.layers.0 →", "reader.encoder.layers.0 ←"],
    "gestures-classify": ["reader.encoder.layers.0 →", "reader.encoder.layers.0 ←"],
    "phrasebook-tag": ["reader.encoder.layers.0 →", "reader.encoder.layers.0 ←"],
    "phrasebook-language": ["layers.0"],
    "seasons-forecast": ["members.0.encoder.layers.0"],
    "tones-transcribe": ["encoder.layers.0 →", "encoder.layers.0 ←"],
    "stories-answer": [
        "hops.reader.layer →",
        "hops.reader.layer ←",
        "hops.reader.layer → call 2",
        "hops.reader.layer ← call 2",
    ],
    "scenes-caption": ["decoder"],
    "penfont-handwriting": ["first", "upper.0"],
}
every_recurrent_job = pytest.mark.parametrize("recipe", LAYERS)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each job reads."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("inputs")
    random = np.random.default_rng(0)
    np.savez(folder / "signal.npz", values=random.normal(size=(1, 12, 2)), labels=np.array(["tick"]))
    Image.fromarray(random.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(folder / "picture.png")
    with wave.open(str(folder / "sound.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes((3000 * random.normal(size=6000)).astype("<i2").tobytes())
    files = {"gestures-classify": "signal.npz", "tones-transcribe": "sound.wav", "scenes-caption": "picture.png"}
    return {**TEXTS, **{recipe: str(folder / name) for recipe, name in files.items()}}


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@every_recurrent_job
def test_gates(recipe: str, tiny_model: Callable[[str], Path], inputs: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "gates.svg"
    done = run("inspect", tiny_model(recipe), "--gates", inputs[recipe], "--json", "--out", out)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [layer["name"] for layer in found["layers"]] == LAYERS[recipe]
    for layer in found["layers"]:
        assert layer["words"]
        for gate in layer["gates"].values():
            assert len(gate["mean"]) == len(layer["words"]) and np.isfinite(gate["mean"]).all()
    assert out.read_text(encoding="utf-8").startswith("<svg")


def test_what_stands_at_the_steps(tiny_model: Callable[[str], Path], inputs: dict[str, str]) -> None:
    def words(recipe: str, layer: int = 0) -> list[str]:
        done = run("inspect", tiny_model(recipe), "--gates", inputs[recipe], "--json")
        return list(json.loads(done.stdout)["layers"][layer]["words"])

    assert words("opinions-classify") == ["the", "film", "was", "not", "good", "</s>"]
    assert words("gestures-classify") == [str(step) for step in range(1, 13)]
    assert words("tones-transcribe")[:3] == ["0.00", "0.03", "0.06"]
    assert words("stories-answer", 2) == ["where", "is", "the", "key"]
    assert words("scenes-caption")[0] == "<s>"
    assert set(words("penfont-handwriting")) <= {*"hello", "end"}


@every_recurrent_job
def test_gradients(recipe: str, tiny_model: Callable[[str], Path]) -> None:
    done = run("inspect", tiny_model(recipe), "--gradients", "--split", "valid", "--sentences", 3, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    (model,) = found["models"].values()
    assert found["sentences"] == 3 and np.isfinite(model["loss"]) and model["loss"] > 0
    assert [layer["name"] for layer in model["layers"]] == LAYERS[recipe]
    reached = [layer["gradient_by_distance"]["hidden"] for layer in model["layers"]]
    assert all(curve and max(curve) > 0 for curve in reached)


@pytest.mark.parametrize(
    ("recipe", "ending"),
    [
        *((recipe, ".svg") for recipe in (*LAYERS, "phrasebook-masked")),
        *((BOTH, ending) for ending in (".png", ".html")),
    ],
)
def test_attention(
    recipe: str, ending: str, tiny_model: Callable[[str], Path], inputs: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / f"picture{ending}"
    done = run("attention", tiny_model(recipe), inputs[recipe], "--out", out)
    assert done.exit_code == 0, done.output
    assert done.stdout.strip()
    assert out.stat().st_size > 300


RECURRENT = "model={architecture='recurrent', cell='gru', width=8, embedding=8, bidirectional=true}"
REGRESSION = """
task = "regress"
[data]
train = "given as a table"
[model]
architecture = "recurrent"
width = 8
embedding = 8
[train]
max_steps = 2
workers = 1
device = "cpu"
"""


def test_a_recurrent_reader_of_gaps(tmp_path: Path) -> None:
    folder = tmp_path / "masked"
    harken.train("phrasebook-masked", folder, overrides=[*SHORT, "data.size=60", RECURRENT], progress=False)
    done = run("inspect", folder, "--gates", "the black [MASK] sleeps", "--json")
    layers = json.loads(done.stdout)["layers"]
    assert len(layers) == 2 and layers[0]["words"][2:] == ["[MASK]", "sleeps", "</s>"]
    done = run("inspect", folder, "--gradients", "--sentences", 3, "--json")
    assert done.exit_code == 0, done.output


def test_a_regressor(tmp_path: Path) -> None:
    recipe = tmp_path / "regress.toml"
    recipe.write_text(REGRESSION)
    table = {"text": [f"{number} rooms" for number in range(40)], "label": list(range(40))}
    model = harken.train(recipe, tmp_path / "model", data=table, progress=False)
    done = run("inspect", tmp_path / "model", "--gates", "3 rooms", "--json")
    assert json.loads(done.stdout)["layers"][0]["words"] == ["3", "rooms", "</s>"]
    done = run("attention", tmp_path / "model", "3 rooms", "--out", tmp_path / "weights.svg")
    assert done.exit_code == 0 and "rooms" in done.stdout
    flow = gradient_flow(model, [("3 rooms", 3.0), ("20 rooms of any kind", 20.0)])
    expected = sum(
        ((model.predict([text])[0] - number) / float(model.model.deviation[0])) ** 2
        for text, number in [("3 rooms", 3.0), ("20 rooms of any kind", 20.0)]
    )
    assert flow.loss == pytest.approx(expected, rel=1e-4)


def test_without_recurrent_layers_another_command_is_named(
    tiny_model: Callable[[str], Path], inputs: dict[str, str]
) -> None:
    folder = tiny_model("phrasebook-masked")
    done = run("inspect", folder, "--gates", "the black cat")
    assert done.exit_code == 2
    assert done.output.strip().endswith(f"use: harken attention {folder} 'the black cat'")
    done = run("inspect", folder)
    assert done.stderr.strip().endswith(f"harken attention {folder} 'the black [MASK] sleeps'")


def test_a_wrong_split_is_answered_with_those_there_are(tiny_model: Callable[[str], Path]) -> None:
    for recipe in ("opinions-classify", "stories-answer", "scenes-caption", "penfont-handwriting", "tones-transcribe"):
        done = run("inspect", tiny_model(recipe), "--gradients", "--split", "tset")
        assert done.exit_code == 2 and "no split 'tset'" in done.output and "valid" in done.output, recipe


def test_padding_changes_no_loss(tiny_model: Callable[[str], Path]) -> None:
    """The loss of a batch is the sum of those of its rows, each for itself."""
    from harken.inspection.measures.running import run, unwrap
    from harken.tasks.registry import job_of

    for recipe in ("opinions-classify", "tones-transcribe", "stories-answer", "scenes-caption", "penfont-handwriting"):
        model = harken.load(tiny_model(recipe), "cpu")
        some = job_of(model.recipe.task).examples(model, "valid")[:3]
        for loss in ("last", "all"):
            together = float(run(*unwrap(model, some), loss).detach())
            alone = sum(float(run(*unwrap(model, [one]), loss).detach()) for one in some)
            assert together == pytest.approx(alone, rel=1e-4), (recipe, loss)
