"""`harken transcribe`: a line for every recording, files or a list on stdin, and mistakes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harken
from harken.data.audio.recordings import write_wav
from harken.data.synthetic.tone_speech import ToneSpeech

TINY = ["data.size=20", "data.valid_size=4", "model.width=16", "model.embedding=8", "train.max_steps=2"]
MACHINE = ["train.max_minutes=none", "train.workers=1", "train.precision=float32", "train.device=cpu"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in `model` and two recordings."""
    folder = tmp_path_factory.mktemp("transcribe")
    harken.train("tones-transcribe", folder / "model", overrides=[*TINY, *MACHINE], progress=False)
    for index in range(2):
        write_wav(folder / f"{index}.wav", ToneSpeech(2, 1).samples(0, index), 8000)
    return folder


def test_a_line_for_every_file_named_or_listed(home: Path, run: Callable[..., Any]) -> None:
    named = run("transcribe", home / "model", home / "0.wav", home / "1.wav")
    assert named.exit_code == 0, named.output
    assert len(named.stdout.split("\n")) == 3  # what so small a model hears may be nothing
    listed = run("transcribe", home / "model", "-", stdin=f"{home / '0.wav'}\n\n{home / '1.wav'}\n")
    assert listed.stdout == named.stdout


def test_json_has_the_time_of_every_symbol(home: Path, run: Callable[..., Any]) -> None:
    done = run("transcribe", home / "model", home / "0.wav", "--json", "--beam", 4, "--lm-weight", 0.5)
    found = json.loads(done.stdout)
    assert found["file"] == str(home / "0.wav") and found["seconds"] > 0
    assert "".join(symbol["symbol"] for symbol in found["symbols"]) == found["text"]
    assert all(symbol["start"] < symbol["end"] and 0 < symbol["confidence"] <= 1 for symbol in found["symbols"])


def test_evaluate_and_attention_know_the_job(home: Path, run: Callable[..., Any]) -> None:
    scores = json.loads(run("evaluate", home / "model", "--split", "valid", "--json").stdout)
    assert scores["task"] == "transcribe" and scores["recordings"] == 4
    assert len(scores["symbol error rate_interval"]) == 2
    drawn = run("attention", home / "model", home / "0.wav", "--out", home / "p.svg")
    assert drawn.exit_code == 0 and (home / "p.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.wav",), "nowhere.wav"),
        (("0.wav", "--lm-weight", "1", "--beam", "1"), "--beam 8"),
    ],
)
def test_mistakes_end_with_one_sentence(
    home: Path, run: Callable[..., Any], arguments: tuple[str, ...], said: str
) -> None:
    done = run("transcribe", home / "model", home / arguments[0], *arguments[1:])
    assert done.exit_code == 2
    assert said in done.stderr and done.stderr.startswith("error: ")
