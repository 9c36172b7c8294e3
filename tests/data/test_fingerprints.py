"""Fingerprints of files and folders, and what they say about a change."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from harken.data import fingerprints
from harken.data.fingerprints import BLOCK, Fingerprint, InputFile, describe_change, fingerprint
from harken.errors import UserError


def of(path: Path, members: tuple[str, ...] | None = None) -> Fingerprint | None:
    return fingerprint(InputFile("data.train", path, members=members))


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", 0), (b"one", 1), (b"one\n", 1), (b"one\ntwo", 2), (b"a\n" * BLOCK, BLOCK), (b"\0binary\n", None)],
)
def test_a_file_has_its_size_lines_and_sha256(tmp_path: Path, content: bytes, lines: int | None) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert of(path) == Fingerprint(hashlib.sha256(content).hexdigest(), len(content), lines)


def test_a_compressed_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"one\n")
    found = of(tmp_path / "a.gz")
    assert found is not None
    assert found.lines is None


def test_a_folder_is_known_by_names_sizes_and_contents(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "in" / "b").write_bytes(b"22")
    first = of(tmp_path)
    assert first is not None
    assert (first.files, first.bytes) == (2, 3)
    (tmp_path / ".hidden").write_bytes(b"3")
    assert of(tmp_path) == first
    (tmp_path / "in" / "b").write_bytes(b"23")
    assert of(tmp_path) != first
    (tmp_path / "in" / "b").write_bytes(b"22")
    assert of(tmp_path) == first
    (tmp_path / "a").rename(tmp_path / "c")
    assert of(tmp_path) != first


def test_bytes_that_move_between_files_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12")
    (tmp_path / "b").write_bytes(b"3")
    first = of(tmp_path)
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"23")
    assert of(tmp_path) != first


def test_of_listed_files_the_others_do_not_matter(tmp_path: Path) -> None:
    for name in ("1.wav", "2.wav", "3.wav"):
        (tmp_path / name).write_bytes(name.encode())
    first = of(tmp_path, ("1.wav", "2.wav", "1.wav"))
    assert first is not None
    assert first.files == 2
    (tmp_path / "3.wav").write_bytes(b"other")
    assert of(tmp_path, ("2.wav", "1.wav")) == first
    (tmp_path / "2.wav").unlink()
    after = of(tmp_path, ("1.wav", "2.wav"))
    assert describe_change("recordings", first, after) == "recordings has 1 file where the run was started on 2"


def test_pipes_devices_and_missing_files_have_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "missing", Path("/dev/zero"), tmp_path / "pipe" / "below"):
        assert of(path) is None


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mem \(data\.train\) cannot be read"):
        of(Path("/proc/self/mem"))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (None, "a is missing"),
        (Fingerprint("x", 5, 2), ""),
        (Fingerprint("y", 4, 1), "a has 1 line where the run was started on 2"),
        (Fingerprint("y", 6, 2), "a has 6 bytes where the run was started on 5"),
        (Fingerprint("y", 5, 2), "a has other content than the run was started on, of the same size (2 lines)"),
    ],
)
def test_a_change_in_words(after: Fingerprint | None, said: str) -> None:
    assert describe_change("a", Fingerprint("x", 5, 2), after) == said


def test_a_large_file_is_read_in_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(b"a line of text\n" * 4_000_000)  # 60 MB
    start = time.process_time()
    assert of(path).lines == 4_000_000  # type: ignore[union-attr]
    assert time.process_time() - start < 10


def test_a_large_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "REMEMBERED_FROM", 4)
    path = tmp_path / "train.en"
    path.write_text("one\ntwo\n")
    before = fingerprint(InputFile("data.source", path))
    with monkeypatch.context() as patch:
        patch.setattr(fingerprints, "_read_file", lambda path: pytest.fail("the file is read again"))
        assert fingerprint(InputFile("data.source", path)) == before
    path.write_text("one\nsix\n")  # of the same size
    os.utime(path, ns=(0, 0))
    after = fingerprint(InputFile("data.source", path))
    assert before is not None and after is not None and after.sha256 != before.sha256
    (tmp_path / "cache" / "harken" / "fingerprints").chmod(0o500)
    for kept in (tmp_path / "cache" / "harken" / "fingerprints").iterdir():
        kept.write_text("{")
    assert fingerprint(InputFile("data.source", path)) == after
