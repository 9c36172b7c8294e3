"""The package itself: `import harken` is quick and lazy, and gives what it promises."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

import harken

ROOT = Path(__file__).parents[1]
LARGEST_WHEEL = 6_000_000  # bytes


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, harken; print(sorted({'torch', 'numpy', 'pydantic', 'rich', 'typer'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_come_from_where_they_are_defined() -> None:
    from harken import api
    from harken.checking import check
    from harken.errors import UserError

    assert harken.UserError is UserError
    assert harken.check is check is api.check
    assert harken.nn.__name__ == "harken.nn"
    assert set(harken.__all__) <= set(dir(harken))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        harken.nothing  # noqa: B018


def test_the_layers_load_no_compiler() -> None:
    """`torch._dynamo` alone takes over a second; it is loaded when something is compiled, not before."""
    code = "import sys, torch, harken.nn; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_job_has_its_object() -> None:
    import harken

    names = (
        "Answerer",
        "Captioner",
        "Classifier",
        "Forecaster",
        "LanguageModel",
        "MaskedLanguageModel",
        "HandwritingSynthesizer",
    )
    for name in (*names, "Regressor", "Tagger", "Transcriber", "Translator"):
        found = getattr(harken, name)
        assert found.__name__ == name and name in harken.__all__
    assert (harken.MaskedReader, harken.Penman) == (harken.MaskedLanguageModel, harken.HandwritingSynthesizer)


def test_the_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "harken.__version__"}
    newest = re.search(r"^## \[(\S+)\](?: (\d\S*))?", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    unreleased = newest[1] == "Unreleased"
    assert Version(harken.__version__).base_version == (newest[2] if unreleased else newest[1])
    assert Version(harken.__version__).is_prerelease == unreleased
    # Beside the changelog, no file of the package or about it repeats the version.
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "pyproject.toml", ROOT / "CITATION.cff", ROOT / "Dockerfile"]
    quoted = re.compile(rf"""["' ]{re.escape(harken.__version__)}["'\n]""")
    named = [path.relative_to(ROOT).as_posix() for path in files if quoted.search(path.read_text(encoding="utf-8"))]
    assert named == ["src/harken/__init__.py"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of the sources, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(folder)], check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("harken-*.whl")))


def test_the_wheel_is_small_and_holds_all_data(wheel: zipfile.ZipFile) -> None:
    assert wheel.filename is not None and Path(wheel.filename).stat().st_size <= LARGEST_WHEEL
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode == 0 and tracked.stdout:  # not in an sdist
        files = {name.removeprefix("src/") for name in tracked.stdout.splitlines() if (ROOT / name).is_file()}
        assert files <= set(wheel.namelist())


def test_everything_vendored_has_its_licence_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    licences = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert "LICENSE" in licences
    vendored = {str(Path(name).parent) for name in names if "/vendor/" in name and "dist-info" not in name}
    assert vendored == {"harken/studio/static/vendor"}
    assert {f"src/{folder}/LICENSES.txt" for folder in vendored} <= licences
    for asset in (path for path in (ROOT / "src/harken/studio/static/vendor").iterdir() if path.suffix == ".js"):
        assert f"{asset.name}:" in (asset.parent / "LICENSES.txt").read_text(encoding="utf-8")
    assert {"harken/data/tatoeba/en-fr.tsv.xz", "harken/data/tatoeba/ATTRIBUTION.txt"} <= set(names)
    assert "src/harken/data/tatoeba/ATTRIBUTION.txt" in licences
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "https://tatoeba.org" in readme and "CC BY 2.0 FR" in readme


def test_a_release_has_absolute_links_only() -> None:
    tools = runpy.run_path(str(ROOT / ".ci" / "absolute_links.py"))
    assert tools["absolute"]("[a](b.md#c) ![d](e.png) [f](https://g.h) [i](#j)", "https://x.org/o/r", "v1") == (
        "[a](https://x.org/o/r/blob/v1/b.md#c) ![d](https://x.org/o/r/raw/v1/e.png) [f](https://g.h) [i](#j)"
    )
    readme = tools["absolute"]((ROOT / "README.md").read_text(encoding="utf-8"), "https://x.org/o/r", "v1")
    targets = re.findall(r"\]\(([^)]*)\)", readme)
    assert len(targets) > 30 and all(target.startswith("https://") for target in targets)
    assert set(tomllib.loads(tools["urls"]("https://x.org/o/r", "v1"))["project"]["urls"]) >= {"Homepage", "Issues"}
