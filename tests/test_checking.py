"""`check`: the data, the size, the time and the memory of a run that has not begun."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import harken
from harken.checking import check, predict, warnings
from harken.cli.app import app
from harken.errors import UserError
from harken.training.config import TrainConfig
from harken.training.planning import measuring
from harken.training.planning.measuring import Speed

SMALL = ["model.layers=1", "model.width=8", "model.heads=2", "model.feedforward=8"]
SMALL += ["train.validate_every=500", "train.checkpoint_every=500"]
SPEED = Speed(updates=10, seconds_per_update=0.5, tokens_per_update=4000, seconds_per_validation=10.0, memory_bytes=0)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """120 pairs, one of them with an empty side, and ten for a test."""
    lines = [f"word {number} here\tmot {number} ici" for number in range(119)] + ["alone\t"]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "test.tsv").write_text("".join(f"test {number}\tessai {number}\n" for number in range(10)))
    text = (
        f'[data]\nsource = "{tmp_path}/pairs.tsv"\nvalid_size = 9\ntest = {{source = "{tmp_path}/test.tsv"}}\n'
        '[tokenizer]\nkind = "word"\n[model]\narchitecture = "transformer"\n[train]\nmax_steps = 40\n'
        'batch_tokens = 100\nprecision = "float32"\nworkers = 1\n'
    )
    (tmp_path / "my.toml").write_text(text)
    return tmp_path / "my.toml"


def test_the_counts_are_exact(recipe: Path) -> None:
    found = check(recipe, SMALL, measure=False)
    assert found.corpus.startswith("pairs: 110 training pairs, 9 for validation, 10 in test")
    assert "1 train: empty side" in found.facts["lines skipped"]
    assert found.tokens_per_epoch == 110 * 4  # three words and the end
    assert found.updates == 40 and found.seconds is None and found.memory_bytes is None


def test_the_model_is_the_one_that_is_trained(recipe: Path, tmp_path: Path) -> None:
    found = check(recipe, SMALL, measure=False)
    trained = harken.train(recipe, tmp_path / "run", overrides=[*SMALL, "train.max_steps=1"], progress=False)
    assert found.parameters == sum(value.numel() for value in trained.model.parameters())
    for name, value in found.facts.items():
        assert f"| {name} | {value} |" in (tmp_path / "run" / "card.md").read_text()


def test_updates_are_measured(recipe: Path) -> None:
    found = json.loads(
        CliRunner().invoke(app, ["check", str(recipe), "--json", *(p for o in SMALL for p in ("--set", o))]).stdout
    )
    assert found["updates"] == 40 and found["seconds_per_update"] > 0
    assert found["memory_bytes"] > 4 * 4 * found["parameters"]
    checkpoints = (2 + 40 / 500) * found["seconds_per_checkpoint"]  # at the start, at the end, and in between
    apart = found["seconds_to_start"] + found["seconds_per_validation"] + checkpoints
    assert found["seconds"] == pytest.approx(40 * found["seconds_per_update"] + apart)
    assert found["seconds_per_checkpoint"] > 0 and found["seconds_to_start"] >= 0
    assert found["epochs"] == pytest.approx(40 / found["updates_per_epoch"])


def test_the_plan_has_a_reason_for_every_value_that_is_left_open(recipe: Path) -> None:
    checked = check(recipe, ["train.max_steps=100"])
    reasons = {decision.key: (decision.value, decision.reason) for decision in checked.decisions}
    assert reasons["train.validate_sentences"] == (None, "all of them in a run of half an hour or more")
    assert checked.to_dict()["plan"]["train.average"] == {"value": 0.9, "reason": "a window of 1% of the updates"}
    for key, (value, _) in reasons.items():
        table, _, name = key.partition(".")
        assert value == getattr(getattr(checked.recipe, table), name)
    unmeasured = check(recipe, measure=False)
    assert unmeasured.decisions == ()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.source_column=7", "pairs.tsv has 2 columns, but column 7"),
        ("data.source=none.tsv", "none.tsv.*does not exist"),
        ("train.device=cuda:99", "needs a CUDA device|is not a device"),
    ],
)
def test_it_refuses_what_training_refuses(recipe: Path, tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as checked:
        check(recipe, [*SMALL, override])
    with pytest.raises(UserError) as trained:
        harken.train(recipe, tmp_path / "run", overrides=[*SMALL, override], progress=False)
    assert str(checked.value) == str(trained.value)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_examples_is_refused_in_the_same_words(recipe: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "pairs.tsv").write_text(content)
    with pytest.raises(UserError) as checked:
        check(recipe, SMALL)
    with pytest.raises(UserError) as trained:
        harken.train(recipe, tmp_path / "run", overrides=SMALL, progress=False)
    assert str(checked.value) == str(trained.value)


def test_files_of_unequal_length_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.fr").write_text("un\n")
    (tmp_path / "my.toml").write_text(f'[data]\nsource = "{tmp_path}/a.en"\ntarget = "{tmp_path}/a.fr"\n')
    with pytest.raises(UserError, match=r"a\.en has 2 lines but .*a\.fr has 1"):
        check(tmp_path / "my.toml")


def test_a_budget_in_minutes_includes_the_validations() -> None:
    train = TrainConfig(max_minutes=1, validate_every=20)
    assert predict(train, 80.0, SPEED) == (60, 60.0)
    assert predict(train, 80.0, None) == (None, None)
    both = TrainConfig(max_minutes=1, max_epochs=0.5, validate_every=20)
    assert predict(both, 80.0, SPEED) == (40, 40.0)
    assert predict(TrainConfig(max_minutes=1, validate_every=500), 80.0, SPEED) == (100, 60.0)  # one at the end
    assert predict(TrainConfig(max_steps=7), 80.0, None) == (7, None)


def test_a_budget_that_cannot_work_is_said() -> None:
    train = TrainConfig(max_minutes=1, warmup_steps=400)
    inside, part = warnings(train, 5000, 200.0, 87)
    assert "about 87 updates, inside the warm-up of 400" in inside and "about 44% of the training data" in part
    assert warnings(train, 5000, 200.0, 4000) == []
    few, examples = warnings(TrainConfig(max_steps=9, warmup_steps=0), 12, 3.0, 9)[::-1]
    assert "about 9 updates, too few" in few and "only 12 training examples" in examples


def test_vectors_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none"):
        check("phrasebook-tag", ["data.size=50", f"embeddings.elmo={tmp_path / 'none'}"], measure=False)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("opinions-classify", ["data.size=100"]),
        ("phrasebook-tag", ["data.size=100"]),
        ("phrasebook-language", ["data.size=400"]),
        ("phrasebook-masked", ["data.size=200"]),
        ("phrasebook-elmo", ["data.size=200"]),
        ("seasons-forecast", ["data.series=2"]),
        ("tones-transcribe", ["data.size=20", "data.valid_size=5"]),
        ("scenes-caption", ["data.scenes=50"]),
        ("stories-answer", ["data.size=100"]),
        ("penfont-handwriting", ["data.size=50"]),
    ],
)
def test_every_job_is_measured(name: str, overrides: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "MOST_UPDATES", 4)
    found = check(name, [*overrides, "train.workers=1", "train.precision=float32"])
    assert found.speed is not None and found.speed.seconds_per_update > 0
    assert found.updates is not None and found.updates > 0
    assert found.tokens_per_epoch > 0 and found.parameters > 1000


def test_importing_it_loads_no_torch() -> None:
    code = "import sys, harken.checking; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


RUN = """
import json, sys, time
time.perf_counter = time.process_time  # other processes on the machine take no part of it
import harken
from harken.training.planning.measuring import _peak

what, recipe, out, *changes = sys.argv[1:]
if what == "check":
    found = harken.check(recipe, changes)
    print(json.dumps([found.seconds, found.memory_bytes, found.parameters, found.tokens_per_epoch]))
else:
    seen = []
    watch = lambda entry: seen.append((entry, _peak("self") if entry["kind"] == "valid" else 0))
    model = harken.train(recipe, out, overrides=changes, callbacks=[watch], progress=False)
    parameters = sum(value.numel() for value in model.model.parameters())
    tokens = sum(entry.get("tokens", 0) for entry, _ in seen)
    print(json.dumps([seen[-1][0]["seconds"], max(peak for _, peak in seen), parameters, tokens]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe", ["phrasebook-transformer", "phrasebook-attention", "opinions-classify", "phrasebook-language"]
)
def test_a_run_takes_what_was_predicted(recipe: str, tmp_path: Path) -> None:
    """Memory within 30%, CPU time to a factor of 2 (a busy machine stretches it), parameters and tokens exactly."""
    fixed = [
        "train.max_epochs=1", "train.max_minutes=none", "train.max_steps=none", "train.workers=1", "train.device=cpu",
        "train.precision=float32", "train.log_every=1", "train.batch_tokens=1024", "train.validate_every=30",
        "data.size=1500",
    ]  # fmt: skip

    def run(what: str) -> list[float]:
        command = [sys.executable, "-c", RUN, what, recipe, str(tmp_path / "run"), *fixed]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=True)
        found: list[float] = json.loads(done.stdout.splitlines()[-1])
        return found

    predicted, measured = run("check"), run("train")
    assert 0.5 < predicted[0] / measured[0] < 2
    assert predicted[1] == pytest.approx(measured[1], rel=0.3)
    assert predicted[2:] == measured[2:]


@pytest.mark.parametrize(("corpus", "is_planned"), [("opinions", True), ("seasons", False)])
def test_the_plan_has_label_smoothing_only_where_labels_are_smoothed(corpus: str, is_planned: bool) -> None:
    task = {"opinions": "classify", "seasons": "forecast"}[corpus]
    values = {"task": task, "data": {"corpus": corpus, "size": 100}, "train": {"max_steps": 4}}
    keys = [decision.key for decision in check(values).decisions]
    assert "train.warmup_steps" in keys and ("train.label_smoothing" in keys) is is_planned
