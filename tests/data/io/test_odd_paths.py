"""Paths that are no regular files."""

import os
import threading
from pathlib import Path

import pytest

from harken.data.io.files import read_lines, require_file
from harken.errors import UserError


def test_an_unknown_user_is_one_sentence() -> None:
    with pytest.raises(UserError, match="names a user that does not exist"):
        require_file("~nosuchuser/x")


def test_a_device_without_an_end_is_refused() -> None:
    with pytest.raises(UserError, match="/dev/zero is a device, not a regular file"):
        require_file("/dev/zero")
    assert list(read_lines("/dev/null")) == []


def test_a_fifo_is_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(b"one\ntwo\n"))
    writer.start()
    assert list(read_lines(fifo)) == ["one", "two"]
    writer.join()
