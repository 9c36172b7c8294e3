"""Mixed digits and made speech: functions of (seed, epoch, index), and no take in two splits."""

import lzma
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from harken.data.audio.spoken_digits import LOUDNESS, WORDS, DigitRecordings, MixConfig, MixedDigits, read_digits
from harken.data.audio.utterances import Utterances
from harken.data.synthetic.tone_speech import DICTIONARY, LETTERS, ToneSpeech
from harken.errors import UserError


def recordings() -> DigitRecordings:
    """Two speakers, ten digits, three takes; recording n is a constant of 100 + n samples, some loud and some soft."""
    count = 60
    lengths = 100 + np.arange(count)
    return DigitRecordings(
        np.repeat(np.where(np.arange(count) % 3, 20, 9000).astype(np.int16), lengths),
        lengths,
        np.tile(np.arange(10, dtype=np.int8), 6),
        np.repeat(np.array(["a", "b"]), 30),
        np.tile(np.repeat(np.arange(3), 10), 2),
    )


QUIET = MixConfig(noise_db=(200.0, 200.0))


@pytest.mark.parametrize("made", [MixedDigits(recordings(), [0, 1], MixConfig(), 8000, 20, 3), ToneSpeech(20, 3)])
def test_an_utterance_is_a_function_of_seed_epoch_and_index(made: Utterances) -> None:
    assert made.text(2, 5) == made.text(2, 5)
    np.testing.assert_array_equal(made.samples(2, 5), made.samples(2, 5))
    assert made.texts(0) != made.texts(1)
    for index in range(20):
        samples = made.samples(1, index)
        assert len(samples) == made.length(1, index) and samples.dtype == np.float32
        assert np.isfinite(samples).all() and np.abs(samples).max() > 0


def test_a_string_holds_the_recordings_of_its_digits_by_one_speaker_and_of_its_takes() -> None:
    digits = recordings()
    mixed = MixedDigits(digits, [2], QUIET, 8000, 30, 1)
    for index in range(30):
        samples, text = mixed.samples(0, index), mixed.text(0, index)
        spoken = np.concatenate([[0], samples > 0.01, [0]]).astype(int)
        starts, ends = np.flatnonzero(np.diff(spoken) > 0), np.flatnonzero(np.diff(spoken) < 0)
        numbers = (ends - starts - 100).tolist()
        levels = [20 * np.log10(samples[start] / LOUDNESS) for start in starts]
        assert max(levels) <= 3.01 and min(levels) >= -3.01 and max(levels) - min(levels) > 0.1
        assert "".join(str(digits.digit[number]) for number in numbers) == text
        assert {int(digits.take[number]) for number in numbers} == {2}
        assert len({str(digits.speaker[number]) for number in numbers}) == 1
        assert 3 <= len(text) <= 7


def test_digits_are_cut_by_no_more_than_is_said() -> None:
    mixed = MixedDigits(recordings(), [0], MixConfig(clip=0.2, noise_db=(200.0, 200.0)), 8000, 20, 1)
    whole = MixedDigits(recordings(), [0], MixConfig(noise_db=(200.0, 200.0)), 8000, 20, 1)
    shares = []
    for index in range(20):
        samples = mixed.samples(0, index)
        assert len(samples) == mixed.length(0, index) and mixed.text(0, index) == whole.text(0, index)
        said = whole.digits.lengths[whole.plan(0, index).recordings].sum()
        shares.append(1 - (samples > 0.01).sum() / said)
    assert max(shares) <= 0.4 and 0.1 < np.mean(shares) < 0.3


def test_digits_can_be_words() -> None:
    mixed = MixedDigits(recordings(), [0], MixConfig(words=True), 8000, 5, 1)
    plain = MixedDigits(recordings(), [0], MixConfig(), 8000, 5, 1)
    assert mixed.text(0, 0) == " ".join(WORDS[int(digit)] for digit in plain.text(0, 0))


def test_made_speech_says_words_of_its_dictionary() -> None:
    assert {letter for word in DICTIONARY for letter in word} == set(LETTERS)
    assert {word for text in ToneSpeech(200, 1).texts() for word in text.split()} == set(DICTIONARY)


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no spoken digit has a take of \[9\]"):
        MixedDigits(recordings(), [9], MixConfig(), 8000, 5, 1)
    with pytest.raises(UserError, match=r"set features\.rate = 8000"):
        MixedDigits(recordings(), [0], MixConfig(), 16000, 5, 1)
    with pytest.raises(UserError, match=r"set features\.rate = 8000"):
        ToneSpeech(5, 1, rate=16000)
    with pytest.raises(UserError, match=r"train\.npz\.xz does not exist"):
        read_digits(tmp_path)
    (tmp_path / "train.npz.xz").write_bytes(lzma.compress(b"nothing"))
    with pytest.raises(UserError, match=r"is no plain NumPy file .* it needs the arrays samples, lengths"):
        read_digits(tmp_path)
    file = BytesIO()
    np.savez(file, samples=np.zeros(3))
    (tmp_path / "train.npz.xz").write_bytes(lzma.compress(file.getvalue()))
    with pytest.raises(UserError, match="is no archive of spoken digits"):
        read_digits(tmp_path)


def test_an_archive_is_read_back(tmp_path: Path) -> None:
    digits, file = recordings(), BytesIO()
    np.savez(file, **{name: getattr(digits, name) for name in ("samples", "lengths", "digit", "speaker", "take")})
    (tmp_path / "train.npz.xz").write_bytes(lzma.compress(file.getvalue()))
    found = read_digits(tmp_path)
    np.testing.assert_array_equal(found.samples, digits.samples)
    assert found.speaker.tolist() == digits.speaker.tolist()
