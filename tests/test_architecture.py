"""Which packages may import which: read from the import statements, without running anything."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harken

PACKAGE = Path(harken.__file__).parent

# Package -> what it may import of harken beside itself. The outer files (api, translator ...) are free but for `cli`.
BASE = {"errors", "files", "machine", "paths", "worker_pool"}  # what every package may import
INNER_PACKAGES = {"nn", "kernels", "models", "data", "training", "search", "metrics", "inspection"}
ALLOWED = {
    "nn": {"kernels", "registry"},
    "kernels": set[str](),
    "models": {"nn", "kernels", "registry", "errors"},
    "data": {"errors"},
    "search": {"data", "kernels", "errors"},
    "metrics": {"data", "errors"},
    "inspection": {"nn", "errors"},
    "embeddings": {"data", "metrics", "kernels", "errors"},
    "tasks": {
        "data",
        "models",
        "nn",
        "search",
        "metrics",
        "inspection",
        "embeddings",
        "training",
        "recipe",
        "registry",
        "errors",
    },
    "export": {"tasks", "models", "nn", "data", "errors"},
    "estimators": {"tasks", "training", "data", "metrics", "recipe", "registry", "plan", "card", "api", "errors"},
    "serving": INNER_PACKAGES | {"tasks", "api", "recipe", "registry", "errors"},
    "lab": INNER_PACKAGES | {"embeddings", "tasks", "api", "card", "recipe", "registry", "errors"},
    "studio": INNER_PACKAGES | {"serving", "lab", "tasks", "api", "registry", "errors"},
}


def modules_of(tree: ast.AST, package: list[str]) -> Iterator[str]:
    """Every module an `import` anywhere in the file names; `package` is where relative imports start."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*before, node.module] if node.module else before)
            # `from harken import nn` names a package; `from harken.nn import LSTM` has named it already
            yield from (f"{base}.{alias.name}" for alias in node.names) if base == "harken" else (base,)


def packages_imported(text: str, package: list[str]) -> set[str]:
    """The packages, or top-level modules, of harken that a source file imports."""
    names = (module.split(".") for module in modules_of(ast.parse(text), package))
    return {parts[1] for parts in names if parts[0] == "harken" and len(parts) > 1}


def files_of(package: str) -> list[Path]:
    return sorted((PACKAGE / package).rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    package = ["harken", *path.relative_to(PACKAGE).parts[:-1]]
    return packages_imported(path.read_text(encoding="utf-8"), package)


def test_imports_are_found_however_they_are_written() -> None:
    text = "import harken.cli.app\nfrom harken import nn\ndef f():\n    from ..data.pairs import Pair\n"
    assert packages_imported(text, ["harken", "models"]) == {"cli", "nn", "data"}
    assert packages_imported("from . import masks", ["harken", "nn"]) == {"nn"}


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    assert files_of(package), f"the package {package} is empty"
    wrong = {
        str(path.relative_to(PACKAGE)): sorted(extra)
        for path in files_of(package)
        if (extra := imports_of(path) - ALLOWED[package] - BASE - {package})
    }
    assert wrong == {}


def test_the_trainer_knows_nothing_of_any_task() -> None:
    trainer = files_of("training")
    assert len(trainer) >= 8
    allowed = BASE | {"training", "kernels"}
    wrong = {path.name: sorted(extra) for path in trainer if (extra := imports_of(path) - allowed)}
    assert wrong == {}


def test_nobody_imports_the_command_line() -> None:
    outside = [
        path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in ("cli", "__main__.py")
    ]
    assert len(outside) > 50
    assert [str(path) for path in outside if "cli" in imports_of(path)] == []


def test_every_package_is_in_the_architecture_page() -> None:
    page = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and not path.name.startswith("_"))
    assert [package for package in packages if f"`{package}/`" not in page] == []
