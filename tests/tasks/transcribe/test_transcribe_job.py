"""Transcription from recipe to object: trained, loaded, resumed, scored, drawn, and what bad input gets."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.data.audio.recordings import resample, write_wav
from harken.data.synthetic.tone_speech import ToneSpeech
from harken.errors import UserError
from harken.recipe import load_recipe
from harken.tasks.registry import job_of
from harken.tasks.transcribe.splits import read_splits
from harken.tasks.transcribe.task import TranscribeTask, training_frames
from harken.tasks.transcribe.transcriber import Transcriber
from harken.training.loop import Trainer
from harken.training.task import batch_loss

SMALL = [
    "data.size=40",
    "data.valid_size=10",
    "data.test_size=10",
    "model.embedding=24",
    "model.width=32",
    "train.max_minutes=none",
    "train.max_steps=6",
    "train.validate_every=3",
    "train.batch_tokens=300",
    "train.workers=1",
    "train.threads=1",
    "train.precision=float32",
    "train.device=cpu",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A barely trained model."""
    out = tmp_path_factory.mktemp("tones") / "model"
    harken.train("tones-transcribe", out, overrides=SMALL, progress=False)
    return out


@pytest.fixture(scope="module")
def model(folder: Path) -> Transcriber:
    found: Transcriber = harken.load(folder, device="cpu")
    return found


@pytest.fixture(scope="module")
def talkative(model: Transcriber) -> Transcriber:
    """The same, that says nothing less readily: so little training hears only blanks."""
    changed = deepcopy(model)
    with torch.no_grad():
        changed.model.output.bias[0] -= 4.0
    return changed


def task_of(folder: Path, *overrides: str) -> TranscribeTask:
    recipe = load_recipe("tones-transcribe", [*SMALL, *overrides])
    torch.manual_seed(recipe.train.seed)
    task: Any = job_of("transcribe").prepare(recipe, folder, False).task
    return task


def test_the_folder_holds_all_and_gives_the_trained_model(folder: Path, model: Transcriber, tmp_path: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names >= {"model.safetensors", "recipe.toml", "symbols.json", "language.json", "card.md"}
    task = task_of(tmp_path)
    Trainer(task, load_recipe(folder / "recipe.toml").train, tmp_path).run()
    sound = ToneSpeech(1, 9).samples(0, 0)
    again = harken.load(folder, device="cpu").posteriors(sound).values
    np.testing.assert_array_equal(again, model.posteriors(sound).values)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    ours = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [line["loss"] for line in ours]


def test_a_run_cut_in_two_ends_as_one_that_was_not(folder: Path, ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("tones-transcribe", SMALL, at=4, whole=folder)


def test_an_example_is_a_function_of_its_number(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    task.model.eval()  # no dropout
    later = np.concatenate(list(task.epoch(2)))
    assert sorted(later.tolist()) == list(range(80, 120))
    batch = later[:4]
    first, again = batch_loss(task, batch).detach(), batch_loss(task, batch).detach()
    assert first == again
    assert batch_loss(task, batch - 80).detach() != first  # another epoch, other utterances
    shares = task.share(batch, 2)
    assert sorted(np.concatenate(shares).tolist()) == sorted(batch.tolist())
    together = sum(batch_loss(task, share).detach() for share in shares)
    torch.testing.assert_close(together, first)  # padding and neighbours change nothing
    assert task.size(batch) == sum(len(task.train.text(2, int(number) - 80)) for number in batch)


def test_recordings_are_changed_little_by_little(tmp_path: Path) -> None:
    plain = task_of(tmp_path / "plain", "augment.stretch=0", "augment.frequency_masks=0")
    eased = task_of(tmp_path / "eased", "augment.ease=2", "augment.gain_db=0", "augment.noise_db=[0,1]")
    eased.model.load_state_dict(plain.model.state_dict())
    for task in (plain, eased):
        task.model.eval()
    for epoch, same in ((0, True), (2, False)):  # the first of two: none; after them: all
        batch = np.arange(4) + epoch * len(plain.train)
        assert bool(batch_loss(plain, batch) == batch_loss(eased, batch)) is same


def test_stretching_never_leaves_too_few_steps() -> None:
    recipe = load_recipe("tones-transcribe", ["augment.stretch=0.5", "augment.speed=0.5"])
    samples = np.random.default_rng(0).normal(size=8000).astype(np.float32)
    plain = load_recipe("tones-transcribe", ["augment.stretch=0"])
    steps = int(training_frames([samples], plain, [1], [np.random.default_rng(0)])[1])
    generators = [np.random.default_rng(seed) for seed in range(20)]
    _, lengths = training_frames([samples] * 20, recipe, [steps] * 20, generators)
    assert int(lengths.min()) >= steps and len(set(lengths.tolist())) > 5


def test_training_frames_of_a_batch_are_those_of_its_recordings_alone() -> None:
    recipe = load_recipe("tones-transcribe", ["augment.stretch=0.2", "augment.speed=0.1", "augment.gain_db=6"])
    speech = ToneSpeech(6, 4)
    sounds = [speech.samples(0, index) for index in range(6)]

    def generators() -> list[np.random.Generator | None]:
        return [np.random.default_rng(seed) if seed % 3 else None for seed in range(6)]

    frames, lengths = training_frames(sounds, recipe, [1] * 6, generators())
    for number, random in enumerate(generators()):
        alone, count = training_frames([sounds[number]], recipe, [1], [random])
        assert torch.equal(frames[number, : int(lengths[number])], alone[0]) and int(count) == int(lengths[number])


def test_one_recording_alone_and_among_others(talkative: Transcriber, tmp_path: Path) -> None:
    speech = ToneSpeech(5, 4)
    sounds = [speech.samples(0, index) for index in range(5)]
    together = talkative.transcribe(sounds, beam=4)
    for sound, found in zip(sounds, together, strict=True):
        alone = talkative.transcribe(sound, beam=4)
        assert alone.text == found.text != ""
        np.testing.assert_allclose(alone.posteriors.values, found.posteriors.values, atol=1e-5)
    write_wav(tmp_path / "a.wav", sounds[0], 8000)
    file = talkative.transcribe(tmp_path / "a.wav")
    np.testing.assert_allclose(file.posteriors.values, together[0].posteriors.values, atol=0.02)  # 16 bits
    assert file.name.endswith("a.wav") and file.seconds == pytest.approx(len(sounds[0]) / 8000)
    np.testing.assert_allclose(file.posteriors.values.sum(1), 1.0, atol=1e-5)


def test_stereo_and_other_rates_are_heard_as_well(model: Transcriber) -> None:
    sound = ToneSpeech(1, 4).samples(0, 0)
    plain = model.posteriors(sound).values
    both = model.posteriors(np.stack([sound, sound], 1)).values
    np.testing.assert_array_equal(plain, both)
    higher = model.posteriors(resample(sound, 8000, 16000), rate=16000).values
    assert higher.shape == plain.shape and np.abs(higher - plain).mean() < 0.02


def test_times_and_confidences_are_those_of_the_posteriors(talkative: Transcriber) -> None:
    for sound in (ToneSpeech(3, 4).samples(0, index) for index in range(3)):
        found = talkative.transcribe(sound, beam=8, lm_weight=0.0)
        assert len(found.text) > 2
        assert "".join(symbol.name for symbol in found.symbols) == found.text
        for symbol in found.symbols:
            column = found.posteriors.names.index(symbol.name)
            start, end = (round(second / found.posteriors.step_seconds) for second in (symbol.start, symbol.end))
            assert symbol.confidence == pytest.approx(found.posteriors.values[start:end, column].max(), abs=1e-5)
            assert 0 <= symbol.start < symbol.end <= found.seconds + 0.05


def test_scores_have_intervals_and_add_up(model: Transcriber, tmp_path: Path) -> None:
    scores = job_of("transcribe").evaluate(model, None, [], lambda done: None)
    assert scores.count == 10 and scores.metrics[0].name == "symbol error rate"
    parts = [scores[name] for name in ("substitutions", "deletions", "insertions")]
    assert sum(parts) == pytest.approx(scores["symbol error rate"])
    assert scores.metrics[0].low <= scores.metrics[0].value <= scores.metrics[0].high  # type: ignore[operator]
    assert "word error rate" in scores.to_dict()
    speech = ToneSpeech(10, 5)  # data.seed 1: the test split has seed 3 + 2
    rows = ["audio\ttext"]
    for index in range(10):
        write_wav(tmp_path / f"{index}.wav", speech.samples(0, index), 8000)
        rows.append(f"{index}.wav\t{speech.text(0, index)}")
    (tmp_path / "test.tsv").write_text("\n".join(rows) + "\n")
    files = job_of("transcribe").evaluate(model, None, [tmp_path / "test.tsv"], lambda done: None)
    assert files["symbol error rate"] == pytest.approx(scores["symbol error rate"], abs=0.15)


def test_the_picture_has_the_symbols_that_were_heard(talkative: Transcriber, tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", ToneSpeech(1, 4).samples(0, 0), 8000)
    picture = job_of("transcribe").attention_figure(talkative, str(tmp_path / "a.wav"))
    text = talkative.transcribe(tmp_path / "a.wav").text
    for ending in ("svg", "html", "png"):
        assert picture.save(tmp_path / f"p.{ending}").stat().st_size > 1000
    assert text and f"a.wav: {text[:20]}" in (tmp_path / "p.svg").read_text()
    assert len(picture.to_terminal(width=80, color=False).splitlines()) > 13


def table(folder: Path, rows: list[tuple[np.ndarray, str]]) -> Path:
    lines = ["audio,text"]
    for number, (samples, text) in enumerate(rows):
        write_wav(folder / f"{number}.wav", samples, 8000)
        lines.append(f"{number}.wav,{text}")
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    return folder / "train.csv"


TABLE = ["data.corpus=none", *SMALL]


def test_a_table_trains_and_may_hold_empty_texts(tmp_path: Path) -> None:
    speech = ToneSpeech(12, 1)
    rows = [(speech.samples(0, index), speech.text(0, index)) for index in range(12)]
    rows.append((np.random.default_rng(0).normal(0, 0.01, 4000), ""))
    path = table(tmp_path, rows)
    overrides = [*TABLE, f"data.train={path}", "data.valid_size=2", "features.range_db=none"]
    model = harken.train("tones-transcribe", tmp_path / "model", overrides=overrides, progress=False)
    assert float(model.model.inputs.deviation.min()) > 0.1
    assert float(model.model.inputs.mean.abs().min()) > 0.1  # of logarithms: they are far from 0
    scores = job_of("transcribe").evaluate(model, "valid", [], lambda done: None)
    assert scores.count == 1  # a tenth of 13
    with pytest.raises(UserError, match="has no split 'test'; choose --split train or valid"):
        job_of("transcribe").evaluate(model, "test", [], lambda done: None)


def test_a_share_of_a_table_is_held_out_for_testing(tmp_path: Path) -> None:
    """A number is that of strings of generated data, as complete recipes of tables have it."""
    random = np.random.default_rng(0)
    path = table(tmp_path, [(random.normal(0, 0.1, 2000), "sea") for _ in range(20)])
    overrides = [*TABLE, f"data.train={path}", "data.valid_size=2"]
    held = read_splits(load_recipe("tones-transcribe", [*overrides, "data.test_size=0.2"])).parts
    assert 2 <= len(held["test"]) <= 7 and sum(map(len, held.values())) == 20  # by digests of the rows
    assert set(read_splits(load_recipe("tones-transcribe", overrides)).parts) == {"train", "valid"}


def test_a_recording_too_short_for_its_text_is_named_before_training(tmp_path: Path) -> None:
    sound = np.random.default_rng(0).normal(0, 0.1, 8000)
    path = table(tmp_path, [(sound, "sea")] * 11 + [(sound[:800], "summer season")])
    (tmp_path / "valid").mkdir()
    other = table(tmp_path / "valid", [(sound[::-1], "sea")])
    overrides = [*TABLE, f"data.train={path}", f"data.valid={other}"]
    with pytest.raises(UserError, match=r"11\.wav of the train split is too short for its text: 0\.10 s make 3 steps"):
        harken.train("tones-transcribe", tmp_path / "model", overrides=overrides, progress=False)


def test_bad_recordings_are_refused_in_one_sentence(model: Transcriber, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound")
    (tmp_path / "empty.wav").write_bytes(b"")
    sound = np.zeros(4000)
    broken = np.full(4000, np.nan)
    cases: list[tuple[Any, int | None, str]] = [
        (tmp_path / "text.wav", None, r"text\.wav is no recording that can be read \(Format not recognised\)"),
        (tmp_path / "empty.wav", None, "is an empty file"),
        (tmp_path / "none.wav", None, "does not exist"),
        (sound[:100], None, r"too short: it has 12 ms, and a frame alone needs 25 ms"),
        (broken, None, "no finite number"),
        (sound, 0, "rate of the recording is 0"),
        (np.zeros(0), None, "holds no samples"),
    ]
    for source, rate, said in cases:
        with pytest.raises(UserError, match=said) as caught:
            model.transcribe(source, rate)
        assert "\n" not in str(caught.value)
    assert isinstance(model.transcribe(sound).text, str)  # silence is no mistake


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.dir=x"], "data.corpus and data.dir are both given"),
        (["data.silence=[0.4, 0.1]"], "data.silence .* is no range"),
        (["data.valid_takes=[25]"], "take 25 is in data.valid_takes and in data.test_takes"),
        (["features.high=5000"], "within half of features.rate 8000"),
        (["front.kernel=4"], "front.kernel 4 is even"),
        (["features.rate=16000"], "set features.rate = 8000"),
        (["data.test_size=0.1"], "data.test_size 0.1 is a share of a table; give a number of strings"),
        (["data.shortest=8"], "data.shortest 8 is above data.longest 7"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_said(overrides: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        harken.train("tones-transcribe", tmp_path / "model", overrides=[*SMALL, *overrides], progress=False)


def test_the_spoken_digits_need_their_folder() -> None:
    with pytest.raises(UserError, match=r"--set data\.dir=DIR"):
        load_recipe("spoken-digits-transcribe")


def test_check_counts_what_is_trained(model: Transcriber) -> None:
    found = harken.check("tones-transcribe", SMALL, measure=False)
    assert found.parameters == sum(parameter.numel() for parameter in model.model.parameters())


def test_recipes_need_no_torch() -> None:
    code = (
        "import sys; from harken.recipe import load_recipe; load_recipe('tones-transcribe'); "
        "print(sorted({'torch', 'matplotlib', 'soundfile'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("value", [{"a": {}}, float("nan"), 10**23, -1, 2, None])
@pytest.mark.parametrize("key", ["size", "order", "counts"])
def test_a_damaged_language_model_is_refused_in_one_sentence(
    key: str, value: Any, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / "language.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, key: value}))
    (tmp_path / "model" / "digests.json").unlink()  # as in a folder of an earlier version
    with pytest.raises(UserError, match=r"language\.json (is missing or damaged|does not fit symbols\.json)"):
        harken.load(tmp_path / "model", device="cpu")


@pytest.mark.parametrize(
    "content", ["", "[]", '{"kind": "letter", "symbols": ["a"]}', '{"kind": "word", "symbols": [1]}']
)
def test_damaged_symbols_are_refused_in_one_sentence(content: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "symbols.json").write_text(content)
    (tmp_path / "model" / "digests.json").unlink()  # as in a folder of an earlier version
    with pytest.raises(UserError, match=r"symbols\.json is missing or damaged"):
        harken.load(tmp_path / "model", device="cpu")
