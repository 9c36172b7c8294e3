"""The folder of prepared data: one process makes an entry, a killed one leaves nothing that is used."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harken.data.prepared import store
from harken.data.prepared.store import Store, is_complete, prepared_folder
from harken.errors import MachineError, UserError
from harken.worker_pool import ordered_map

SCRIPT = """
import sys, time
from pathlib import Path
from harken.data.prepared.store import Store
root, seconds = Path(sys.argv[1]), float(sys.argv[2])
def build(folder):
    (folder / "ids").write_bytes(b"half")
    print("building", flush=True)
    time.sleep(seconds)
    (folder / "ids").write_bytes(b"whole")
print(Store(root).entry("text", build).joinpath("ids").read_bytes(), flush=True)
"""


def start(root: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(root), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_one_process_builds_and_the_other_waits(tmp_path: Path) -> None:
    first = start(tmp_path, 1.5)
    assert first.stdout is not None and first.stdout.readline() == "building\n"
    second = start(tmp_path, 0.0)
    assert second.communicate(timeout=60)[0] == "b'whole'\n"  # it built nothing
    assert first.communicate(timeout=60)[0] == "b'whole'\n"


def test_a_killed_process_leaves_nothing_half_used(tmp_path: Path) -> None:
    first = start(tmp_path, 60)
    assert first.stdout is not None and first.stdout.readline() == "building\n"
    assert not (tmp_path / "text").exists()
    first.kill()
    first.wait()
    entry = Store(tmp_path).entry("text", lambda folder: (folder / "ids").write_bytes(b"whole"))
    assert (entry / "ids").read_bytes() == b"whole"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".text.lock", "text"]


def test_a_failed_or_damaged_entry_is_made_again(tmp_path: Path) -> None:
    found = Store(tmp_path)
    with pytest.raises(ZeroDivisionError):
        found.entry("text", lambda folder: 1 / 0)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    entry = found.entry("text", lambda folder: (folder / "ids").write_bytes(b"whole"))
    (entry / "ids").write_bytes(b"cut")
    assert not is_complete(entry)
    assert found.entry("text", lambda folder: (folder / "ids").write_bytes(b"again")) == entry
    assert (entry / "ids").read_bytes() == b"again"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match=r"data\.prepared is .*cannot be written"):
        Store(tmp_path / "prepared")


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"data\.prepared is .*cannot be written"):
        Store(tmp_path / "file")
    monkeypatch.setattr(store, "default_folder", lambda: tmp_path / "file" / "cache")
    monkeypatch.setattr(store.tempfile, "gettempdir", lambda: str(tmp_path))
    assert Store(tmp_path / "file" / "cache").root.parent == tmp_path  # the default gives way to a temporary folder


def test_too_little_space_is_said_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"takes about 1000000\.0 GB"):
        Store(tmp_path).require_space(10**15)


def test_small_files_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "a.txt"
    small.write_text("text\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert prepared_folder(None, [small]) is None
    assert prepared_folder("mine", [small]) == Path("mine")
    monkeypatch.setattr(store, "STREAMED_FROM", 4)
    assert prepared_folder(None, [small]) == tmp_path / "cache" / "harken" / "prepared"
    os.mkfifo(tmp_path / "pipe")
    assert prepared_folder("mine", [tmp_path / "pipe"]) is None


def test_a_killed_worker_ends_the_work_with_a_sentence() -> None:
    def die(number: int) -> int:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(MachineError, match="was killed"):
        list(ordered_map(die, range(6), processes=2))


def test_workers_end_with_their_parent() -> None:
    script = """
import os, time
from harken.worker_pool import ordered_map
print(next(iter(ordered_map(lambda number: os.getpid(), range(100), processes=2))), flush=True)
made = ordered_map(lambda number: os.getpid(), range(100), processes=2)
print(next(made), flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    first, second = (int(parent.stdout.readline()) for _ in range(2))
    parent.kill()
    parent.wait()
    for worker in (first, second):
        for _ in range(100):
            if not Path(f"/proc/{worker}").exists():
                break
            time.sleep(0.05)
        assert not Path(f"/proc/{worker}").exists()
