"""docs/how-to/extend.md is run from end to end: a job, a cell and a score from outside the package."""

import json
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.lab.ladder import on_rung, rungs_named
from harken.models.recurrent.config import RecurrentEncoderConfig
from harken.models.recurrent.encoder import make_layer
from harken.recipe import as_recipe
from harken.recipe.infer import infer
from harken.registry import CELLS, ENCODERS, METRICS, POSITIONS, SCORES, TASKS, Registry, import_plugin
from harken.serving.app import create_app
from harken.serving.settings import ServerSettings
from harken.studio.jobs import answer, describe_input
from harken.studio.library import Library
from harken.training.loop import Trainer

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "extend.md"
WORDS = ("the", "black", "cat", "sleeps", "old", "dog", "sees", "house", "and", "bird")
TINY = ["train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files of the page and some text; what they register is forgotten again."""
    folder = tmp_path_factory.mktemp("extending")
    job, _, parts, _ = blocks("python")
    (folder / "spaces.py").write_text(job)
    (folder / "parts.py").write_text(parts)
    (folder / "spaces.toml").write_text(next(text for text in blocks("toml") if text.startswith("task")))
    generator = torch.Generator().manual_seed(1)
    for name, count in (("train", 300), ("valid", 20), ("test", 20)):
        rows = torch.randint(len(WORDS), (count, 6), generator=generator).tolist()
        (folder / f"{name}.txt").write_text("".join(" ".join(WORDS[word] for word in row) + "\n" for row in rows))
    registries = (TASKS, CELLS, SCORES, POSITIONS, ENCODERS, METRICS)
    kept, plugins = [dict(registry._registered) for registry in registries], dict(harken.registry._PLUGINS)
    yield folder
    for registry, before in zip(registries, kept, strict=True):
        registry._registered = before
    harken.registry._PLUGINS = plugins


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(place)

    def invoke(*arguments: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == code, done.output
        return done

    return invoke


def changes(*overrides: str) -> list[str]:
    return [part for override in (*TINY, *overrides) for part in ("--set", override)]


def test_the_job_trains_evaluates_and_predicts(run: Callable[..., Any], place: Path) -> None:
    plugin = ("--plugin", "spaces.py")
    done = run(*plugin, "train", "spaces.toml", "--out", "runs/spaces", *changes())
    assert "train.txt: 300 training sentences, 20 for validation" in done.stdout
    assert {"characters.json", "model.safetensors", "card.md"} <= {
        path.name for path in (place / "runs/spaces").iterdir()
    }
    report = json.loads(run(*plugin, "evaluate", "runs/spaces", "--json").stdout)
    assert report["sentences"] == 20 and report["exact match"] > 0.9
    assert (
        "has no split 'dev'; choose --split valid or test"
        in run(*plugin, "evaluate", "runs/spaces", "--split", "dev", code=2).stderr
    )
    model = harken.load(place / "runs/spaces", device="cpu")
    assert model.restore(["theblackcatsleeps", "olddog"]) == ["the black cat sleeps", "old dog"]
    assert repr(model).startswith("Spacer('recurrent', ") and "runs/spaces" in repr(model)


def test_two_runs_of_the_job_are_compared(run: Callable[..., Any], place: Path) -> None:
    plugin = ("--plugin", "spaces.py")
    run(*plugin, "train", "spaces.toml", "--out", "runs/brief", "--quiet", *changes("train.max_steps=30"))
    comparison = json.loads(run(*plugin, "compare", "runs/spaces", "runs/brief", "--split", "test", "--json").stdout)
    (test,) = comparison["tests"]
    assert (test["metric"], test["split"]) == ("exact match", "test") and test["first"] > 90 > test["other"]
    assert set(comparison["recipe"]["train.max_steps"].values()) == {"400", "30"}


def test_the_job_has_a_command(run: Callable[..., Any], place: Path) -> None:
    plugin = ("--plugin", "spaces.py")
    (place / "texts.txt").write_text("theblackcatsleeps\nolddog\n")
    assert "Restore the spaces of text" in run(*plugin, "--help").stdout
    assert run(*plugin, "restore", "runs/spaces", "texts.txt").stdout == "the black cat sleeps\nold dog\n"
    lines = run(*plugin, "predict", "runs/spaces", "texts.txt", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"text": "the black cat sleeps"}, {"text": "old dog"}]
    assert "--json" in run(*plugin, "restore", "--help").stdout


def test_a_further_operation_of_the_job_has_a_command(run: Callable[..., Any], place: Path) -> None:
    plugin = ("--plugin", "spaces.py")
    (place / "texts.txt").write_text("theblackcatsleeps\nolddog\n")
    assert "How probable a space is before every character" in run(*plugin, "--help").stdout
    lines = run(*plugin, "spaces", "runs/spaces", "texts.txt").stdout.splitlines()
    rows = [json.loads(line)["probabilities"] for line in lines]
    assert [index for index, value in enumerate(rows[0]) if value > 0.5] == [3, 8, 11] and len(rows[1]) == 6
    assert "whose job has no 'gates'" in run(*plugin, "gates", "runs/spaces", "texts.txt", code=2).stderr


def test_the_files_of_the_job_are_fingerprinted(place: Path) -> None:
    record = json.loads((place / "runs/spaces/data.json").read_text())
    assert {source["key"] for source in record["files"]} >= {"data.train", "data.valid", "data.test"}


@pytest.mark.parametrize("workers", [0, 1])
def test_the_job_is_served(place: Path, workers: int) -> None:
    import_plugin(str(place / "spaces.py"))
    app = create_app([place / "runs/spaces"], ServerSettings(workers=workers, device="cpu", timeout=300))
    with TestClient(app) as client:
        found = client.post("/v1/restore", json={"text": ["theblackcatsleeps", "olddog"]})
        assert found.json() == {
            "model": "spaces",
            "results": [{"text": "the black cat sleeps"}, {"text": "old dog"}],
        }
        assert client.post("/v1/predict", json={"text": "olddog"}).json()["results"] == [{"text": "old dog"}]
        (result,) = client.post("/v1/spaces", json={"text": "olddog"}).json()["results"]
        assert [value > 0.5 for value in result["probabilities"]] == [False, False, False, True, False, False]
        assert client.post("/v1/spaces", json={"text": "olddog", "model": "none"}).status_code == 400
        wrong = client.post("/v1/restore", json={"texts": "olddog"})
        assert wrong.status_code == 422 and "text" in wrong.json()["error"]
        assert client.get("/v1/models").json()["models"][0]["operations"] == ["restore", "spaces"]


def test_the_job_has_a_form_in_the_studio(place: Path) -> None:
    import_plugin(str(place / "spaces.py"))
    library = Library({"spaces": place / "runs/spaces"}, device="cpu")
    (described,) = library.models()
    assert described["reads_text"]
    opened = library.open("spaces", "restore")
    with pytest.raises(harken.UserError, match="'spaces', whose job has no 'beam'"):
        library.open("spaces", "beam")
    takes = describe_input(opened)
    assert (takes["verb"], takes["example"], takes["options"]) == ("restore", "theblackcatsleeps", {})
    assert answer(opened, "olddog")["rows"] == [{"name": "old dog"}]


def test_the_job_has_an_estimator(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV
    from sklearn.utils.estimator_checks import check_estimator

    monkeypatch.chdir(place)
    import_plugin("spaces.py")
    names: dict[str, Any] = {}
    exec(blocks("python")[1], names)
    assert len(names["model"].predict(["word1word2"])) == 1 and (place / "runs/estimated/characters.json").is_file()
    texts = (place / "train.txt").read_text().splitlines()
    model = clone(names["Spaces"](max_iter=250, random_state=1, train={"learning_rate": 5e-3})).fit(texts)
    again = pickle.loads(pickle.dumps(model))
    for estimator in (model, again):
        assert estimator.predict(["theblackcatsleeps", "olddog"]).tolist() == ["the black cat sleeps", "old dog"]
    assert again.score(texts[:50]) == model.score(texts[:50]) > 0.9
    search = GridSearchCV(names["Spaces"](max_iter=2, random_state=1), {"train__learning_rate": [1e-3, 1e-2]}, cv=2)
    assert search.fit(texts[:40]).best_params_.keys() == {"train__learning_rate"}
    with pytest.raises(ValueError, match=r"did you mean data\.train\?"):
        names["Spaces"](data={"trian": "x"}).fit(texts)
    with pytest.raises(ValueError, match="Invalid parameter 'modell'"):
        model.set_params(modell__width=3)
    check_estimator(names["Spaces"]())


def test_the_job_is_inferred_and_reads_tables(place: Path, tmp_path: Path) -> None:
    import_plugin(str(place / "spaces.py"))
    assert infer(place / "train.txt", task="spaces").data == {"train": str(place / "train.txt")}
    rows = [json.dumps({"name": f"x{number}", "text": f"the old cat sleeps {number} times"}) for number in range(40)]
    (tmp_path / "lines.jsonl").write_text("\n".join(rows))
    inferred = infer(tmp_path / "lines.jsonl", task="spaces")
    assert inferred.task == "spaces" and [*inferred.conversions["train"].lines()][39] == "the old cat sleeps 39 times"
    table = {"text": ["the old cat sleeps", "the old dog sees a house"] * 20}
    short = [*TINY, "train.max_steps=2", "train.max_minutes=none"]
    model = harken.train("spaces", tmp_path / "out", data=table, overrides=short, progress=False)
    assert model.recipe.task == "spaces" and len(model.restore(["olddog"])) == 1


def test_a_reference_names_the_job_too(run: Callable[..., Any], place: Path) -> None:
    plugin = ("--plugin", "spaces.py")
    text = (place / "spaces.toml").read_text().replace('task = "spaces"', 'task = "spaces:SpacesJob"')
    (place / "reference.toml").write_text(text)
    run(*plugin, "train", "reference.toml", "--out", "runs/reference", "--quiet", *changes("train.max_steps=2"))
    assert 'task = "spaces:SpacesJob"' in (place / "runs/reference/recipe.toml").read_text()
    assert type(harken.load(place / "runs/reference", device="cpu")).__name__ == "Spacer"
    (place / "texts.txt").write_text("olddog\n")
    for verb in ("restore", "predict"):
        assert len(run(*plugin, verb, "runs/reference", "texts.txt").stdout.splitlines()) == 1


def test_own_cells_are_rungs_of_the_ladder(place: Path) -> None:
    import_plugin(str(place / "parts.py"))
    found = rungs_named(["forget-only", "lstm", "parts:ForgetOnlyCell-attention"])
    assert [(rung.name, rung.words["cell"], rung.words["attention"]) for rung in found] == [
        ("lstm", "lstm", "none"),
        ("forget-only", "forget-only", "none"),
        ("parts.ForgetOnlyCell-attention", "parts:ForgetOnlyCell", "additive"),
    ]
    recipe = on_rung(as_recipe("phrasebook-attention"), found[2])
    assert recipe.model.cell == "parts:ForgetOnlyCell"


def test_results_do_not_depend_on_the_batch(run: Callable[..., Any], place: Path) -> None:
    model = harken.load(place / "runs/spaces", device="cpu")
    texts = ["theblackcatsleeps", "old", "thebirdandtheolddogseesthehouse"]
    assert model.restore(texts) == [model.restore([text])[0] for text in texts]


def test_two_workers_train_what_one_trains(run: Callable[..., Any], place: Path) -> None:
    import_plugin(str(place / "spaces.py"))
    losses = []
    for workers in (1, 2):
        changed = [
            *TINY,
            "train.max_steps=3",
            "train.validate_every=3",
            "model.dropout=0.0",
            f"train.workers={workers}",
        ]
        out = place / f"runs/workers{workers}"
        harken.train(place / "spaces.toml", out, overrides=changed, progress=False)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        losses.append(next(line["loss"] for line in lines if line["kind"] == "valid"))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_killed_run_of_the_job_resumes_to_the_same_weights(
    run: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_plugin(str(place / "spaces.py"))
    changed = [*TINY, "train.max_steps=8", "train.validate_every=4", "train.checkpoint_every=2"]
    whole = harken.train(place / "spaces.toml", place / "runs/whole", overrides=changed, progress=False)
    update = Trainer._update

    def cut_off(self: Trainer, batches: Any) -> None:
        if self.progress.step == 5:
            raise RuntimeError("power cut")
        update(self, batches)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", cut_off)
        with pytest.raises(RuntimeError, match="power cut"):
            harken.train(place / "spaces.toml", place / "runs/cut", overrides=changed, progress=False)
    resumed = harken.train(place / "spaces.toml", place / "runs/cut", overrides=changed, resume=True, progress=False)
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_check_says_what_it_knows_of_the_job(run: Callable[..., Any]) -> None:
    wrong = run("--plugin", "spaces.py", "check", "spaces.toml", "--set", "data.trian=x", code=2)
    assert "did you mean data.train?" in wrong.stderr
    found = run("--plugin", "spaces.py", "check", "spaces.toml", "--no-measure").stdout
    assert "spaces.toml is valid" in found


@pytest.mark.slow
def test_the_cell_and_the_score_translate(run: Callable[..., Any], place: Path) -> None:
    small = ["data.size=100", "model.width=8", "model.embedding=8", "train.max_steps=2", "train.validate_sentences=4"]
    chosen = ["model.cell=forget-only", "model.attention=distance"]
    plugin = ("--plugin", "parts.py")
    run(*plugin, "train", "phrasebook-attention", "--out", "runs/mine", "--quiet", *changes(*small, *chosen))
    model = harken.load(place / "runs/mine", device="cpu")
    assert {"ForgetOnlyCell", "DistanceScore"} <= {type(module).__name__ for module in model.model.modules()}
    best = model.translate("the black cat sleeps")
    assert best.attention.shape == (len(best.target_words), 4)
    assert run(*plugin, "check", "phrasebook-attention", *changes(*chosen)).exit_code == 0
    own = ("--metric", "same length", "--metric", "parts:same_length")
    report = json.loads(run(*plugin, "evaluate", "runs/mine", "--split", "valid", *own, "--json").stdout)
    assert 0 <= report["same length"] <= 1 and report["parts:same_length"] == report["same length"]
    wrong = run("evaluate", "runs/mine", "--metric", "nothing", code=2)
    assert "metric is 'nothing', which is not known" in wrong.stderr
    assert "ForgetOnly" in run(*plugin, "inspect", "runs/mine").stdout
    assert "forget" in run(*plugin, "inspect", "runs/mine", "--gates", "the black cat sleeps").stdout


def test_the_positions_and_the_encoder(run: Callable[..., Any], place: Path) -> None:
    plugin = ("--plugin", "parts.py", "train")
    tiny = ["data.size=60", "train.max_steps=2", "train.max_epochs=none"]
    shape = 'model={architecture = "transformer", width = 8, heads = 2, layers = 1, feedforward = 8, positions = "%s"}'
    for number, name in enumerate(("near", "parts:NearPositions")):
        run(*plugin, "opinions-classify", "--out", f"runs/near{number}", "--quiet", *changes(*tiny, shape % name))
    near = harken.load(place / "runs/near1", device="cpu", plugins=[str(place / "parts.py")])
    assert sum(type(module).__name__ == "NearPositions" for module in near.model.modules()) == 1
    own = 'model={architecture = "own", encoder = "windows", embedding = 8, options = {width = 10, reach = 2}}'
    run(*plugin, "opinions-classify", "--out", "runs/windows", "--quiet", *changes(*tiny, own))
    model = harken.load(place / "runs/windows", device="cpu")
    texts = ["good", "the film was not bad at all"]
    alone = [model.predict_proba([text])[0] for text in texts]
    assert model.predict_proba(texts) == pytest.approx(np.array(alone), abs=1e-6)  # padding changes nothing


def test_the_module_of_the_page_is_trained(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    names: dict[str, Any] = {}
    exec(blocks("python")[3], names)
    values = torch.rand(20, 5, 1)
    assert names["loss"](names["model"], (values, values.sum((1, 2)))).item() < 0.05


def test_the_cell_pools_and_classifies(run: Callable[..., Any], place: Path) -> None:
    import_plugin(str(place / "parts.py"))
    small = ["data.size=60", "model.width=8", "model.embedding=8", "train.max_steps=2", "train.max_epochs=none"]
    chosen = ["model.cell=forget-only", "classifier.score=distance"]
    out = place / "runs/opinions"
    model = harken.train("opinions-classify", out, overrides=[*TINY, *small, *chosen], progress=False)
    assert model.predict_proba(["the film was good", "bad"]).sum(1) == pytest.approx([1, 1])


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_layer_of_the_cell_is_its_steps_and_padding_changes_nothing(place: Path, bidirectional: bool) -> None:
    import_plugin(str(place / "parts.py"))
    torch.manual_seed(2)
    layer = make_layer(RecurrentEncoderConfig(cell="forget-only"), 3, 10 if bidirectional else 5, bidirectional)
    values = torch.randn(2, 6, 3)
    output, _ = layer(values, lengths=torch.tensor([6, 4]))
    alone, _ = layer(values[1:, :4])
    assert torch.allclose(output[1, :4], alone[0], atol=1e-6)
    if not bidirectional:
        state = (torch.zeros(2, 5),)
        for step in range(6):
            state = layer.cells[0].step(values[:, step], state).state
        assert torch.allclose(output[0, -1], state[0][0], atol=1e-6)


def test_names_that_are_not_known_are_refused(run: Callable[..., Any]) -> None:
    wrong = run("check", "phrasebook-attention", "--set", "model.cell=lsmt", code=2)
    assert 'model.cell is "lsmt"' in wrong.stderr and 'did you mean "lstm"?' in wrong.stderr
    assert "the plugin nothing.py does not exist" in run("--plugin", "nothing.py", "recipes", code=2).stderr
    assert "the plugin no_such_module is not installed" in run("--plugin", "no_such_module", "recipes", code=2).stderr


def test_a_model_whose_plugin_is_missing_names_the_option(
    run: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = ("--plugin", "parts.py", "train", "opinions-classify", "--quiet", "--out")
    tiny = ["data.size=60", "train.max_steps=2", "train.max_epochs=none", "model.width=8", "model.embedding=8"]
    run(*plugin, "runs/own-cell", *changes(*tiny, "model.cell=forget-only"))
    for registry in (TASKS, CELLS):
        monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(harken.registry, "_PLUGINS", {})
    (place / "runs/own-job").mkdir()
    (place / "runs/own-job/recipe.toml").write_text('task = "spaces"\n')
    (place / "runs/own-job/model.safetensors").touch()
    for folder in ("runs/own-cell", "runs/own-job"):
        with pytest.raises(harken.UserError, match=r'--plugin MODULE, or plugins=\["MODULE"\] in Python'):
            harken.load(place / folder)
        for verb in ("inspect", "evaluate", "predict"):
            assert "--plugin MODULE" in run(verb, folder, code=2).stderr
    harken.load(place / "runs/own-cell", device="cpu", plugins=[str(place / "parts.py")])


def test_what_ships_cannot_be_replaced() -> None:
    with pytest.raises(ValueError, match="cell 'lstm' ships with harken"):
        harken.register_cell("lstm")


def test_entry_points_are_found_without_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    entry = EntryPoint("ordered", "collections:OrderedDict", "harken.example")
    monkeypatch.setattr("harken.registry.entry_points", lambda group: [entry] if group == "harken.example" else [])
    registry = Registry("thing", "harken.example", {})
    assert "ordered" in registry and registry.names() == ["ordered"]
    assert registry.find("ordered").__name__ == "OrderedDict"
