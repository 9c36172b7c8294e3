"""The shards of the GPU tests: counted together, and none that fails, crashes or hangs is overlooked."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("run_shards.py")
PASSING = "import pytest\n@pytest.mark.parametrize('n', range(5))\ndef test_passes(n): pass\n"
SKIPPING = "import pytest\ndef test_skips(): pytest.skip('no device')\n"


def run_shards(folder: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, str(SCRIPT), "--path", str(folder), "--shards", "2", *options]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=200, cwd=folder, env=environment
    )
    return done.returncode, done.stdout


def test_every_test_runs_once_and_the_total_is_printed(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(PASSING + SKIPPING + "def test_as_fast_as_another(): pass\n")
    code, output = run_shards(tmp_path)
    assert code == 0, output
    assert "shard 1 of 2: 3 passed in" in output and "shard 2 of 2: 2 passed, 1 skipped in" in output
    assert "shard 1 of 1: 1 passed in" in output  # what measures time
    assert "total: 6 passed, 1 skipped of 7 in" in output


def test_a_shard_that_fails_dies_or_hangs_fails_the_run(tmp_path: Path) -> None:
    """In the first shard a test fails, in the second the process dies."""
    (tmp_path / "test_some.py").write_text("import os\ndef test_fails(): assert 1 == 2\ndef test_dies(): os._exit(3)\n")
    code, output = run_shards(tmp_path)
    assert code == 3
    assert "shard 1 of 2: exit code 1: 1 failed in" in output and "shard 2 of 2: exit code 3:" in output
    assert "total: 1 failed of 2 in" in output
    (tmp_path / "test_some.py").write_text("import time\ndef test_hangs(): time.sleep(600)\n")
    code, output = run_shards(tmp_path, "--limit", "1")
    assert code == 124
    assert "shard 1 of 1: out of time" in output and "nothing ran of 1" in output
    assert "in test_hangs" in output  # the trace of its threads


def test_kernels_are_compiled_in_the_shard_itself(tmp_path: Path) -> None:
    check = "import os\ndef test_threads(): assert os.environ['TORCHINDUCTOR_COMPILE_THREADS'] == '1'\n"
    (tmp_path / "test_some.py").write_text(check)
    code, output = run_shards(tmp_path)
    assert code == 0, output


def test_what_cannot_be_collected_is_printed(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_broken(: pass\n")
    code, output = run_shards(tmp_path)
    assert code != 0
    assert "SyntaxError" in output
