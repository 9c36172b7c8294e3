"""The examples in the docstrings of every module hold, and every module can be imported."""

import doctest
import importlib
from pathlib import Path

import pytest

import harken

PACKAGE = Path(harken.__file__).parent


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
WITH_EXAMPLES = [name for name, text in MODULES.items() if ">>> " in text]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", [name for name in MODULES if name not in WITH_EXAMPLES])
def test_imports(name: str) -> None:
    assert importlib.import_module(name).__doc__
