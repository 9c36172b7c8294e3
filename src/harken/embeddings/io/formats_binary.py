"""word2vec's binary format: the word, a blank, D little-endian float32, and a line feed that some tools leave out.

>>> import io
>>> sink = io.BytesIO()
>>> write_binary(sink, ["a"], np.array([[1, 2]], dtype=np.float32))
>>> words, matrix = read_binary(Path("a.bin"), io.BytesIO(sink.getvalue()), 1, 2)
>>> words, matrix.tolist()
(['a'], [[1.0, 2.0]])
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from harken.errors import UserError

BLOCK = 1 << 22  # bytes that are read at once
LONGEST_WORD = 10_000  # bytes


def read_binary(path: Path, stream: BinaryIO, size: int, width: int) -> tuple[list[str], NDArray[np.float32]]:
    """What comes after the first line.

    Raises:
        UserError: the file ends too early, or a word is no UTF-8.
    """
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    length = 4 * width
    buffer, place = b"", 0
    for number in range(1, size + 1):
        while True:
            while buffer[place : place + 1] == b"\n":
                place += 1
            blank = buffer.find(b" ", place)
            if blank >= 0 and len(buffer) >= blank + 1 + length:
                break
            more = stream.read(BLOCK)
            if not more:
                raise UserError(
                    f"{path} ends inside word {number:,} of {size:,} (so says line 1): copy or download it again."
                )
            buffer, place = buffer[place:] + more, 0
        if blank - place > LONGEST_WORD:
            raise UserError(f"{path}: word {number:,} is {blank - place:,} bytes long: is this a file of word2vec?")
        try:
            words.append(buffer[place:blank].decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}: word {number:,} of {size:,} is not valid UTF-8: is the file damaged, or its first line wrong?"
            ) from error
        rows.append(np.frombuffer(buffer, dtype="<f4", count=width, offset=blank + 1))
        place = blank + 1 + length
    matrix = np.stack(rows).astype(np.float32) if rows else np.zeros((0, width), dtype=np.float32)
    return words, matrix


def write_binary(sink: BinaryIO, words: list[str], matrix: NDArray[np.float32]) -> None:
    """What comes after the first line."""
    for word, row in zip(words, matrix, strict=True):
        sink.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")
