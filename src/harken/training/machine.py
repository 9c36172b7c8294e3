"""What this machine is best at: its device, how many processes and threads to use, and whether bfloat16 pays.

Small matrices do not feed several threads: handing them over costs more than it gives. So on a CPU harken trains with
one process a core, each with one thread and its own share of the batch (`harken.training.workers`).

bfloat16 through oneDNN can end a process with an illegal instruction where the machine announces more than it has, so
it is tried in a child process first and used only where the child lives and was clearly faster.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache

ISA = "ONEDNN_MAX_CPU_ISA"
SAFE_ISA = "AVX512_CORE_BF16"
WORTHWHILE = 1.3  # how much faster bfloat16 products must be

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


def cores() -> int:
    """CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_workers() -> int:
    """Processes to train with on a CPU: one a core, up to eight; one where processes cannot be forked."""
    return min(8, cores()) if sys.platform.startswith("linux") else 1


def choose_device(wanted: str) -> str:
    """`auto` takes a GPU where there is one."""
    import torch

    from harken.errors import UserError

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError as problem:
        raise UserError(f"train.device {wanted!r} is no device; use auto, cpu, cuda or cuda:N") from problem
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"train.device {wanted!r} was asked for, but torch finds no CUDA device here; use auto or cpu")
    return wanted


def _trial(environment: dict[str, str]) -> float:
    """How many times faster bfloat16 is in a child process; 0 where the child dies."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRIAL], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return float(done.stdout) if done.returncode == 0 else 0.0
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0.0


@lru_cache(maxsize=1)
def bfloat16_speedup() -> float:
    """What bfloat16 products gain on this CPU as this process stands; 0 where they crash."""
    return _trial(dict(os.environ))


def prepare_environment() -> None:
    """Before torch is loaded: where bfloat16 works only with oneDNN held back, hold it back for this process."""
    if ISA in os.environ or "torch" in sys.modules or bfloat16_speedup() > 0:
        return
    if _trial({**os.environ, ISA: SAFE_ISA}) >= WORTHWHILE:
        os.environ[ISA] = SAFE_ISA
    bfloat16_speedup.cache_clear()


def choose_precision(wanted: str, device: str) -> str:
    """`auto`: bfloat16 on a GPU that has it, on a CPU where the trial shows that it works and pays."""
    import torch

    from harken.errors import UserError

    if device.startswith("cuda"):
        able = torch.cuda.is_bf16_supported()
        return wanted if wanted != "auto" else "bfloat16" if able else "float32"
    if wanted == "auto":
        return "bfloat16" if bfloat16_speedup() >= WORTHWHILE else "float32"
    if wanted == "bfloat16" and bfloat16_speedup() == 0:
        raise UserError(
            f"train.precision bfloat16 crashes on this CPU; set {ISA}={SAFE_ISA} in the environment or use float32"
        )
    return wanted
