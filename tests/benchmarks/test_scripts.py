"""Every benchmark can be imported: what it takes from harken is there."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = {"ctranslate2", "joeynmt", "transformers", "triton"}  # peers, which have environments of their own


STARTS = {"serving_peer"}  # a server from its first line


@pytest.mark.parametrize("name", sorted({path.stem for path in (ROOT / "benchmarks").glob("*.py")} - STARTS))
def test_a_benchmark_finds_what_it_imports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), str(ROOT / "benchmarks"), *sys.path])
    monkeypatch.setattr(sys, "argv", [name])
    try:
        importlib.import_module(f"benchmarks.{name}" if name.startswith("gpu_") else name)
    except ModuleNotFoundError as error:
        if error.name not in FOREIGN:
            raise
