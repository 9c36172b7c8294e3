"""Recordings as numbers: WAV by the standard library, anything else by `soundfile`; one channel, from -1 to 1.

8 bit      (b - 128) / 128          the one width of PCM that has no sign
n bit      b / 2^(n - 1)            16, 24 and 32
channels   their mean

Reference: IBM and Microsoft (1991), "Multimedia Programming Interface and Data Specifications 1.0".

>>> import io
>>> file = io.BytesIO()
>>> write_wav(file, np.array([0.0, 0.5, -1.0]), 8000)
>>> samples, rate = decode_wav(io.BytesIO(file.getvalue()), "example.wav")
>>> samples.tolist(), rate
([0.0, 0.5, -1.0], 8000)
"""

from __future__ import annotations

import wave
from pathlib import Path
from typing import IO, Any

import numpy as np

from harken.data.io.files import require_file
from harken.errors import UserError

WIDTHS = {1: 8, 2: 16, 3: 24, 4: 32}  # bytes of a sample -> bits
EXTRA = "pip install 'harken[audio]'"


def read_audio(path: str | Path) -> tuple[np.ndarray, int]:
    """(samples (n,) float32 from -1 to 1, samples a second) of a recording.

    Raises:
        UserError: no such file, one that holds no sound, or a format that nothing here can read.
    """
    path = require_file(path)
    if path.stat().st_size == 0:
        raise UserError(f"{path} is an empty file; record it again, or leave it out")
    if path.suffix.lower() not in (".wav", ".wave"):
        return _by_soundfile(path, f"{path} is no .wav")
    try:
        with path.open("rb") as stream:
            return decode_wav(stream, str(path))
    except wave.Error as problem:
        if "unknown format" in str(problem):  # floating point, A-law ... in a file that is a WAV
            return _by_soundfile(path, f"{path} is a WAV with other samples than plain integers")
        raise UserError(
            f"{path} is not a WAV file ({problem}); convert it to 16-bit PCM, or name it as it is"
        ) from None
    except EOFError:
        raise UserError(f"{path} is not a WAV file (it ends inside its header); copy or record it again") from None


def decode_wav(stream: IO[bytes], name: str) -> tuple[np.ndarray, int]:
    """The samples of an open WAV file; `name` is what errors call it.

    Raises:
        wave.Error, EOFError: no WAV.
        UserError: it holds no samples.
    """
    with wave.open(stream) as file:
        channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
        data = file.readframes(file.getnframes())
    if width not in WIDTHS:
        raise wave.Error(f"{8 * width} bits a sample")
    whole = len(data) // (channels * width) * channels * width  # a file that was cut off may end inside a sample
    return one_channel(_numbers(data[:whole], width).reshape(-1, channels), name), rate


def _numbers(data: bytes, width: int) -> np.ndarray:
    if width == 1:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:  # numpy has no integers of 24 bits: they become the upper ones of 32
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / 2.0**31).astype(np.float32)
    return (np.frombuffer(data, f"<i{width}") / 2.0 ** (8 * width - 1)).astype(np.float32)


def one_channel(samples: np.ndarray, name: str) -> np.ndarray:
    """(n,) from (n,) or (n, channels), checked.

    Raises:
        UserError: no samples, too many axes, or some that are no numbers.
    """
    values = np.asarray(samples)
    if values.dtype.kind in "iu":
        values = values / float(np.iinfo(values.dtype).max + 1)
    if values.ndim not in (1, 2):
        raise UserError(f"{name} has {values.ndim} axes; give samples (n,), or (n, channels)")
    if values.size == 0:
        raise UserError(f"{name} holds no samples; record it again, or leave it out")
    if not np.isfinite(values).all():
        where = int(np.argwhere(~np.isfinite(values))[0][0])
        raise UserError(f"{name} has a sample that is no finite number (sample {where}); fix the recording")
    return (values if values.ndim == 1 else values.mean(1)).astype(np.float32)


def write_wav(path: str | Path | IO[bytes], samples: np.ndarray, rate: int) -> None:
    """16-bit PCM, one channel; what lies outside -1 to 1 is cut."""
    whole = np.clip(np.rint(np.asarray(samples) * 32768), -32768, 32767).astype("<i2")
    with wave.open(str(path) if isinstance(path, Path) else path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(whole.tobytes())


def _by_soundfile(path: Path, found: str) -> tuple[np.ndarray, int]:
    try:
        import soundfile
    except ImportError:
        raise UserError(f"{found}, which needs the library soundfile: {EXTRA}, or convert it to 16-bit WAV") from None
    try:
        samples, rate = _read_soundfile(soundfile, path)
    except soundfile.LibsndfileError as problem:
        raise UserError(f"{path} is no recording that can be read ({problem}); convert it to WAV or FLAC") from None
    return one_channel(samples, str(path)), rate


def _read_soundfile(soundfile: Any, path: Path) -> tuple[np.ndarray, int]:
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return samples, int(rate)
