"""What the machine is asked, with answers put in its mouth."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harken.errors import UserError
from harken.training import device
from harken.training.device import ISA, SAFE_ISA, choose_device, choose_precision, choose_workers, prepare_environment


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    device.bfloat16_speedup.cache_clear()
    yield
    device.bfloat16_speedup.cache_clear()


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str | None]]:
    """Say how much faster bfloat16 is, as the machine stands and held back; gives the trials that were made."""

    def answer(plain: float, held_back: float = 0.0) -> list[str | None]:
        made: list[str | None] = []

        def trial(environment: dict[str, str]) -> float:
            made.append(environment.get(ISA))
            return held_back if environment.get(ISA) == SAFE_ISA else plain

        monkeypatch.setattr(device, "_trial", trial)
        return made

    monkeypatch.delenv(ISA, raising=False)
    return answer


@pytest.mark.parametrize(
    ("speedup", "wanted", "chosen"),
    [
        (0.0, "auto", "float32"),
        (1.1, "auto", "float32"),
        (2.0, "auto", "bfloat16"),
        (2.0, "float32", "float32"),
        (0.5, "bfloat16", "bfloat16"),
        (0.0, "float32", "float32"),
    ],
)
def test_precision_on_a_cpu(trials: Callable, speedup: float, wanted: str, chosen: str) -> None:
    trials(speedup)
    assert choose_precision(wanted, "cpu") == chosen


def test_bfloat16_that_crashes_is_refused(trials: Callable) -> None:
    trials(0.0)
    with pytest.raises(UserError, match=f"crashes on this CPU; set {ISA}={SAFE_ISA} .* or use float32"):
        choose_precision("bfloat16", "cpu")


@pytest.mark.parametrize(("able", "chosen"), [(True, "bfloat16"), (False, "float32")])
def test_precision_on_a_gpu_needs_no_trial(
    monkeypatch: pytest.MonkeyPatch, trials: Callable, able: bool, chosen: str
) -> None:
    made = trials(0.0)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: able)
    assert choose_precision("auto", "cuda:0") == chosen
    assert choose_precision("float32", "cuda") == "float32"
    assert made == []


def test_the_trial_is_made_once(trials: Callable) -> None:
    made = trials(2.0)
    assert [choose_precision("auto", "cpu") for _ in range(3)] == ["bfloat16"] * 3
    assert made == [None]


def test_what_was_measured_is_kept_for_later_processes_with_the_same_instruction_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "_TRIAL", "import time; print(1 + time.time() % 1)")
    first = device.bfloat16_speedup()
    device.bfloat16_speedup.cache_clear()
    assert device.bfloat16_speedup() == first
    monkeypatch.setenv(ISA, SAFE_ISA)
    device.bfloat16_speedup.cache_clear()
    assert device.bfloat16_speedup() != first


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("print(2.5)", 2.5),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", 0.0),
        ("print(9); raise SystemExit(1)", 0.0),
        ("print('fast')", 0.0),
    ],
)
def test_a_child_that_dies_counts_as_0(monkeypatch: pytest.MonkeyPatch, code: str, found: float) -> None:
    monkeypatch.setattr(device, "_TRIAL", code)
    assert device.bfloat16_speedup() == found


def test_a_child_that_a_busy_machine_does_not_finish_is_neither_faster_nor_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*_: object, **__: object) -> None:
        raise device.subprocess.TimeoutExpired("python", 60)

    monkeypatch.setattr(device.subprocess, "run", late)
    assert choose_precision("auto", "cpu") == "float32"
    assert choose_precision("bfloat16", "cpu") == "bfloat16"


@pytest.mark.parametrize(
    ("plain", "held_back", "value"), [(0.0, 2.0, SAFE_ISA), (0.0, 1.0, None), (0.0, 0.0, None), (3.0, 3.0, None)]
)
def test_the_environment_is_changed_only_where_it_helps(
    monkeypatch: pytest.MonkeyPatch, trials: Callable, plain: float, held_back: float, value: str | None
) -> None:
    trials(plain, held_back)
    monkeypatch.setattr(device, "sys", SimpleNamespace(modules={}))
    prepare_environment()
    assert os.environ.get(ISA) == value
    monkeypatch.undo()  # also takes the variable away again, where the fixture removed one


def test_nothing_is_tried_where_it_is_too_late_or_decided(monkeypatch: pytest.MonkeyPatch, trials: Callable) -> None:
    made = trials(0.0, 2.0)
    prepare_environment()  # torch is loaded in this process
    assert made == [] and ISA not in os.environ
    monkeypatch.setattr(device, "sys", SimpleNamespace(modules={}))
    monkeypatch.setenv(ISA, "AVX2")
    prepare_environment()
    assert made == [] and os.environ[ISA] == "AVX2"


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == "cpu"
    assert choose_device("cpu") == "cpu"
    with pytest.raises(UserError, match="'cuda:1' needs a CUDA device, and torch finds none; use auto or cpu"):
        choose_device("cuda:1")
    with pytest.raises(UserError, match="'toaster' is not a device; use auto, cpu, cuda or cuda:N"):
        choose_device("toaster")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == "cuda"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == "cuda:1"
    with pytest.raises(UserError, match="'cuda:2' needs CUDA device 2, and torch finds 2; use auto"):
        choose_device("cuda:2")


def test_workers_are_one_a_core_up_to_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, workers in ((1, 1), (2, 2), (64, 8)):
        monkeypatch.setattr(device, "available_cores", lambda cores=cores: cores)
        assert choose_workers() == workers
    monkeypatch.setattr(device, "sys", SimpleNamespace(platform="darwin"))
    assert choose_workers() == 1
