"""Recordings as numbers: one channel, samples from -1 to 1, at the rate that is asked for.

Files are read by `soundfile` (WAV, FLAC, OGG, MP3 ...) and resampled by `scipy`, which come with the extra `audio`. A
lean installation still reads the most common file, a WAV of 16-bit integers, by the standard library: the demonstration
on made speech, recordings at the model's own rate and the tests then need nothing else.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     write_wav(Path(folder) / "a.wav", np.array([0.0, 0.5, -1.0]), 8000)
...     samples, rate = read_audio(Path(folder) / "a.wav")
>>> samples.tolist(), rate
([0.0, 0.5, -1.0], 8000)
"""

from __future__ import annotations

import struct
import tempfile
import wave
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from harken.data.io.files import require_file
from harken.errors import UserError, missing_extra, require_extra
from harken.files import expand_user

MAX_RATE = 768_000  # samples a second
UNKNOWN_SIZE = 0xFFFFFFFF  # what programs write that do not know how long a stream will be
MAX_PHASES = 2000  # of a resampling filter: rates such as 44,101 are taken as the nearest ratio
ZERO_CROSSINGS = 24  # of the sinc on either side
CUTOFF, KAISER_BETA = 0.91, 7.0  # as a share of the lower Nyquist frequency; 70 dB of attenuation above that


def read_audio(path: str | Path) -> tuple[np.ndarray, int]:
    """(samples (n,) float32 from -1 to 1, samples a second) of a recording.

    Raises:
        UserError: no such file, one that is damaged or holds no sound, or a format that nothing installed can read.
    """
    path = require_file(path)
    if path.stat().st_size == 0:
        raise UserError(f"{path} is an empty file; record it again, or leave it out")
    check_wav_header(path)
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the package is there, its library is not
        return _read_pcm16(path)
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except RuntimeError as problem:  # LibsndfileError is one, and says the file's name again
        what = getattr(problem, "error_string", str(problem)).rstrip(".")
        raise UserError(f"{path} is no recording that can be read ({what}); convert it to WAV or FLAC") from None
    return one_channel(samples, str(path)), _checked_rate(int(rate), path)


def sound_of(cell: Any, name: str, folder: Path) -> tuple[np.ndarray, int | None]:
    """(samples (n,), samples a second) of a cell of a table: a path, relative to a folder; an array, whose rate is not
    known; the bytes of a file; or, as `datasets` has sounds, {"array": ..., "sampling_rate": ...} or {"bytes": ...,
    "path": ...}.

    Raises:
        UserError: no recording; `name` is what errors call it.
    """
    try:
        if isinstance(cell, Mapping) and "array" in cell:
            return one_channel(cell["array"], name), int(cell["sampling_rate"])
        if isinstance(cell, Mapping):
            cell = cell.get("bytes") or cell.get("path")
        if isinstance(cell, bytes):
            with tempfile.NamedTemporaryFile(suffix=".wav") as file:
                file.write(cell)
                file.flush()
                return read_audio(file.name)
        if isinstance(cell, str | Path):
            return read_audio(folder / expand_user(cell))
        return one_channel(np.asarray(cell, np.float32 if isinstance(cell, list) else None), name), None
    except (UserError, ValueError, TypeError, KeyError) as problem:
        raise UserError(f"{name}: {problem}") from None


def check_wav_header(path: Path) -> None:
    """Refuse a WAV file whose rate is impossible, or whose header promises more than there is.

    Raises:
        UserError: what the header says, and what is so.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] not in (b"RIFF", b"RIFX", b"RF64") or head[8:] != b"WAVE":
            return
        order = ">" if head[:4] == b"RIFX" else "<"
        while len(chunk := file.read(8)) == 8:
            name, length = struct.unpack(f"{order}4sI", chunk)
            start = file.tell()
            if name == b"fmt ":
                fields = file.read(8)
                if len(fields) == 8:
                    _checked_rate(struct.unpack(f"{order}HHI", fields)[2], path)
            elif name == b"data":
                if length != UNKNOWN_SIZE and length > size - start:
                    raise UserError(
                        f"{path} is cut off: its header says {length:,} bytes of sound, and {size - start:,} are "
                        "there; copy or record it again"
                    )
                return
            file.seek(start + length + length % 2)


def _checked_rate(rate: int, path: Path) -> int:
    if not 1 <= rate <= MAX_RATE:
        raise UserError(f"{path} says that it has {rate:,} samples a second; its header is damaged: record it again")
    return rate


def _read_pcm16(path: Path) -> tuple[np.ndarray, int]:
    """A WAV of 16-bit integers, by the standard library."""
    try:
        with wave.open(str(path)) as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError):
        width = 0
    if width != 2:
        raise missing_extra("soundfile", "audio", f"{path} is no WAV of 16-bit integers: reading it")
    whole = len(data) // (2 * channels) * 2 * channels
    samples = np.frombuffer(data[:whole], "<i2").reshape(-1, channels)
    return one_channel(samples, str(path)), _checked_rate(rate, path)


def one_channel(samples: np.ndarray, name: str) -> np.ndarray:
    """(n,) from (n,) or (n, channels), checked; channels are averaged.

    Raises:
        UserError: no samples, too many axes, or some that are not finite numbers.
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
    """16-bit PCM, one channel; what lies outside -1 to 1 is clipped."""
    whole = np.clip(np.rint(np.asarray(samples) * 32768), -32768, 32767).astype("<i2")
    with wave.open(str(path) if isinstance(path, Path) else path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(whole.tobytes())


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Samples (n,) at `rate` a second -> (ceil(n new / old),) at `new_rate`, float32, by `scipy.signal.resample_poly`.

    The filter is flat up to 82% of the lower Nyquist frequency; what lies above it is about 70 dB lower.

    Raises:
        UserError: scipy is not installed.
    """
    if rate < 1 or new_rate < 1:
        raise ValueError(f"rates must be positive, not {rate} and {new_rate}")
    samples = np.asarray(samples, dtype=np.float32)
    if rate == new_rate:
        return samples
    ratio = Fraction(new_rate, rate).limit_denominator(MAX_PHASES)
    require_extra("scipy", "audio", f"a recording with {rate:,} samples a second where {new_rate:,} are expected")
    from scipy.signal import resample_poly

    taps = _low_pass(max(ratio.numerator, ratio.denominator))
    return np.asarray(resample_poly(samples, ratio.numerator, ratio.denominator, window=taps), dtype=np.float32)


@lru_cache(maxsize=8)
def _low_pass(factor: int) -> np.ndarray:
    """A windowed sinc that ends below 1 / factor of the Nyquist frequency."""
    from scipy.signal import firwin

    taps: np.ndarray = firwin(2 * ZERO_CROSSINGS * factor + 1, CUTOFF / factor, window=("kaiser", KAISER_BETA))
    return taps.astype(np.float32)
