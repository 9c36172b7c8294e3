import gzip
import io
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.io.files import decode_lines, read_lines, require_file
from harken.errors import UserError

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"))


def write(path: Path, content: bytes) -> Path:
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wb") as file:
        file.write(content)
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_reads_plain_and_compressed(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"lines.txt{ending}", "été\nzwei\n\nlast".encode())
    assert list(read_lines(path)) == ["été", "zwei", "", "last"]


def test_byte_order_mark_and_carriage_returns_go(tmp_path: Path) -> None:
    path = write(tmp_path / "dos.txt", b"\xef\xbb\xbfone\r\ntwo\r\n\xef\xbb\xbfthree\r")
    assert list(read_lines(path)) == ["one", "two", "\ufeffthree"]


def test_unicode_separators_do_not_end_a_line(tmp_path: Path) -> None:
    line = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    assert list(read_lines(write(tmp_path / "a.txt", f"{line}\nnext\n".encode()))) == [line, "next"]


@given(st.lists(text, max_size=5))
def test_every_line_comes_back(lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    assert list(decode_lines(io.BytesIO(b"\xef\xbb\xbf" + content), "x")) == lines


def message(path: Path, **options: int) -> str:
    with pytest.raises(UserError) as caught:
        list(read_lines(path, **options))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_invalid_utf8_names_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "latin.txt", b"good\ncaf\xe9 noir\n")
    expected = "line 2 is not valid UTF-8 (byte 0xe9 at byte 4 of the line): convert the file to UTF-8"
    assert message(path).startswith(f"{path}, {expected}")


def test_line_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "long.txt", b"\xef\xbb\xbf12345\r\n123456\n")
    assert message(path, max_line_bytes=5).startswith(f"{path}, line 2 is longer than 5 bytes: break the line up")
    assert list(read_lines(path, max_line_bytes=6)) == ["12345", "123456"]


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_truncated_compressed_file(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"cut.txt{ending}", b"some line of text\n" * 1000)
    path.write_bytes(path.read_bytes()[:-12])
    assert "ends in the middle of its compressed data after line" in message(path)
    assert message(path).endswith("copy or download the file again.")


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_file_that_is_not_compressed(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"plain.txt{ending}"
    path.write_bytes(b"plain text, not compressed at all")
    assert message(path) == f"{path} is not valid compressed data after line 0: copy or download the file again."


def test_damaged_gzip(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.gz", bytes(range(256)) * 50)
    content = bytearray(path.read_bytes())
    content[20:40] = b"\xff" * 20
    path.write_bytes(bytes(content))
    assert str(path) in message(path)


def test_missing_file_suggests_names(tmp_path: Path) -> None:
    (tmp_path / "train.en.gz").touch()
    (tmp_path / "train.fr").touch()
    with pytest.raises(UserError, match=r"train\.en does not exist: did you mean train\.en\.gz or train\.fr\?"):
        require_file(tmp_path / "train.en")
    with pytest.raises(UserError, match=r"other\.de does not exist: check the path\."):
        require_file(tmp_path / "other.de")
    with pytest.raises(UserError, match=r"nor does the folder .*nowhere: check the path"):
        require_file(tmp_path / "nowhere" / "a.txt")


def test_folder_is_not_a_file(tmp_path: Path) -> None:
    assert message(tmp_path) == f"{tmp_path} is a folder where a file is wanted: name a file in it."
