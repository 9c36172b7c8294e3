"""Recordings: every width of PCM, channels, other formats, and what a user can get wrong."""

import struct
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from harken.data.audio.recordings import one_channel, read_audio, resample, write_wav
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


@pytest.fixture
def lean(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra `audio` were not installed."""
    for name in ("soundfile", "scipy"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("lean")
def test_without_the_extra_16_bit_wav_is_read_and_the_rest_names_it(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", 2, channels=2)
    samples, rate = read_audio(tmp_path / "a.wav")
    assert rate == 8000
    np.testing.assert_array_equal(samples, VALUES.astype(np.float32))
    write(tmp_path / "wide.wav", 3)
    (tmp_path / "a.flac").write_bytes(b"fLaC")
    for name in ("wide.wav", "a.flac"):
        with pytest.raises(UserError, match=r'needs soundfile, which is not installed; pip install "harken\[audio\]"'):
            read_audio(tmp_path / name)
    with pytest.raises(UserError, match=r"16,000 .* 8,000 are expected needs scipy, which is not installed; pip"):
        resample(np.zeros(16), 16000, 8000)
    assert len(resample(np.zeros(16), 8000, 8000)) == 16


def test_both_readers_of_16_bit_wav_agree(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    noise = np.random.default_rng(1).uniform(-1, 1, 5000)
    write_wav(tmp_path / "a.wav", noise, 11025)
    first = read_audio(tmp_path / "a.wav")
    request.getfixturevalue("lean")
    second = read_audio(tmp_path / "a.wav")
    np.testing.assert_array_equal(first[0], second[0])
    assert first[1] == second[1] == 11025


@pytest.mark.parametrize("lacking", [False, True], ids=["soundfile", "lean"])
def test_headers_that_do_not_tell_the_truth(tmp_path: Path, lacking: bool, request: pytest.FixtureRequest) -> None:
    if lacking:
        request.getfixturevalue("lean")
    write_wav(tmp_path / "a.wav", np.zeros(1000), 8000)
    good = (tmp_path / "a.wav").read_bytes()

    def refused(content: bytes) -> str:
        (tmp_path / "b.wav").write_bytes(content)
        with pytest.raises(UserError) as caught:
            read_audio(tmp_path / "b.wav")
        return str(caught.value).removeprefix(str(tmp_path))

    def with_field(place: int, value: int) -> bytes:
        return good[:place] + struct.pack("<I", value) + good[place + 4 :]

    damaged = "its header is damaged: record it again"
    assert refused(with_field(24, 0)) == f"/b.wav says that it has 0 samples a second; {damaged}"
    assert refused(with_field(24, 4_000_000_007)).endswith(f"4,000,000,007 samples a second; {damaged}")
    assert refused(with_field(40, 2_000_000_000)) == (
        "/b.wav is cut off: its header says 2,000,000,000 bytes of sound, and 2,000 are there; copy or record it again"
    )
    assert refused(good[:-700]).startswith("/b.wav is cut off: its header says 2,000 bytes of sound, and 1,300")
    (tmp_path / "stream.wav").write_bytes(with_field(40, 0xFFFFFFFF))  # a program that wrote to a pipe
    if not lacking:
        assert len(read_audio(tmp_path / "stream.wav")[0]) == 1000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is an empty file"),
        (b"hello, this is no sound at all", "is no recording that can be read"),
        (b"RIFF", "is no recording that can be read"),
        (b"RIFF" + struct.pack("<I", 4) + b"WAVE", "is no recording that can be read"),
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
