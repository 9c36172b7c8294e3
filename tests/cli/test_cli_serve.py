"""`harken serve`: what can be wrong before a server listens, and keys."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_without_a_model_it_says_so(run: Run) -> None:
    done = run("serve")
    assert done.exit_code == 2 and "name at least one folder" in done.output


@pytest.mark.parametrize("given", ["nowhere", "nowhere@en-fr"])
def test_a_folder_that_is_no_model(run: Run, given: str) -> None:
    done = run("serve", given)
    assert done.exit_code == 2 and "nowhere" in done.output and "is no finished model folder" in done.output


def test_a_language_pair_that_is_none(run: Run, tiny_model: Callable[[str], Path]) -> None:
    done = run("serve", f"{tiny_model('phrasebook-transformer')}@english")
    assert done.exit_code == 2 and "'english' after @ is no language pair; write it as en-fr" in done.output


def test_a_port_in_use_is_told_before_models_are_loaded(run: Run, tiny_model: Callable[[str], Path]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", tiny_model("phrasebook-transformer"), "--port", port)
    assert done.exit_code == 2 and f"cannot listen on 127.0.0.1:{port}" in done.output


def test_a_key_is_printed_once_and_its_hash_is_kept(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    done = run("serve", "--api-keys", path, "--new-key", "alice", "--key-rate", 60)
    assert done.exit_code == 0
    key = done.stdout.strip().splitlines()[0]
    (stored,) = json.loads(path.read_text())["keys"]
    assert stored["name"] == "alice" and stored["per_minute"] == 60 and len(key) == 32 and key not in path.read_text()
    again = run("serve", "--api-keys", path, "--new-key", "alice")
    assert again.exit_code == 2 and "has a key called 'alice'" in again.output
    assert run("serve", "--new-key", "bob").exit_code == 2


@pytest.mark.parametrize("content", ["{", "[]", '{"keys": [{"name": "a", "sha256": "short"}]}', '{"kyes": []}'])
def test_a_damaged_file_of_keys(run: Run, tmp_path: Path, tiny_model: Callable[[str], Path], content: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    done = run("serve", tiny_model("phrasebook-transformer"), "--api-keys", path)
    assert done.exit_code == 2 and "is no file of API keys" in done.output
