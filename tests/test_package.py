"""The package itself: `import harken` is quick and lazy, and gives what it promises."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

import harken

ROOT = Path(__file__).parents[1]


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


def test_the_wheel_holds_the_corpus_and_its_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    package = ROOT / "src" / "harken"
    patterns = project["tool"]["setuptools"]["package-data"]["harken"]
    data = {str(path.relative_to(package)) for pattern in patterns for path in package.glob(pattern)}
    assert {"data/tatoeba/en-fr.tsv.xz", "data/tatoeba/ATTRIBUTION.txt"} <= data
    assert "src/harken/data/tatoeba/ATTRIBUTION.txt" in project["project"]["license-files"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "https://tatoeba.org" in readme and "CC BY 2.0 FR" in readme
