"""Distillation: the pairs are the teacher's translations, a stopped run goes on, and the student is a translator."""

from pathlib import Path

import pytest
import torch
from torch import nn

import harken
from harken.errors import UserError
from harken.tasks.translate.corpora import distilling
from harken.tasks.translate.corpora.distilling import SOURCE, TARGET, TRANSLATIONS, distil_pairs
from harken.training.checkpoints import Progress
from harken.training.folder import RunLock
from harken.training.loop import Trainer

TINY = {"architecture": "transformer", "layers": 1, "width": 16, "heads": 2, "feedforward": 16, "tied": "none"}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    place = tmp_path_factory.mktemp("teacher") / "run"
    pairs = [f"a{n} b{n % 7} c{n % 3}\tx{n} y{n % 7} z{n % 3}" for n in range(50)]
    (place.parent / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    recipe = {
        "task": "translate",
        "data": {"source": str(place.parent / "pairs.tsv"), "valid_size": 6, "test_size": 4},
        "tokenizer": {"kind": "word", "joint": False},
        "model": TINY,
        "train": {"max_steps": 2, "batch_tokens": 128, "workers": 1, "validate_sentences": 2},
        "search": {"beam": 2, "max_length_factor": 0.5, "max_length_extra": 1},
    }
    harken.train(recipe, place, progress=False)
    return place


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_pairs_are_the_teachers_translations_and_a_stopped_run_goes_on(teacher: Path, tmp_path: Path):
    model = harken.load(teacher, device="cpu")
    seen: list[tuple[int, int]] = []
    data = distil_pairs([model], tmp_path / "pairs", progress=lambda done, total: seen.append((done, total)), beam=1)
    sources, targets = lines(tmp_path / "pairs" / SOURCE), lines(tmp_path / "pairs" / TARGET)
    assert targets == [one.text for one in model.translate(sources, beam=1, attention=False)]
    assert seen[0] == (0, 40)
    assert seen[-1] == (40, 40)
    assert (data.source, data.target) == tuple(str(tmp_path / "pairs" / name) for name in (SOURCE, TARGET))
    assert data.test is not None
    assert "test" in data.test

    path = tmp_path / "pairs" / TRANSLATIONS
    whole = path.read_bytes()
    half = whole[: len(whole) // 2]  # in the midst of a line
    path.write_bytes(half)
    (tmp_path / "pairs" / TARGET).unlink()
    seen.clear()
    sidecar = path.with_name(f".{path.name}.resume.json")
    sidecar.write_text(sidecar.read_text().replace('"complete": true', '"complete": false'))
    distil_pairs([model], tmp_path / "pairs", resume=True, progress=lambda *done: seen.append(done), beam=1)
    assert seen[0] == (half.count(b"\n"), 40)
    assert path.read_bytes() == whole
    assert lines(tmp_path / "pairs" / TARGET) == targets

    with pytest.raises(UserError, match=r"begun with other options \(beam\)"):
        distil_pairs([model], tmp_path / "pairs", resume=True, beam=2)
    with pytest.raises(UserError, match="is not empty; add --resume"):
        distil_pairs([model], tmp_path / "pairs", beam=1)
    with RunLock(tmp_path / "pairs"), pytest.raises(UserError, match="is in use by"):
        distil_pairs([model], tmp_path / "pairs", resume=True, beam=1)


def test_sources_of_a_file_several_translations_and_a_lowest_score(teacher: Path, tmp_path: Path):
    model = harken.load(teacher, device="cpu")
    (tmp_path / "text.txt").write_text("a1 b1 c1\n\na2 b2 c2\na3 b3\n", encoding="utf-8")
    distil_pairs([model], tmp_path / "two", sources=tmp_path / "text.txt", nbest=2)
    best = model.nbest(["a1 b1 c1", "a2 b2 c2", "a3 b3"], 2, attention=False)
    pairs = [(each.source, each.text) for row in best for each in row]
    read = [lines(tmp_path / "two" / name) for name in (SOURCE, TARGET)]
    assert list(zip(*read, strict=True)) == list(dict.fromkeys(pairs))

    lowest = sorted(row[0].score for row in best)[1]
    distil_pairs([model], tmp_path / "good", sources=tmp_path / "text.txt", min_score=round(lowest, 4))
    assert len(lines(tmp_path / "good" / SOURCE)) == 2
    with pytest.raises(UserError, match="lower --min-score"):
        distil_pairs([model], tmp_path / "none", sources=tmp_path / "text.txt", min_score=1.0)


def test_a_student_is_trained_on_the_pairs(teacher: Path, tmp_path: Path):
    student = harken.distill(
        [teacher, teacher], tmp_path / "student", weights=[2, 1], progress=False, beam=1, overrides=["model.width=8"]
    )
    config = student.recipe.model
    assert (config.encoder_depth, config.decoder_depth, config.decoder_mixer, config.width) == (6, 2, "ssru", 8)
    assert student.recipe.search.beam == 1
    assert student.recipe.data.source == str(tmp_path / "student.pairs" / SOURCE)
    assert isinstance(student.translate("a1 b1 c1").text, str)


def test_a_student_is_fine_tuned_for_int8(teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rounded: list[bool] = []

    def noted(trainer: Trainer, resume: bool) -> Progress:
        rounded.append(trainer.task.model.rounds_to_int8)
        return run(trainer, resume)

    run = Trainer.run
    monkeypatch.setattr(Trainer, "run", noted)
    small = {
        "architecture": "transformer",
        "width": 8,
        "heads": 2,
        "feedforward": 8,
        "decoder_mixer": "ssru",
        "tied": "none",
    }
    train = {"max_steps": 2, "batch_tokens": 64, "workers": 1, "label_smoothing": 0.2, "validate_sentences": 2}
    recipe = {"task": "translate", "data": {}, "tokenizer": {"joint": False}, "model": small, "train": train}
    out = tmp_path / "student"
    student = harken.distill(teacher, out, recipe, progress=False, beam=1, int8=True)
    assert rounded == [False, True]
    assert type(student.model.encoder.stack.blocks[0].feedforward.expand) is nn.Linear
    adapt, settings = student.recipe.adapt, student.recipe.train
    assert (adapt.start, adapt.int8) == (str(tmp_path / "student.float32"), True)
    assert (settings.max_epochs, settings.max_steps, settings.batch_tokens, settings.patience) == (1, None, 64, 2)
    before = harken.load(tmp_path / "student.float32").recipe
    assert (student.recipe.model, settings.label_smoothing) == (before.model, before.train.label_smoothing)
    assert student.translate("a1 b1 c1", precision="int8").text is not None
    again = harken.distill(teacher, out, recipe, progress=False, beam=1, int8=True, resume=True)
    assert again.recipe == student.recipe


@pytest.mark.parametrize(("given", "used"), [(None, "auto"), ("float32", "float32")])
def test_on_a_gpu_the_teacher_translates_in_bfloat16(
    teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
):
    class Reached(Exception):
        pass

    def reached(*arguments: object, precision: str | None = None, **options: object):
        assert precision == used
        raise Reached

    model = harken.load(teacher, device="cpu")
    monkeypatch.setattr(type(model), "device", property(lambda self: torch.device("cuda")))
    monkeypatch.setattr(distilling, "translate_to_file", reached)
    with pytest.raises(Reached):
        distil_pairs([model], tmp_path / "pairs", precision=given)


def test_a_teacher_of_another_task_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="has no recipe"):
        harken.distill(tmp_path, tmp_path / "student")
