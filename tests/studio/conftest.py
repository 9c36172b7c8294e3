"""A folder of runs with barely trained models: a Transformer, a recurrent translator, and models of other jobs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

RECURRENT = [
    "data.size=200", "model.embedding=8", "model.width=8", "train.max_steps=2", "train.max_minutes=none",
    "train.validate_sentences=2", "train.batch_tokens=100", "train.workers=1", "train.threads=1", "train.device=cpu",
    "train.precision=float32", "train.average=0.0", "train.warmup_steps=0",
]  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty cache folder, in which no model of the studio's own is trained."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def runs(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder: transformer, attention (recurrent), opinions (a classifier)."""
    from harken.api import train

    root = tmp_path_factory.mktemp("runs")
    train("phrasebook-attention", root / "attention", overrides=RECURRENT, progress=False)
    for name, recipe in (("transformer", "phrasebook-transformer"), ("opinions", "opinions-classify")):
        (root / name).symlink_to(tiny_model(recipe))
    return root


@pytest.fixture(scope="session")
def library(runs: Path) -> Any:
    """The library of that folder."""
    from harken.studio.library import Library

    return Library(root=runs, device="cpu")


@pytest.fixture(scope="session")
def transformer(library: Any) -> Any:
    """The Transformer of the library."""
    return library.open("transformer").model


@pytest.fixture(scope="session")
def attention(library: Any) -> Any:
    """The recurrent translator of the library."""
    return library.open("attention").model
