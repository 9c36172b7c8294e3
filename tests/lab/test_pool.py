"""Jobs over processes: in order, the same as one after the other, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from harken.errors import MachineError
from harken.lab.experiment import Settings, silent
from harken.lab.pool import spread, sweep


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_jobs(workers: int) -> None:
    told: list[tuple[float, str]] = []

    def work(job: int) -> dict[str, float]:
        torch.manual_seed(job)
        return {"job": job, "drawn": float(torch.rand(()))}

    jobs = [(number,) for number in range(7)]
    results = spread(
        lambda job: work(*job),
        jobs,
        lambda done, say: told.append((done, say)),
        lambda job: f"job {job}",
        workers,
        (0.5, 1),
    )
    assert results == [work(number) for number in range(7)]
    assert [done for done, _ in told] == pytest.approx([0.5 + 0.5 * (count + 1) / 7 for count in range(7)])
    assert sorted(say for _, say in told) == [f"job {job}" for job in range(7)]


def test_jobs_run_in_processes_with_one_thread() -> None:
    jobs = [(number,) for number in range(4)]
    results = spread(lambda job: (os.getpid(), torch.get_num_threads()), jobs, silent, str, workers=2)
    assert os.getpid() not in {pid for pid, _ in results}
    assert {threads for _, threads in results} == {1}


def test_a_sweep_gives_the_results_of_every_seed_by_variant() -> None:
    told: list[str] = []
    runs = sweep(
        lambda kind, depth, seed: (kind, depth, seed),
        [("a", 1), ("b", 2)],
        Settings(seed=5, quick=True),
        lambda done, say: told.append(say),
        seeds=2,
    )
    assert runs == {("a", 1): [("a", 1, 5), ("a", 1, 6)], ("b", 2): [("b", 2, 5), ("b", 2, 6)]}
    assert told == ["a, 1, seed 5", "a, 1, seed 6", "b, 2, seed 5", "b, 2, seed 6"]
    assert sweep(lambda kind, seed: kind, "ab", Settings(quick=True), silent) == {"a": ["a"], "b": ["b"]}


def test_a_job_that_fails_is_told_with_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        spread(lambda job: 1 / job[0], [(1,), (0,)], silent, str, workers=2)
    with pytest.raises(MachineError, match="killed"):
        spread(lambda job: os._exit(3), [(1,), (2,)], silent, str, workers=2)


def test_ctrl_c_ends_the_command_and_its_processes() -> None:
    """Sent to the whole group, as a terminal does it."""
    code = (
        "import os, signal, sys, time\nfrom harken.lab.pool import spread\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs begin without it
        "def work(job):\n    os.write(1, b'%d\\n' % os.getpid())\n    time.sleep(60)\n"
        "spread(work, [(1,), (2,)], lambda done, say: None, str, workers=2)\n"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert command.stdout is not None
    children = [int(command.stdout.readline()) for _ in range(2)]
    os.killpg(command.pid, signal.SIGINT)
    assert command.wait(timeout=60) != 0
    for child in children:
        for _ in range(200):
            try:
                os.kill(child, 0)
            except ProcessLookupError:
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"process {child} is still there")
