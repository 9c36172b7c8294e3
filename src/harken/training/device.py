"""Hardware choices: the device, the number of processes, and whether bfloat16 works and is faster.

Small matrices do not profit from several threads: synchronisation costs more than it gains. So on a CPU harken trains
with one process per core, each with one thread and its own share of the batch (`harken.training.strategies.forked`).

bfloat16 through oneDNN can crash with an illegal instruction where a machine reports instructions that it lacks, so it
is tried in a child process first and used only where the child succeeds and is clearly faster.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import atomic_write, cache_folder
from harken.machine import available_cores
from harken.training.config import Decision, TrainConfig

ISA = "ONEDNN_MAX_CPU_ISA"
SAFE_ISA = "AVX512_CORE_BF16"
AUTO_KEYS = ("device", "precision", "workers", "threads")  # of [train]: chosen for the machine where they are open
MIN_SPEEDUP = 1.3  # of bfloat16 products, from which auto uses bfloat16

_TRIAL = """
import time, torch
torch.set_num_threads(1)
def best(dtype):
    a, b = torch.randn(512, 256, dtype=dtype), torch.randn(1024, 256, dtype=dtype)
    times = []
    for _ in range(12):
        start = time.perf_counter(); a @ b.t(); times.append(time.perf_counter() - start)
    return min(times)
exact = torch.randn(64, 64); half = exact.bfloat16()
assert ((half @ half).float() - half.float() @ half.float()).abs().max() < 1
print(best(torch.float32) / best(torch.bfloat16))
"""


def choose_machine(train: TrainConfig) -> tuple[TrainConfig, tuple[Decision, ...]]:
    """Settings with device, precision, processes and threads for this machine where they are open, and the reasons."""
    device = choose_device(train.device)
    chosen = {
        "device": (device, "a GPU where there is one"),
        "precision": (choose_precision(train.precision, device), "bfloat16 where it works and is faster"),
        "workers": (
            train.workers or (choose_workers() if device == "cpu" else 1),
            "one for each core, at most eight" if device == "cpu" else "one process feeds a GPU",
        ),
        "threads": (train.threads or 1, "small matrices do not gain from more"),
    }
    values = {key: value for key, (value, _) in chosen.items()}
    decisions = [Decision(f"train.{key}", *chosen[key]) for key in AUTO_KEYS if values[key] != getattr(train, key)]
    return train.model_copy(update=values), tuple(decisions)


def fill_open(train: TrainConfig, known: Mapping[str, Any]) -> TrainConfig:
    """Settings with the values that an earlier start chose for the machine, where they are open."""
    values = {key: known[key] for key in AUTO_KEYS if key in known and getattr(train, key) in ("auto", None)}
    return train.model_copy(update=values)


def choose_workers() -> int:
    """Processes to train with on a CPU: one per core, up to eight; one where processes cannot be forked."""
    return min(8, available_cores()) if sys.platform.startswith("linux") else 1


def choose_device(name: str) -> str:
    """Resolve a device: `auto` is a GPU where there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as problem:
        raise UserError(f"train.device {name!r} is not a device; use auto, cpu, cuda or cuda:N") from problem
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"train.device {name!r} needs a CUDA device, and torch finds none; use auto or cpu")
    if device.type == "cuda" and (device.index or 0) >= max(1, count := torch.cuda.device_count()):
        raise UserError(f"train.device {name!r} needs CUDA device {device.index}, and torch finds {count}; use auto")
    return name


def _trial(environment: dict[str, str]) -> float:
    """The speedup of bfloat16, measured in a child process; 0 where it crashes, 1 where a busy machine is too slow.

    What was measured is kept in the user's cache folder, by processor and torch: importing torch for it takes a second.
    """
    known = cache_folder() / "bfloat16" / _trial_key(environment)
    with suppress(OSError, ValueError):
        return float(known.read_text(encoding="utf-8"))
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRIAL], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        speedup = float(done.stdout) if done.returncode == 0 else 0.0
    except subprocess.TimeoutExpired:
        return 1.0
    except (OSError, ValueError):
        return 0.0
    if speedup > 0:
        with suppress(OSError, UserError):
            known.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(known, f"{speedup}")
    return speedup


def _trial_key(environment: Mapping[str, str]) -> str:
    """A digest of all that a trial depends on: its program, torch, the processor, and oneDNN's instruction set."""
    processor = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        processor = "".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
    parts = _TRIAL, version("torch"), platform.machine(), processor, environment.get(ISA)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def bfloat16_speedup() -> float:
    """The speedup of bfloat16 products on this CPU in this environment; 0 where they crash."""
    return _trial(dict(os.environ))


def prepare_environment() -> None:
    """Before torch is imported: limit oneDNN's instruction set where bfloat16 works only so."""
    if ISA in os.environ or "torch" in sys.modules or bfloat16_speedup() > 0:
        return
    if _trial({**os.environ, ISA: SAFE_ISA}) >= MIN_SPEEDUP:
        os.environ[ISA] = SAFE_ISA
    bfloat16_speedup.cache_clear()


def choose_precision(precision: str, device: str) -> str:
    """`auto`: bfloat16 on a GPU that has it, on a CPU where the test shows that it works and is faster."""
    import torch

    if device.startswith("cuda"):
        able = torch.cuda.is_bf16_supported()
        return precision if precision != "auto" else "bfloat16" if able else "float32"
    if precision == "auto":
        return "bfloat16" if bfloat16_speedup() >= MIN_SPEEDUP else "float32"
    if precision == "bfloat16" and bfloat16_speedup() == 0:
        raise UserError(
            f"train.precision bfloat16 crashes on this CPU; set {ISA}={SAFE_ISA} in the environment or use float32"
        )
    return precision


PEAKS = {  # dense bfloat16 TFLOP/s by the vendor's data sheets
    "H200": 989,
    "H100": 989,
    "H100 PCIe": 756,
    "H20": 148,
    "B200": 2250,
    "A100": 312,
    "A10": 125,
    "L40S": 362,
    "L4": 121,
    "RTX 4090": 165,
    "RTX 3090": 71,
}


def peak_flops(device: str) -> float | None:
    """The dense bfloat16 FLOP/s of a GPU that is known here."""
    import torch

    if not device.startswith("cuda"):
        return None
    name = torch.cuda.get_device_name(torch.device(device))
    known = [key for key in PEAKS if f"{key} " in f"{name} "]  # "H20" is not an H200
    return 1e12 * PEAKS[max(known, key=len)] if known else None
