"""The rooms of the house and which way they may call: read from the imports, without running anything."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harken

HOUSE = Path(harken.__file__).parent

# Room -> what it may import of harken beside itself. The outer files (api, translator ...) are free but for `cli`.
BASE = {"errors", "files"}  # what every package may import
ROOMS_INWARD = {"nn", "kernels", "models", "data", "training", "search", "metrics", "inspection"}
ALLOWED = {
    "nn": {"kernels", "registry"},
    "kernels": set[str](),
    "models": {"nn", "kernels", "registry", "errors"},
    "data": {"errors"},
    "search": {"data", "errors"},
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
    "estimators": {"tasks", "training", "data", "metrics", "recipe", "registry", "run", "card", "api", "errors"},
    "lab": ROOMS_INWARD | {"embeddings", "tasks", "api", "card", "recipe", "errors"},
}


def modules_of(tree: ast.AST, package: list[str]) -> Iterator[str]:
    """Every module an `import` anywhere in the file names; `package` is where relative imports start."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*before, node.module] if node.module else before)
            # `from harken import nn` names a room; `from harken.nn import LSTM` has named it already
            yield from (f"{base}.{alias.name}" for alias in node.names) if base == "harken" else (base,)


def rooms_imported(text: str, package: list[str]) -> set[str]:
    """The rooms, or outer files, of harken that a source file imports."""
    names = (module.split(".") for module in modules_of(ast.parse(text), package))
    return {parts[1] for parts in names if parts[0] == "harken" and len(parts) > 1}


def files_of(room: str) -> list[Path]:
    return sorted((HOUSE / room).rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    package = ["harken", *path.relative_to(HOUSE).parts[:-1]]
    return rooms_imported(path.read_text(encoding="utf-8"), package)


def test_imports_are_seen_however_they_are_written() -> None:
    text = "import harken.cli.app\nfrom harken import nn\ndef f():\n    from ..data.pairs import Pair\n"
    assert rooms_imported(text, ["harken", "models"]) == {"cli", "nn", "data"}
    assert rooms_imported("from . import masks", ["harken", "nn"]) == {"nn"}


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    assert files_of(room), f"the room {room} is empty"
    wrong = {
        str(path.relative_to(HOUSE)): sorted(extra)
        for path in files_of(room)
        if (extra := imports_of(path) - ALLOWED[room] - BASE - {room})
    }
    assert wrong == {}


def test_the_trainer_knows_nothing_of_any_task() -> None:
    trainer = files_of("training")
    assert len(trainer) >= 8
    wrong = {path.name: sorted(extra) for path in trainer if (extra := imports_of(path) - BASE - {"training"})}
    assert wrong == {}


def test_nobody_imports_the_command_line() -> None:
    outside = [path for path in HOUSE.rglob("*.py") if path.relative_to(HOUSE).parts[0] not in ("cli", "__main__.py")]
    assert len(outside) > 50
    assert [str(path) for path in outside if "cli" in imports_of(path)] == []


def test_every_room_is_on_the_map() -> None:
    page = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = sorted(path.name for path in HOUSE.iterdir() if path.is_dir() and not path.name.startswith("_"))
    assert [room for room in rooms if f"`{room}/`" not in page] == []
