"""Data that changed since a run was started: `train --resume` and `evaluate` say which file, and change nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.recipe import as_recipe
from harken.tasks.data_record import READING, DataRecord
from harken.tasks.registry import job_of

SHORT = [
    "train.max_steps=2",
    "train.max_epochs=none",
    "train.max_minutes=none",
    "train.average=0.0",
    "train.warmup_steps=0",
    "train.workers=1",
    "train.device=cpu",
    "train.precision=float32",
    "train.batch_tokens=100",
    "model.width=8",
]
WORDS = ["red", "green", "blue", "black", "white", "small", "large", "old", "new", "warm"]


def lines(form: str, numbers: range = range(40)) -> str:
    """Different lines, each with its number and a word."""
    return "".join(form.format(i, WORDS[i % 10], "good" if i % 2 else "bad") + "\n" for i in numbers)


def conllu(numbers: range) -> str:
    rows = "1\t{1}\t_\tADJ{3}\n2\tcat{0}\t_\tNOUN{3}\n".replace("{3}", "\t_" * 6)
    return "".join(rows.format(i, WORDS[i % 10]) + "\n" for i in numbers)


def recording(path: Path, number: int) -> None:
    wave_form = 8000 * np.sin(np.arange(2400) * (0.1 + 0.01 * number))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(wave_form.astype("<i2").tobytes())


def write_translate(home: Path) -> None:
    (home / "a.en").write_text(lines("{0} the {1} cat"))
    (home / "a.fr").write_text(lines("{0} le chat {1}"))


def write_transcribe(home: Path) -> None:
    for number in range(24):
        recording(home / f"{number}.wav", number)
    (home / "a.csv").write_text("audio,text\n" + "".join(f"{i}.wav,{WORDS[i % 10][:2]}\n" for i in range(14)))
    (home / "b.csv").write_text(
        "audio,text\n" + "".join(f"{i}.wav,{WORDS[i % 10][:2]}\n" for i in range(14, 24))
    )  # enough to be training data when both are swapped


def write_forecast(home: Path) -> None:
    (home / "a.csv").write_text("y\n" + "".join(f"{10 + i % 12 + 0.01 * i}\n" for i in range(200)))


def write_pair(ending: str, content: Callable[[range], str]) -> Callable[[Path], None]:
    """Training and test file."""

    def write(home: Path) -> None:
        (home / f"a{ending}").write_text(content(range(40)))
        (home / f"b{ending}").write_text(content(range(100, 120)))

    return write


JOBS: dict[str, tuple[str, Callable[[Path], None], str, list[str], str]] = {
    # recipe, files, keys of [data], what else makes it small, a setting that decides the splits
    "translate": (
        "phrasebook-transformer",
        write_translate,
        'source = "a.en"\ntarget = "a.fr"\nvalid_size = 5\ntest_size = 5',
        ["model.layers=1", "model.heads=2", "model.feedforward=8", "train.validate_sentences=2"],
        "data.seed=9",
    ),
    "classify": (
        "opinions-classify",
        write_pair(".tsv", lambda numbers: "text\tlabel\n" + lines("{0} a {1} film {2}\t{2}", numbers)),
        'train = "a.tsv"\ntest = "b.tsv"\nvalid_size = 5',
        ["model.embedding=8"],
        "data.valid_size=7",
    ),
    "tag": (
        "phrasebook-tag",
        write_pair(".conllu", conllu),
        'train = "a.conllu"\ntest = "b.conllu"',
        ["model.embedding=8"],
        "data.seed=9",
    ),
    "language": (
        "phrasebook-language",
        write_pair(".txt", lambda numbers: lines("{0} the {1} cat is {2}", numbers)),
        'train = "a.txt"\ntest = "b.txt"',
        ["model.embedding=8"],
        "data.valid_size=0.2",
    ),
    "forecast": (
        "seasons-forecast",
        write_forecast,
        'train = "a.csv"',
        ["model.embedding=8"],
        "data.test_size=0.1",
    ),
    "transcribe": (
        "tones-transcribe",
        write_transcribe,
        'train = "a.csv"\ntest = "b.csv"\nvalid_size = 3',
        ["features.rate=8000", "model.embedding=8"],
        "data.lowercase=true",
    ),
}  # fmt: skip


QUICK = ("translate", "classify", "transcribe")  # the other jobs in make test-slow


@pytest.fixture(
    scope="module", params=[job if job in QUICK else pytest.param(job, marks=pytest.mark.slow) for job in JOBS]
)
def run(request: Any, harken: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[str]]:
    """(job, a folder with its data and a finished run in `out`, the command that made it)."""
    from harken.recipe import recipe_text

    name, write, keys, small, _ = JOBS[request.param]
    home = tmp_path_factory.mktemp(request.param)
    write(home)
    before, _, after = recipe_text(name).partition("[data]\n")
    _, bracket, rest = after.partition("\n[")
    kept = [
        line
        for line in after[: len(after) - len(rest)].splitlines()
        if line.startswith(("window", "horizon", "season", "chunk"))
    ]
    text = "\n".join([before, "[data]", *kept, keys, bracket.strip() + rest])
    (home / "my.toml").write_text(text)
    command = ["train", home / "my.toml", "--out", home / "out", "--quiet"]
    command += [word for one in (*SHORT, *small) for word in ("--set", one)]
    outcome = harken(*command, cwd=Path("/"))  # paths are relative to the recipe
    assert outcome.code == 0, outcome.stderr
    return request.param, home, [str(word) for word in command]


def truncate(home: Path, path: Path) -> None:
    content = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(content[: 3 * len(content) // 4]))


def change_one_byte(home: Path, path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = content.rindex(b"1" if path.suffix != ".csv" or b"wav" not in content else b"b")
    content[place] = ord("2") if content[place] == ord("1") else ord("o")
    path.write_bytes(bytes(content))


def swap(home: Path, path: Path) -> None:
    other = home / "a.fr" if path.suffix == ".en" else home / f"b{path.suffix}"
    if not other.exists():
        pytest.skip("this job has one file")
    ours, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(ours)


def replace_by_another(home: Path, path: Path) -> None:
    """Another valid file of as many lines: the rows in reverse order but for the header, with the first one again."""
    rows = path.read_bytes().split(b"\n\n" if path.suffix == ".conllu" else b"\n")
    path.write_bytes((b"\n\n" if path.suffix == ".conllu" else b"\n").join([rows[0], rows[2], *rows[2:]]))


def remove(home: Path, path: Path) -> None:
    path.unlink()


CHANGES = [truncate, change_one_byte, swap, replace_by_another, remove]


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def refused(outcome: Any, *words: str) -> None:
    """Exit code 2, and one sentence with these words."""
    assert outcome.code == 2, (outcome.code, outcome.stderr)
    assert outcome.check() is None
    said = outcome.stderr.strip()
    assert said.startswith("error: ")
    assert "\n" not in said
    for word in words:
        assert word in said, said


@pytest.fixture
def copy(run: tuple[str, Path, list[str]], tmp_path: Path) -> tuple[str, Path, list[str]]:
    """A copy of the run and its data: the recipe of the folder names the copied files."""
    job, home, command = run
    there = tmp_path / "moved"
    shutil.copytree(home, there)
    recipe = there / "out" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(str(home), str(there)))
    return job, there, [word.replace(str(home), str(there)) for word in command]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_file_is_noticed(harken: Any, copy: tuple[str, Path, list[str]], change: Callable) -> None:
    _, home, command = copy
    changed = min(path for path in home.iterdir() if path.stem == "a")
    change(home, changed)
    before = digests(home / "out")
    refused(harken(*command, "--resume"), changed.name)
    refused(harken("evaluate", home / "out"), changed.name)
    if change is remove:
        refused(harken(*command, "--resume", "--accept-changed-data"), f"{changed.name} ", "is missing")
        refused(harken("evaluate", home / "out", "--accept-changed-data"), "is missing", "harken evaluate", "FILE")
    assert digests(home / "out") == before


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: change.__name__)
def test_a_changed_file_is_accepted(harken: Any, copy: tuple[str, Path, list[str]], change: Callable) -> None:
    _, home, command = copy
    changed = min(path for path in home.iterdir() if path.stem == "a")
    change(home, changed)
    if change is truncate and (home / "a.fr").exists():
        truncate(home, home / "a.fr")  # lines come in pairs
    before = digests(home / "out")
    outcome = harken("evaluate", home / "out", "--accept-changed-data", "--json")
    assert outcome.code == 0, outcome.stderr
    assert changed.name in json.loads(outcome.stdout)["changed_data"][0]
    assert digests(home / "out") == before
    outcome = harken(*command, "--resume", "--accept-changed-data")
    assert outcome.code == 0, outcome.stderr
    assert changed.name in json.loads((home / "out" / "data.json").read_text())["accepted"][0]["changes"][0]
    card = (home / "out" / "card.md").read_text()
    assert "| data changed on resuming | " in card
    assert changed.name in card
    assert harken("evaluate", home / "out").code == 0  # the new data is what it is compared with from now on


@pytest.mark.parametrize("run", ["translate"], indirect=True)
def test_what_changed_is_said(harken: Any, copy: tuple[str, Path, list[str]]) -> None:
    _, home, command = copy
    changed = min(path for path in home.iterdir() if path.stem == "a")
    count = len(changed.read_bytes().splitlines())
    truncate(home, changed)
    words = f"has {len(changed.read_bytes().splitlines())} lines where the run was started on {count}", "(data."
    refused(harken(*command, "--resume"), *words, "; undo the change, or go on with --accept-changed-data")


def test_changed_settings_are_noticed(harken: Any, copy: tuple[str, Path, list[str]]) -> None:
    job, home, command = copy
    setting = JOBS[job][-1]
    before = digests(home / "out")
    key, _, value = setting.partition("=")
    refused(harken(*command, "--set", setting, "--resume"), f"{key} is {value} where the run was started with")
    assert digests(home / "out") == before
    outcome = harken(*command, "--set", setting, "--resume", "--accept-changed-data")
    assert outcome.code == 0, outcome.stderr
    assert digests(home / "out")["model.safetensors"] == before["model.safetensors"]  # the run was finished


def edit_seed(recipe: Path) -> None:
    """Set data.seed to 5."""
    before, _, data = recipe.read_text().partition("[data]\n")
    assert "seed = 1\n" in data
    recipe.write_text(before + "[data]\n" + data.replace("seed = 1\n", "seed = 5\n", 1))


@pytest.mark.parametrize("run", ["translate"], indirect=True)
def test_an_edited_recipe_in_the_folder_is_noticed(harken: Any, copy: tuple[str, Path, list[str]]) -> None:
    _, home, _ = copy
    recipe = home / "out" / "recipe.toml"
    edit_seed(recipe)
    refused(harken("evaluate", home / "out"), "data.seed is 5 where the run was started with 1")


@pytest.mark.parametrize("run", ["translate", "transcribe"], indirect=True)
def test_an_unchanged_run_in_another_place_goes_on(harken: Any, copy: tuple[str, Path, list[str]]) -> None:
    """The recipe and its files moved together: their content is the same."""
    job, home, command = copy
    there = home.with_name("elsewhere")
    home.rename(there)
    command = [word.replace(str(home), str(there)) for word in command]
    data = JOBS[job][2].partition('"')[2].partition('"')[0]
    refused(harken("evaluate", there / "out"), data, "is missing", "harken evaluate")
    outcome = harken(*command, "--resume", cwd=Path("/"))
    assert outcome.code == 0, outcome.stderr
    outcome = harken("evaluate", there / "out", cwd=Path("/"))
    assert outcome.code == 0, outcome.stderr
    assert "accepted" in json.loads((there / "out" / "data.json").read_text())


@pytest.mark.parametrize("run", ["classify"], indirect=True)
def test_a_run_of_an_older_harken_is_not_checked_and_says_so(harken: Any, copy: tuple[str, Path, list[str]]) -> None:
    _, home, command = copy
    (home / "out" / "data.json").unlink()
    outcome = harken("evaluate", home / "out")
    assert outcome.code == 0
    assert outcome.stderr.count("so it was not checked whether its data changed") == 1
    command.remove("--quiet")
    outcome = harken(*command, "--resume")
    assert outcome.code == 0
    assert outcome.stdout.count("so it was not checked whether its data changed") == 1
    assert (home / "out" / "data.json").is_file()


@pytest.mark.parametrize("run", ["transcribe"], indirect=True)
def test_a_changed_recording_is_noticed(harken: Any, copy: tuple[str, Path, list[str]]) -> None:
    _, home, command = copy
    recording(home / "3.wav", 30)
    refused(harken(*command, "--resume"), "(data.train)", "has other content than the run was started on")


@pytest.mark.parametrize("run", ["tag"], indirect=True)
@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b'{"files": 3}', b"\xff", b"[" * 20000])
def test_a_damaged_record_is_one_sentence(harken: Any, copy: tuple[str, Path, list[str]], damage: bytes) -> None:
    _, home, command = copy
    (home / "out" / "data.json").write_bytes(damage)
    refused(harken(*command, "--resume"), "data.json is damaged")
    refused(harken("evaluate", home / "out"), "data.json is damaged")
    outcome = harken("tag", home / "out", stdin=b"the cat\n")
    assert outcome.code == 0


def test_a_generated_corpus_is_known_by_its_settings_and_splits(
    harken: Any, models: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models["phrasebook-tag"], folder)
    recipe = folder / "recipe.toml"
    text = recipe.read_text()
    edit_seed(recipe)
    refused(harken("evaluate", folder), "data.seed is 5 where the run was started with 1")
    recipe.write_text(text)
    record = json.loads((folder / "data.json").read_text())
    assert record["files"] == []
    assert record["parts"]["train"].startswith("60:")
    assert harken("evaluate", folder).code == 0


def test_splits_that_were_read_in_another_way_are_compared(
    harken: Any, models: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models["phrasebook-tag"], folder)
    record = DataRecord.load(folder)
    assert record is not None and record.reading == READING
    record.parts["train"] = record.parts["train"].replace("60:", "59:")
    record.save(folder)
    assert harken("evaluate", folder).code == 0  # the same reading of the same files: the splits are not made again
    record.reading = READING - 1
    record.save(folder)
    refused(harken("evaluate", folder), "the train split has 60 examples where the run was started on 59")


def test_pictures_of_a_captions_table_are_input_files(tmp_path: Path) -> None:
    """The pictures that a captioner's training table names are compared too, not only the table."""
    table = tmp_path / "a.csv"
    table.write_text("image,caption\n1.png,a dog\n")
    (tmp_path / "1.png").write_bytes(b"png")
    recipe = as_recipe({"task": "caption", "data": {"train": str(table)}})
    job = job_of("caption")
    record = DataRecord.of(job, recipe)
    assert {source.key for source in record.files} == {"data.train"}
    assert record.changes(job, recipe) == []
    (tmp_path / "1.png").write_bytes(b"PNG")
    assert ["other content" in change.text for change in record.changes(job, recipe)] == [True]
