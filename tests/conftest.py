"""What all tests share: one torch thread, small models, and the way to the data sets beside the project."""

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)
# Machines are shared and nothing may fail by chance: the same examples every time, but for HYPOTHESIS_PROFILE=random
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("harken", settings.get_profile("random"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "harken"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The robustness tests first: they take longest, and fork fastest while the process is small."""
    items.sort(key=lambda item: "robustness" not in item.path.parts)


def pytest_runtest_setup() -> None:
    """The same random numbers for a test whichever tests ran before it in its process."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say at once what failed, since a run that is stopped never comes to its summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = str(report.longrepr if crash is None else crash.message).strip()
        print(f"\nFAILED {report.nodeid}\n{reason[-2000:]}", file=sys.__stderr__, flush=True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets: HARKEN_SHARED, else shared/data in a folder above; the test is skipped without it."""
    named = os.environ.get("HARKEN_SHARED")
    above = Path(__file__).resolve().parents
    for folder in [Path(named)] if named else [parent / "shared" / "data" for parent in above]:
        if folder.is_dir():
            return folder
    pytest.skip("the data sets (../shared/data, or HARKEN_SHARED) are not here")


SHORT = [
    "train.max_steps=2",
    "train.max_epochs=none",
    "train.max_minutes=none",
    "train.average=0.0",
    "train.warmup_steps=0",
    "train.workers=1",
    "train.threads=1",
    "train.device=cpu",
    "train.precision=float32",
]
NARROW = ["model.width=8", "model.embedding=8"]
TINY = {  # recipe -> what makes it small enough to be trained in a second
    "phrasebook-transformer": [
        "data.size=200",
        "model.layers=1",
        "model.width=16",
        "model.heads=2",
        "model.feedforward=16",
        "train.validate_sentences=2",
        "train.batch_tokens=100",
    ],
    "tatoeba-transformer": [
        "data.size=2000",
        "tokenizer.size=500",
        "model.layers=1",
        "model.width=16",
        "model.heads=2",
        "model.feedforward=16",
        "train.validate_sentences=2",
        "train.batch_tokens=100",
        "search.max_length_factor=1.0",
    ],
    "opinions-classify": ["data.size=60", "train.batch_tokens=100", *NARROW],
    "gestures-classify": ["data.size=60", "train.batch_tokens=200", *NARROW],
    "phrasebook-tag": ["data.size=60", "train.batch_tokens=100", *NARROW],
    "phrasebook-language": ["data.size=60", "train.batch_tokens=100", *NARROW],
    "phrasebook-masked": ["data.size=60", "train.batch_tokens=100", "model.width=16", "model.feedforward=16"],
    "phrasebook-elmo": ["data.size=60", "train.batch_tokens=100", "model.width=8", "model.character_width=16"],
    "seasons-forecast": ["data.series=2", "train.batch_tokens=200", *NARROW],
    "tones-transcribe": ["data.size=8", "data.valid_size=4", "data.test_size=2", "train.batch_tokens=100", *NARROW],
    "stories-answer": ["data.size=60", "model.width=8", "model.reader='gru'"],
    "scenes-caption": [
        "data.scenes=20",
        "data.image_size=32",
        "model.channels=[8, 8]",
        "model.depth=[0, 0]",
        "model.width=8",
        "model.decoder.width=8",
        "model.decoder.embedding=8",
        "train.validate_sentences=2",
        "train.batch_tokens=100",
    ],
    "penfont-handwriting": [
        "data.size=20",
        "model.width=8",
        "model.mixtures=2",
        "model.window=2",
        "model.embedding=4",
        "train.batch_tokens=200",
        "sampling.max_points=20",
    ],
}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a barely trained model of an embedded recipe, trained when a test of any process first asks."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tiny"
    folder.mkdir(exist_ok=True)

    def folder_of(recipe: str) -> Path:
        from harken.api import train

        with FileLock(folder / f"{recipe}.lock"):
            if not (folder / f"{recipe}.trained").exists():
                train(recipe, folder / recipe, overrides=[*SHORT, *TINY[recipe]], progress=False)
                (folder / f"{recipe}.trained").touch()
        return folder / recipe

    return folder_of
