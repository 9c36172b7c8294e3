"""Pixels as a PNG file and as an address that a page can carry inside itself: no library, no second file.

A PNG is a signature and chunks: length, name, content, check sum. Rows are packed with zlib, each after a byte that
names its filter; 0 is none.

>>> encode_png(np.zeros((1, 1, 3), np.uint8))[1:4]
b'PNG'
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

RGB = 2  # the colour type of a PNG with red, green and blue


def encode_png(image: np.ndarray) -> bytes:
    """Pixels (Y, X, 3) of bytes as the content of a PNG file."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # the first byte of a row is its filter
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, RGB, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)


def data_address(image: np.ndarray) -> str:
    """`data:image/png;base64,...`."""
    return f"data:image/png;base64,{base64.b64encode(encode_png(image)).decode()}"


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
