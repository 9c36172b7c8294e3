"""The attacks of benchmarks/serving.py, with small numbers: each is made, counted and judged."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are read from /proc")
@pytest.mark.parametrize(
    "attacks", ["idle", pytest.param("broken,idle,half-sent,sigkill,sigterm", marks=pytest.mark.slow)]
)
def test_a_small_attack_is_counted_and_recorded(
    tiny_model: Callable[[str], Path], tmp_path: Path, attacks: str
) -> None:
    bounds = ["--attack-seconds", "2", "--attack-connections", "50", "--sentences", "100", "--parts", attacks]
    command = [sys.executable, str(ROOT / "benchmarks" / "serving.py"), str(tiny_model("phrasebook-transformer"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--attack", *bounds, "--record", "--out", str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr  # 1: one of them did not hold, on a machine under load
    (file,) = tmp_path.glob("*-serving-attack.json")
    record = json.loads(file.read_text(encoding="utf-8"))["attacks"]
    assert list(record) == attacks.split(",")
    for name in record.keys() & {"broken", "idle", "half-sent"}:
        assert record[name]["answers"].keys() == {"200"} and record[name]["holds"], record[name]
    assert "50 idle connections" in record["idle"]["sent"]
    assert "sigkill" not in record or record["sigkill"]["answers"]["200"] > 0
    assert done.stdout.count("| yes |") + done.stdout.count("| **no** |") == len(record)
