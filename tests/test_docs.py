"""The documentation is correct: links lead somewhere, commands parse, recipes load, code runs, figures have records.

`make docs` checks the links of the site itself, generated pages included.
"""

import functools
import importlib
import inspect
import re
import runpy
import shlex
import shutil
import tomllib
import wave
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import typer

from harken import registry
from harken.cli.app import app
from harken.recipe import load_recipe, recipe_names, recipe_text
from harken.recipe.errors import config_classes

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, ROOT / "benchmarks" / "README.md"]
EXTENDING = ROOT / "docs" / "how-to" / "extend.md"  # tests/test_extending.py runs its blocks, which belong together
COMMANDS: Any = typer.main.get_command(app)
CPU = ["train.max_steps=2", "train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32"]
LIMITS = ["train.max_minutes=none", "train.max_epochs=none"]
NARROW = ["model.width=8", "model.embedding=8"]
SMALL = {  # recipe -> overrides that train it in about a second; the others come from the fixture `tiny_model`
    "phrasebook-transformer": [
        "data.size=200",
        "model.width=16",
        "model.heads=4",
        "model.feedforward=16",
        "train.validate_sentences=4",
    ],
    "dates-seq2seq": ["data.size=200", "train.validate_sentences=4", *NARROW],
    "phrasebook-elmo": ["data.size=80", "model={width=16, character_width=8}"],
    "series-forecast": ["model.members=1", *NARROW],
}
FOLDERS = {  # folder in runs/ that the pages load -> the recipe it was trained with
    "demo": "tatoeba-transformer",
    "opinions": "opinions-classify",
    "tags": "phrasebook-tag",
    "language": "phrasebook-language",
    "masked": "phrasebook-masked",
    "tones": "tones-transcribe",
    "scenes": "scenes-caption",
    "answer": "stories-answer",
    "pen": "penfont-handwriting",
}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in some languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages]


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """A page without code blocks, inline code and the targets of links."""
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "", without_blocks(text)))


# ---- commands -------------------------------------------------------------------------------------------------------


def shell_commands(page: Path) -> Iterator[list[str]]:
    """The words of every command in the shell blocks of a page, pipes and redirections removed."""
    for block in blocks(page, "sh", "bash", "shell"):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if not set(word) <= set("|<>;&"):
                    words.append(word)
                    continue
                if words:
                    yield words
                words = []


SHELL = [(page, words) for page in PAGES for words in shell_commands(page)]
HARKEN = [(page, words[1:]) for page, words in SHELL if Path(words[0]).name == "harken"]


def parse(words: list[str]) -> None:
    """Parse a harken command without running it; raises for an unknown command, option or argument."""
    if words[:2] == ["--plugin", "spaces.py"] and words[2] in ("restore", "spaces"):
        return  # the commands of a plugin, which tests/test_extending.py runs
    while words[0] == "--plugin":
        words = words[2:]
    COMMANDS.commands[words[0]].make_context(words[0], words[1:])


@pytest.mark.parametrize(
    ("page", "words"), HARKEN, ids=[f"{name_of(page)}: {' '.join(words)}" for page, words in HARKEN]
)
def test_every_harken_command_parses(page: Path, words: list[str]) -> None:
    parse(words)
    if (
        words[0] in ("train", "check", "recipes", "ladder")
        and len(words) > 1
        and not words[1].endswith((".toml", ".tsv", ".jsonl"))
    ):
        assert words[1] in recipe_names()


def test_a_wrong_command_is_found() -> None:
    assert len(HARKEN) > 100
    with pytest.raises(Exception, match="No such option"):
        parse(["translate", "runs/demo", "--beams", "5"])
    with pytest.raises(KeyError):
        parse(["translte", "runs/demo"])


def test_every_script_and_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    scripts = 0
    for page, words in SHELL:
        if words[0] == "make":
            assert set(words[1:]) <= targets, f"{page.name}: {' '.join(words)}"
        if words[0] == "python":
            place = words[2].replace(".", "/") + ".py" if words[1] == "-m" else words[1]
            assert place == "pytest.py" or (ROOT / place).is_file(), f"{page.name}: {' '.join(words)}"
            scripts += 1
    assert scripts > 5


# ---- text -----------------------------------------------------------------------------------------------------------

PLACEHOLDERS = r"@@\w+@@|\b[A-Z]+_[A-Z][A-Z_]*\b|\b(?:TODO|FIXME|TBD|XXX)\b|^[A-Z]{7,}$|<!-- (?:figures|poolings) -->"


@each_page
def test_no_placeholder_is_left(page: Path) -> None:
    assert re.findall(PLACEHOLDERS, prose(page.read_text(encoding="utf-8")), re.MULTILINE) == []


@pytest.mark.parametrize("text", ["SEQ_TABLE", "@@ROWS@@", "see TODO", "FIGURES", "@@LM_TABLE@@"])
def test_a_placeholder_is_found(text: str) -> None:
    assert re.search(PLACEHOLDERS, prose(f"before\n\n{text}\n\nafter `HARKEN_KERNELS=off`\n"), re.MULTILINE)


GUIDES = [ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]


@pytest.mark.parametrize("page", [page for page in GUIDES if page != EXTENDING], ids=name_of)
def test_every_guide_starts_with_something_to_run(page: Path) -> None:
    opening = re.split(r"^## ", page.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE)[0]
    first = re.search(r"^```(\w*)$", opening, re.MULTILINE)
    assert first is not None and first[1] in ("sh", "python")


# ---- names ----------------------------------------------------------------------------------------------------------


def inline_code(page: Path) -> list[str]:
    """Everything in backticks outside the code blocks of a page."""
    return re.findall(r"`([^`\n]+)`", without_blocks(page.read_text(encoding="utf-8")))


def options_of(command: Any) -> set[str]:
    """The options of a command and of those below it."""
    own = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    return own.union(*(options_of(one) for one in getattr(command, "commands", {}).values()))


OPTIONS = options_of(COMMANDS) | {"--help"}
SCRIPTS = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "benchmarks").glob("*.py")))
OTHER_OPTIONS = {"--max-restarts", "--nproc-per-node"} | set(re.findall(r"\"(--[a-z-]+)\"", SCRIPTS))  # of torchrun too


@each_page
def test_every_option_named_exists(page: Path) -> None:
    named = {code.split()[0].partition("=")[0] for code in inline_code(page) if re.match(r"--[a-z]", code)}
    assert named - OPTIONS - OTHER_OPTIONS == set()


def keys_of(table: Any, prefix: str = "") -> Iterator[str]:
    """The dotted keys of a pydantic class, those of its tables included."""
    for key, value in table.model_fields.items():
        yield prefix + key
        for inner in config_classes(value.annotation):
            yield from keys_of(inner, f"{prefix}{key}.")


KEYS = {key for job in registry.JOBS for key in keys_of(registry.recipe_class(job))}


@each_page
def test_every_recipe_key_named_exists(page: Path) -> None:
    tables = {key.partition(".")[0] for key in KEYS if "." in key} - {
        "data",
        "model",
        "search",
        "words",
    }  # also objects
    form = rf"(?:--set )?((?:{'|'.join(sorted(tables))})\.[a-z_.]+)(?: ?=.*)?"
    named = {code[1] for one in inline_code(page) if (code := re.fullmatch(form, one))}
    assert named - KEYS - {"train.en", "train.fr", "train.tok.en", "train.source", "train.target"} == set()  # files


GROUPS = {one.group for one in vars(registry).values() if isinstance(one, registry.Registry)}  # of entry points


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of)
def test_every_python_name_exists(page: Path) -> None:
    codes = [re.match(r"(harken(?:\.\w+)+)(?:\(.*\))?$", code) for code in inline_code(page)]
    assert {code[1] for code in codes if code and not resolves(code[1])} - GROUPS - {"harken.json"} == set()


@each_page
def test_every_environment_variable_is_read(page: Path) -> None:
    named = set(re.findall(r"\bHARKEN_[A-Z]+\b", page.read_text(encoding="utf-8")))
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    assert not named or named <= {name for path in sources for name in re.findall(r"HARKEN_[A-Z]+", path.read_text())}


def test_a_wrong_name_is_found() -> None:
    assert "train.max_minutes" in KEYS and "train.max_hours" not in KEYS
    assert "--beam" in OPTIONS and "--beams" not in OPTIONS
    assert resolves("harken.nn.LSTM") and not resolves("harken.nn.LTSM") and not resolves("harken.layers")


# ---- links and files ------------------------------------------------------------------------------------------------


@each_page
def test_every_recipe_named_exists(page: Path) -> None:
    kinds = "transformer|attention|rnn|convolutional|classify|tag|seq2seq|forecast|transcribe|caption|handwriting|elmo"
    named = set(re.findall(rf"`([a-z0-9]+(?:-[a-z0-9]+)*-(?:{kinds}))`", page.read_text(encoding="utf-8")))
    assert named - set(recipe_names()) == set()


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


GENERATED = set(
    re.findall(r'^        "(reference/[a-z-]+\.md)": ', (ROOT / "docs" / "build.py").read_text(), re.MULTILINE)
)


@each_page
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if str(target.relative_to(ROOT)).removeprefix("docs/") in GENERATED:
            continue  # `make docs` checks these
        assert target.exists(), f"{page.name} links to {link}"
        assert target.is_relative_to(ROOT), f"{page.name} links out of the project: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}, which has no such heading"


@each_page
def test_tables_have_the_same_number_of_cells_in_every_row(page: Path) -> None:
    for table in re.findall(r"(?:^\|.*\|\n)+", without_blocks(page.read_text(encoding="utf-8")), re.MULTILINE):
        rows = [re.sub(r"`[^`]*`", "", line).replace(r"\|", "").count("|") for line in table.splitlines()]
        assert len(set(rows)) == 1, table[:200]


PACKAGES = "|".join(path.name for path in (ROOT / "src" / "harken").iterdir() if path.is_dir() and path.name[0] != "_")


def named_files(page: Path) -> list[Path]:
    """The source and test files and folders that a page names in backticks."""
    text = page.read_text(encoding="utf-8")
    sources = re.findall(rf"`((?:{PACKAGES})/[a-z0-9_/]+(?:\.py)?)`", text)
    tests = re.findall(r"`(tests/[a-z0-9_/]*(?:\.py)?)`", text)
    return [ROOT / "src" / "harken" / name for name in sources] + [ROOT / name for name in tests]


@each_page
def test_every_source_and_test_file_named_exists(page: Path) -> None:
    assert [str(path) for path in named_files(page) if not path.exists()] == []


def test_files_named_in_the_architecture_are_found() -> None:
    assert len(named_files(ROOT / "docs" / "explanation" / "architecture.md")) > 50


# ---- figures ---------------------------------------------------------------------------------------------------------

RECORD = re.compile(r"\]\(([^)#\s]*records/[^)#\s]+)")
FIGURE = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+)")  # 1,234 or 0.5: no plain whole numbers
SCALES = (1, 100, 1 / 60, 1e-3, 1e3, 1e-6)  # shares as percentages, seconds as minutes, milliseconds, millions


def parts(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs and rows of tables, each with the text whose records it stands on.

    That is its own, or for the row of a table without a link the paragraph before the table.
    """
    before = ""
    for block in re.split(r"\n\s*\n", without_blocks(text)):
        if block.startswith("|"):
            yield from ((row, row if RECORD.search(row) else before) for row in block.splitlines()[2:])
        else:
            yield block, block
            before = block


@functools.cache
def numbers_of(record: Path) -> list[float]:
    """The numbers in a record."""
    text = record.read_text(encoding="utf-8")
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text) if record.suffix == ".md" else text
    return sorted({abs(float(number)) for number in re.findall(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", plain)})


def is_in(figure: str, numbers: Sequence[float]) -> bool:
    """Whether a figure is one of some numbers, rounded to the digits that it has."""
    value, digits = float(figure.replace(",", "")), len(figure.partition(".")[2])
    return any(abs(number * scale - value) <= 0.5000001 * 10**-digits for number in numbers for scale in SCALES)


FIGURES = [(page, *part) for page in PAGES for part in parts(page.read_text("utf-8")) if RECORD.search(part[1])]
OUTSIDE = {ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"}  # these have figures without a record beside them


@pytest.mark.parametrize("page", sorted({page for page, _, _ in FIGURES} - OUTSIDE), ids=name_of)
def test_every_figure_beside_a_record_stands_in_the_record(page: Path) -> None:
    for own, text, source in FIGURES:
        if own == page:
            records = [(page.parent / link).resolve() for link in RECORD.findall(source)]
            assert all(record.is_file() for record in records), records
            numbers = [number for record in records for number in numbers_of(record)]
            plain = re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)
            missing = [figure for figure in FIGURE.findall(plain) if not is_in(figure, numbers)]
            assert not missing, f"{missing} of {plain[:100]!r} in {[record.name for record in records]}"


MEASURED = re.compile(r"\d(?:\.\d+)? ?(?:BLEU\b|tokens/s|words/s|requests/s|times as fast)|\d\.\d+%")


@pytest.mark.parametrize("page", [page for page in DOCS if "learn" not in page.parts], ids=name_of)
def test_every_measured_figure_is_beside_a_record(page: Path) -> None:
    alone = [
        part for part, source in parts(by_hand(page)) if MEASURED.search(prose(part)) and not RECORD.search(source)
    ]
    assert alone == []


def by_hand(page: Path) -> str:
    """A page without the blocks that `docs/fill_lab_page.py` writes, which name the command that measured them."""
    return re.sub(r"<!-- ([a-z-]+) -->.*?<!-- /\1 -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_a_wrong_figure_is_found() -> None:
    assert len(FIGURES) > 150
    assert is_in("82.9", [0.82913]) and not is_in("82.8", [0.82913])
    assert is_in("1,441", [1441.2]) and not is_in("1,442", [1441.2])


def test_the_pages_written_by_hand_are_short_enough() -> None:
    prose = [re.sub(r"```.*?```", "", by_hand(page), flags=re.DOTALL) for page in DOCS]
    words = [word for text in prose for word in text.split() if any(letter.isalnum() for letter in word)]
    assert 20_000 < len(words) < 32_000


# ---- recipes --------------------------------------------------------------------------------------------------------


def test_the_recipe_in_the_readme_loads(tmp_path: Path) -> None:
    (recipe,) = blocks(ROOT / "README.md", "toml")
    path = tmp_path / "my.toml"
    path.write_text(recipe)
    loaded = load_recipe(path)
    assert (loaded.data.source, loaded.data.test_size, loaded.train.max_minutes) == (
        str(tmp_path / "train.en"),
        1000,
        60,
    )


RECIPES = [(page, text) for page in PAGES for text in blocks(page, "toml") if page != EXTENDING]
BASES = {"start =": "phrasebook-tag", "elmo =": "opinions-classify", "": "phrasebook-transformer"}  # for fragments


@pytest.mark.parametrize(("page", "text"), RECIPES, ids=[name_of(page) for page, _ in RECIPES])
def test_every_toml_block_is_a_recipe_or_fits_into_one(page: Path, text: str, tmp_path: Path) -> None:
    values = tomllib.loads(text)
    if not {"data", "train"} <= values.keys():
        base = next(recipe for key, recipe in BASES.items() if key in text)
        values = tomllib.loads(recipe_text(base)) | values
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    load_recipe(tmp_path / "recipe.toml")


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """The generated pages of the site, by their paths."""
    return runpy.run_path(str(ROOT / "docs" / "build.py"))["pages"]()


def test_the_generated_pages_have_every_command_recipe_key_and_route(generated: dict[str, str]) -> None:
    assert generated.keys() >= GENERATED
    commands, http = generated["reference/commands.md"], generated["reference/http.md"]
    shown = {name: command for name, command in COMMANDS.commands.items() if not command.hidden}
    options = {flag for command in shown.values() for one in command.params if not one.hidden for flag in one.opts}
    assert set(re.findall(r"^## (\w+)$", commands, re.MULTILINE)) == shown.keys()
    assert {flag for flag in options if flag.startswith("--")} - {"--help"} <= set(
        re.findall(r"`(--[a-z0-9-]+)`", commands)
    )
    assert "### POST /v1/classify" in http and "### POST /v2/translate" in http and "`beam`" in http
    keys = generated["reference/recipes.md"] + generated["reference/recipes-jobs.md"]
    listed = set(re.findall(r"^\| `(\w+)`", keys, re.MULTILINE))
    assert {key.rpartition(".")[2] for key in KEYS if "." in key} <= listed
    assert '## task = "classify"' in keys and "## classify" in generated["reference/jobs.md"]


@pytest.mark.parametrize("page", sorted(GENERATED))
def test_the_commands_of_generated_pages_parse(page: str, generated: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(generated[page], encoding="utf-8")
    for words in shell_commands(tmp_path / "page.md"):
        if words[0] == "harken" and "--help" not in words:
            parse(words[1:])


# ---- Python ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Path]) -> Path:
    """A folder with the files that the examples read and a barely trained model of every job in runs/."""
    from PIL import Image

    from harken.api import train

    folder = tmp_path_factory.mktemp("docs")
    dates = [f"{1949 + k // 12}-{k % 12 + 1:02d}" for k in range(120)]
    rows = [f"{date},{100 + k}" for k, date in enumerate(dates)]
    (folder / "airline-passengers.csv").write_text("\n".join(["Month,Passengers", *rows]) + "\n")
    Image.fromarray(np.full((32, 32, 3), 200, np.uint8)).save(folder / "picture.png")
    with wave.open(str(folder / "recording.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes((3000 * np.sin(np.arange(6000) / 3)).astype("<i2").tobytes())
    phrasebook = [*CPU, *LIMITS, *SMALL["phrasebook-transformer"]]
    train("phrasebook-transformer", folder / "runs" / "phrasebook", overrides=phrasebook, progress=False)
    series = [*CPU, *LIMITS, *SMALL["series-forecast"], f"data.train={folder / 'airline-passengers.csv'}"]
    train("series-forecast", folder / "runs" / "airline", overrides=series, progress=False)
    for name, recipe in FOLDERS.items():
        shutil.copytree(tiny_model(recipe), folder / "runs" / name)
    return folder


def small_train(tiny_model: Callable[[str], Path]) -> Callable[..., Any]:
    """`harken.train` with its arguments checked and the training cut to two updates of a small model."""
    import harken.api
    from harken.recipe import as_recipe

    real = harken.api.train

    def train(recipe: Any, out: Any, *, overrides: Sequence[str] = (), **options: Any) -> Any:
        inspect.signature(real).bind(recipe, out, overrides=overrides, **options)
        if options.get("data") is not None:
            return real(recipe, out, overrides=overrides, **options)
        as_recipe(recipe, overrides)
        if not options.get("resume"):
            shutil.rmtree(out, ignore_errors=True)
        if recipe in SMALL:
            options["progress"] = False
            return real(recipe, out, overrides=[*overrides, *CPU, *LIMITS, *SMALL[recipe]], **options)
        shutil.copytree(tiny_model(recipe), out)
        return harken.api.load(out)

    return train


def small_sweep(recipe: Any, out: Any, **options: Any) -> Any:
    """`harken.sweep` of small models of the phrasebook."""
    from harken.sweeps.sweep import sweep

    small = [*CPU, *LIMITS, *NARROW, "data.size=60", "train.validate_every=1"]
    return sweep(recipe, out, overrides=small, progress=False, **options)


EXAMPLES = [
    (page, number, code)
    for page in PAGES
    if page != EXTENDING
    for number, code in enumerate(blocks(page, "python", "py"), 1)
]


@pytest.mark.parametrize(
    ("page", "number", "code"), EXAMPLES, ids=[f"{name_of(page)}-{number}" for page, number, _ in EXAMPLES]
)
def test_every_python_block_runs(
    page: Path,
    number: int,
    code: str,
    workplace: Path,
    tiny_model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import harken

    monkeypatch.chdir(workplace)
    monkeypatch.setattr(harken, "train", small_train(tiny_model))
    monkeypatch.setattr(harken, "sweep", small_sweep)
    monkeypatch.setattr("harken.tasks.translate.translator.cores", lambda: 1, raising=False)  # skips a timing run
    example = workplace / f"{page.stem}-{number}.py"
    example.write_text(code.replace("train=60000", "train=600"), encoding="utf-8")
    runpy.run_path(str(example))


def test_python_blocks_are_found_on_the_pages_that_have_them() -> None:
    pages = {name_of(page) for page, _, _ in EXAMPLES}
    assert pages >= {"README.md", "docs/how-to/python.md", "docs/how-to/alignment.md", "docs/how-to/tag.md"}
    assert len(EXAMPLES) >= 30
