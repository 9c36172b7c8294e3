"""The curl examples of docs/how-to/serve.md, run against a server."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harken.serving.app import create_app
from harken.serving.settings import ServerSettings

from .conftest import listening

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "serve.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_examples_of_the_page_work(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("the black cat sleeps", encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    commands = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.startswith("curl")]
    assert len(commands) >= 6
    with listening(create_app([tiny_model("phrasebook-transformer")], ServerSettings(workers=0))) as url:
        for command in commands:
            done = subprocess.run(
                ["bash", "-c", command.replace("http://127.0.0.1:5000", url)],
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, (command, done.stderr)
            if '"stream"' in command:
                assert done.stdout.rstrip().splitlines()[-2] == "event: done"
            else:
                assert json.loads(done.stdout), command
