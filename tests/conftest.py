"""What all tests share: one torch thread, and the way to the data sets beside the project."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)
settings.register_profile("harken", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines are shared
settings.load_profile("harken")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets: HARKEN_SHARED, else shared/data in a folder above; the test is skipped without it."""
    named = os.environ.get("HARKEN_SHARED")
    above = Path(__file__).resolve().parents
    for folder in [Path(named)] if named else [parent / "shared" / "data" for parent in above]:
        if folder.is_dir():
            return folder
    pytest.skip("the data sets (../shared/data, or HARKEN_SHARED) are not here")
