"""Recordings: every width of PCM, channels, other formats, and what a user can get wrong."""

import builtins
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.data.audio.recordings import one_channel, read_audio, write_wav
from harken.data.audio.utterances import read_recordings
from harken.errors import UserError

VALUES = np.array([0.0, 0.5, -0.5, 0.25, -1.0])


def write(path: Path, width: int, channels: int = 1, rate: int = 8000) -> None:
    scale = 2 ** (8 * width - 1)
    whole = (VALUES * scale).astype(np.int64) + (128 if width == 1 else 0)
    data = b"".join(int(value).to_bytes(width, "little", signed=width > 1) * channels for value in whole)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_width_gives_the_same_numbers(tmp_path: Path, width: int, channels: int) -> None:
    write(tmp_path / "a.wav", width, channels, rate=11025)
    samples, rate = read_audio(tmp_path / "a.wav")
    assert rate == 11025 and samples.dtype == np.float32
    np.testing.assert_array_equal(samples, VALUES.astype(np.float32))


def test_channels_are_averaged() -> None:
    np.testing.assert_allclose(one_channel(np.array([[1.0, 0.0], [0.5, -0.5]]), "x"), [0.5, 0.0])
    np.testing.assert_allclose(one_channel(np.array([16384, -32768], np.int16), "x"), [0.5, -1.0])


def test_flac_and_floating_point_by_soundfile(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.flac", VALUES, 16000, subtype="PCM_16")
    soundfile.write(tmp_path / "a.wav", VALUES, 16000, subtype="FLOAT")
    for name in ("a.flac", "a.wav"):
        samples, rate = read_audio(tmp_path / name)
        assert rate == 16000
        np.testing.assert_allclose(samples, VALUES, atol=1e-4)


def test_without_soundfile_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "soundfile":
            raise ImportError
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "a.flac").write_bytes(b"fLaC")
    with pytest.raises(UserError, match=r"a\.flac is no \.wav, which needs the library soundfile: .*harken\[audio\]"):
        read_audio(tmp_path / "a.flac")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is an empty file"),
        (b"hello, this is no sound at all", "is not a WAV file"),
        (b"RIFF", "is not a WAV file"),
        (b"RIFF" + struct.pack("<I", 4) + b"WAVE", "is not a WAV file"),
    ],
)
def test_what_is_no_wav_is_refused_in_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(UserError, match=said) as caught:
        read_audio(tmp_path / "a.wav")
    assert "a.wav" in str(caught.value) and "\n" not in str(caught.value)


def test_no_samples_no_file_and_no_numbers(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", np.zeros(0), 8000)
    with pytest.raises(UserError, match="holds no samples"):
        read_audio(tmp_path / "a.wav")
    with pytest.raises(UserError, match=r"did you mean a\.wav"):
        read_audio(tmp_path / "b.wav")
    with pytest.raises(UserError, match=r"no finite number \(sample 2\)"):
        one_channel(np.array([0.0, 0.0, np.nan]), "x")
    with pytest.raises(UserError, match="has 3 axes"):
        one_channel(np.zeros((1, 1, 1)), "x")


def test_a_table_of_recordings_is_read_beside_itself(tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    write_wav(tmp_path / "sound" / "one.wav", np.zeros(1600), 16000)
    (tmp_path / "train.csv").write_text("audio,text\nsound/one.wav, one  two \n")
    found = read_recordings(tmp_path / "train.csv", "audio", "text", 8000)
    assert (len(found), found.text(0, 0), found.length(0, 0), found.name(0)) == (1, "one two", 800, "sound/one.wav")
    (tmp_path / "bad.csv").write_text("audio,text\nsound/one.wav,one\nsound/two.wav,two\n")
    with pytest.raises(UserError, match=r"bad\.csv, row 2: .*two\.wav does not exist"):
        read_recordings(tmp_path / "bad.csv", "audio", "text", 8000)
    with pytest.raises(UserError, match="did you mean 'audio'"):
        read_recordings(tmp_path / "train.csv", "adio", "text", 8000)
