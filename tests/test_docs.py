"""What the documents say is true: commands parse, links lead somewhere, recipes exist, examples run."""

import re
import runpy
import shlex
import shutil
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from harken.cli.app import app
from harken.recipe import load_recipe, recipe_names

ROOT = Path(__file__).parent.parent
FOLDERS = (ROOT, ROOT / "docs", ROOT / "docs" / "jobs")
PAGES = sorted([*(page for folder in FOLDERS for page in folder.glob("*.md")), ROOT / "benchmarks" / "README.md"])
VERBS: Any = typer.main.get_command(app)
TINY = [
    "data.size=200",
    "model.width=16",
    "model.heads=4",
    "model.feedforward=16",
    "train.max_steps=2",
    "train.validate_sentences=4",
    "train.workers=1",
    "train.precision=float32",
    "train.device=cpu",
]


OTHERS = {  # the folder in runs that the pages load -> the recipe it was trained with
    "opinions": "opinions-classify",
    "tags": "phrasebook-tag",
    "language": "phrasebook-language",
    "masked": "phrasebook-masked",
    "tones": "tones-transcribe",
    "scenes": "scenes-caption",
    "answer": "stories-answer",
    "pen": "penfont-handwriting",
}


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in some languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages]


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every `harken ...` in the shell blocks of a page, pipes and redirections cut off."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if not set(word) <= set("|<>;&"):
                    words.append(word)
                    continue
                if words and Path(words[0]).name == "harken":
                    yield words[1:]
                words = []


COMMANDS = [(page, words) for page in PAGES for words in commands(page)]


def parse(words: list[str]) -> None:
    """What the command line does before a verb runs; raises where a verb, option or argument is not there."""
    while words[0] == "--plugin":
        words = words[2:]
    verb = VERBS.commands[words[0]]
    verb.make_context(words[0], words[1:])


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page.name} {' '.join(w)}" for page, w in COMMANDS])
def test_every_command_parses(page: Path, words: list[str]) -> None:
    parse(words)
    if words[0] in ("train", "check", "recipes") and len(words) > 1 and not words[1].endswith(".toml"):
        assert words[1] in recipe_names()


def test_the_commands_are_found_and_a_wrong_one_is_not_let_through() -> None:
    assert {words[0] for page, words in COMMANDS if page.name == "README.md"} >= set(VERBS.commands)
    with pytest.raises(Exception, match="No such option"):
        parse(["translate", "runs/demo", "--beams", "5"])
    with pytest.raises(KeyError):
        parse(["translte", "runs/demo"])


@pytest.mark.parametrize("verb", VERBS.commands)
def test_the_table_of_verbs_names_only_what_there_is(verb: str) -> None:
    row = next(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith(f"| `harken {verb}"))
    command = VERBS.commands[verb]
    parts = [command, *getattr(command, "commands", {}).values()]  # a verb may have verbs of its own
    known = {option for part in parts for parameter in part.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z]+", row)) <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_recipe_named_exists(page: Path) -> None:
    named = set(re.findall(r"`((?:phrasebook|multi30k)-[a-z]+)`", page.read_text(encoding="utf-8")))
    assert named - set(recipe_names()) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_left_to_fill_in(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"@@[A-Z]+@@|^[A-Z]{7,}$|<!-- (?:figures|poolings) -->", text, re.MULTILINE) == []


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{page.name} links to {link}"
        assert target.is_relative_to(ROOT), f"{page.name} links out of the project: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}, which has no such heading"


def test_every_file_named_in_the_architecture_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = "nn|kernels|models|data|training|tasks|search|metrics|inspection|embeddings|estimators|lab|cli|recipes"
    sources = re.findall(rf"(?<![\w/])((?:{rooms})/[\w/]+\.py)", text)
    tests = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert len(sources) > 10 and len(tests) > 10
    missing = [name for name in sources if not (ROOT / "src" / "harken" / name).is_file()]
    assert missing + [name for name in tests if not (ROOT / name).is_file()] == []


def test_the_recipe_in_the_readme_is_one(tmp_path: Path) -> None:
    (recipe,) = blocks(ROOT / "README.md", "toml")
    assert len(recipe.splitlines()) == 10  # "in ten lines"
    path = tmp_path / "my.toml"
    path.write_text(recipe)
    loaded = load_recipe(path)
    assert (loaded.data.source, loaded.data.test_size, loaded.train.max_minutes) == ("train.en", 1000, 60)


def test_the_recipe_reference_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_recipe_reference.py"))
    for page, make in (("recipes.md", "reference"), ("recipes-jobs.md", "others")):
        written = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert written == script[make](), "run: python docs/make_recipe_reference.py"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Path]) -> Path:
    """A folder with a barely trained model of every job in runs, where the examples are run."""
    from PIL import Image

    from harken.api import train

    folder = tmp_path_factory.mktemp("docs")
    train("phrasebook-transformer", folder / "runs" / "demo", overrides=TINY, progress=False)
    for name, recipe in OTHERS.items():
        shutil.copytree(tiny_model(recipe), folder / "runs" / name)  # examples may train there
    table = {"month": [f"{1949 + k // 12}-{k % 12 + 1:02d}" for k in range(120)], "passengers": range(100, 220)}
    narrow = [
        "model.width=8",
        "model.embedding=8",
        "train.max_steps=2",
        "train.workers=1",
        "train.device=cpu",
        "train.precision=float32",
    ]
    train("series-forecast", folder / "runs" / "airline", data=table, overrides=narrow, progress=False)
    Image.fromarray(np.full((32, 32, 3), 200, np.uint8)).save(folder / "picture.png")
    with wave.open(str(folder / "recording.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes((3000 * np.sin(np.arange(6000) / 3)).astype("<i2").tobytes())
    return folder


EXAMPLES = [(page.name, number, code) for page in PAGES for number, code in enumerate(blocks(page, "python"), 1)]


@pytest.mark.parametrize(("page", "number", "code"), EXAMPLES, ids=[f"{page}-{number}" for page, number, _ in EXAMPLES])
def test_every_python_example_runs(
    page: str, number: int, code: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setattr(
        "harken.tasks.translate.translator.cores", lambda: 1, raising=False
    )  # or every model tries threads out first
    code = code.replace("train=60000", "train=600")
    example = workplace / f"{page}-{number}.py"
    example.write_text(code, encoding="utf-8")
    compile(code, str(example), "exec")
    trains = re.search(r"^model = harken\.train\(", code, re.MULTILINE)
    if not trains:  # that would take minutes; it is valid Python, and `workplace` trained the same way
        runpy.run_path(str(example))


def test_examples_are_found() -> None:
    assert {page for page, _, _ in EXAMPLES} >= {"README.md", "python.md", "alignment.md"}
    assert len(EXAMPLES) >= 9
