"""Which packages may import which: read from the import statements, without running anything."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harken

PACKAGE = Path(harken.__file__).parent

# Package, or module at the top -> what it may import of harken beside itself and `BASE`.
BASE = {"errors", "files", "lazy_torch", "machine", "paths", "worker_pool"}
INNER_PACKAGES = {"nn", "kernels", "models", "data", "training", "search", "metrics", "inspection"}
RUNS = {"plan", "run_folders", "run", "train_module", "checking", "card"}  # from a recipe to a model folder
ALLOWED = {
    "nn": {"kernels", "registry"},
    "kernels": set[str](),
    "models": {"nn", "kernels", "registry", "data"},  # data: the ids of special tokens
    "data": set[str](),
    "search": {"data", "kernels"},
    "metrics": {"data"},
    "inspection": {"nn"},
    "embeddings": {"data", "metrics", "kernels"},
    "training": {"kernels"},
    "recipe": {"data", "training", "registry"},
    "tasks": INNER_PACKAGES - {"kernels"} | {"embeddings", "recipe", "registry"},
    "run_folders": {"inspection", "metrics", "recipe", "tasks", "training"},
    "sweeps": {"api", "inspection", "metrics", "recipe", "registry", "run", "run_folders", "serving"}
    | {"tasks", "training"},
    "adopt": {"api", "tasks", "training", "recipe", "data"},
    "export": {"adopt", "tasks", "training", "models", "nn", "kernels", "data"},
    "estimators": {"tasks", "training", "data", "metrics", "recipe", "registry", "plan", "card", "api", "run"},
    "serving": INNER_PACKAGES | {"tasks", "api", "recipe", "registry"},
    "lab": INNER_PACKAGES | {"embeddings", "tasks", "api", "card", "plan", "recipe", "registry", "sweeps"},
    "learn": {"inspection"},
    "studio": INNER_PACKAGES | {"serving", "lab", "learn", "run_folders", "tasks", "api", "registry"},
    "cli": INNER_PACKAGES
    | {"api", "checking", "embeddings", "export", "lab", "recipe", "registry", "run_folders", "serving", "studio"}
    | {"adopt", "learn", "sweeps", "tasks"},
    "errors": set[str](),
    "files": set[str](),
    "lazy_torch": set[str](),
    "machine": set[str](),
    "paths": set[str](),
    "worker_pool": set[str](),
    "registry": set[str](),
    "plan": {"recipe", "tasks", "training"},
    "card": {"recipe", "tasks", "training"},
    "run": {"card", "data", "plan", "recipe", "run_folders", "tasks", "training"},
    "train_module": {"recipe", "run_folders", "training"},
    "checking": {"models", "plan", "recipe", "training"},
    "api": RUNS | {"data", "models", "recipe", "registry", "tasks", "training"},
    "__init__": {"api", "checking", "estimators", "nn", "recipe", "registry", "run_folders", "sweeps", "tasks"},
    "__main__": {"cli"},
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
    """Of a package all files, of a module at the top its own."""
    alone = PACKAGE / f"{package}.py"
    return [alone] if alone.is_file() else sorted((PACKAGE / package).rglob("*.py"))


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


def test_every_package_and_module_has_a_rule() -> None:
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert sorted(parts) == sorted(ALLOWED)


def test_no_package_imports_itself_through_others() -> None:
    """Modules at the top count as packages; imports inside functions count too."""
    edges = {part: set[str]().union(*map(imports_of, files_of(part))) - {part} for part in ALLOWED}
    while free := [part for part, imported in edges.items() if not imported & edges.keys()]:
        for part in free:
            del edges[part]
    assert edges == {}, "a cycle is among these"


def test_nobody_imports_the_command_line() -> None:
    outside = [
        path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in ("cli", "__main__.py")
    ]
    assert len(outside) > 50
    assert [str(path) for path in outside if "cli" in imports_of(path)] == []


def test_every_package_is_in_the_architecture_page() -> None:
    page = (Path(__file__).parent.parent / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    packages = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and not path.name.startswith("_"))
    assert [package for package in packages if f"`{package}/`" not in page] == []
