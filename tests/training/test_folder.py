"""The lock of a run folder, between processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harken.errors import UserError
from harken.training.folder import LOCK, RunLock

HOLD = """
import multiprocessing, os, sys, time
from pathlib import Path
from harken.training.folder import RunLock

def work():
    print(os.getpid(), flush=True)  # here, when what runs after a fork is over
    time.sleep(600)

with RunLock(Path(sys.argv[1])):
    multiprocessing.get_context("fork").Process(target=work).start()
    time.sleep(600)
"""


def test_a_folder_has_one_owner_who_is_named(tmp_path: Path) -> None:
    with RunLock(tmp_path / "run"), pytest.raises(UserError, match=rf"in use by process {os.getpid()} on"):
        RunLock(tmp_path / "run").acquire()
    assert not (tmp_path / "run").exists()


def test_a_killed_owner_leaves_no_lock_though_its_forked_worker_lives(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    worker = int(owner.stdout.readline())
    try:
        with pytest.raises(UserError, match=f"in use by process {owner.pid} on"):
            RunLock(tmp_path).acquire()
        owner.kill()
        owner.wait()
        assert (tmp_path / LOCK).exists()
        with RunLock(tmp_path):
            os.kill(worker, 0)  # it is alive
    finally:
        owner.kill()
        os.kill(worker, signal.SIGKILL)
        owner.stdout.close()
    assert not (tmp_path / LOCK).exists()
