"""Every verb with every kind of bad file, odd option values, and the wrong model: exit code 0 or 2, one sentence."""

from __future__ import annotations

import os
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LONG = b"word " * 40_000


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind of bad file -> its path."""
    home = tmp_path_factory.mktemp("bad")
    contents = {
        "empty": b"",
        "newline": b"\n",
        "blank lines": b"\n  \n\t\n",
        "nul bytes": b"\0" * 1000,
        "not utf-8": b"caf\xe9 \xff\xfe\n",
        "utf-16": "ordinary text\n".encode("utf-16"),
        "bom": b"\xef\xbb\xbfordinary text\n",
        "crlf": b"ordinary text\r\nanother line\r\n",
        "long line": LONG + b"\n",
        "control characters": b"\x1b[31mred\x1b[0m\x07\x08 text\n",
        "lone quote": b'"never closed, still open\n1,2\n',
        "ragged table": b"a,b,c\n1\n1,2,3,4\n",
        "header only": b"date,value\n",
        "numbers out of range": b"date,value\n2020-01-01,1e999\n2020-01-02,nan\n",
        "json": b'{"text": 3, "label": null}\n[1]\n"x"\n',
        "deep json": b"[" * 30_000 + b"\n",
        "huge number": b'{"text": ' + b"9" * 5000 + b"}\n",
        "binary": bytes(range(256)) * 40,
        "html": b"<script>alert(1)</script>\n",
        "emoji": "🙂🙃 \u202eright to left\n".encode(),
        "surrogate": b'{"text": "\\ud800"}\n',
        "gzip named, no gzip": b"plain text\n",
        "zip header": b"PK\x03\x04" + b"\0" * 100,
        "riff header": b"RIFF\xff\xff\xff\x7fWAVEfmt ",
        "png header": b"\x89PNG\r\n\x1a\n" + b"\0" * 50,
        "npy header": b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }" + b" " * 60,
    }
    suffixes = {"gzip named, no gzip": ".gz", "zip header": ".npz", "riff header": ".wav", "png header": ".png"}
    suffixes |= {"npy header": ".npy", "ragged table": ".csv", "header only": ".csv", "numbers out of range": ".csv"}
    suffixes |= {"json": ".jsonl", "deep json": ".jsonl", "huge number": ".jsonl", "surrogate": ".jsonl"}
    files = {}
    for kind, content in contents.items():
        files[kind] = home / (kind.replace(" ", "-").replace(",", "") + suffixes.get(kind, ".txt"))
        files[kind].write_bytes(content)
    for kind, rate, frames in (("rate 0", 0, 100), ("silence", 8000, 0)):
        files[kind] = home / f"{kind.replace(' ', '-')}.wav"
        with wave.open(str(files[kind]), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate or 8000)
            file.writeframes(b"\1\0" * frames)
        if not rate:
            content = bytearray(files[kind].read_bytes())
            content[24:32] = b"\0" * 8
            files[kind].write_bytes(bytes(content))
    overstated = bytearray(files["silence"].read_bytes() + b"\1\0" * 900)
    overstated[40:44] = (2**31 - 1).to_bytes(4, "little")
    files["overstated length"] = home / "overstated.wav"
    files["overstated length"].write_bytes(bytes(overstated))
    np.savez(home / "objects.npz", values=np.array([{}, 1], dtype=object))
    files["pickled array"] = home / "objects.npz"
    np.savez(home / "nans.npz", values=np.full((1, 20, 2), np.nan, np.float32))
    files["nan signal"] = home / "nans.npz"
    files["folder"] = home / "folder"
    files["folder"].mkdir()
    files["missing"] = home / "missing.txt"
    files["unknown user"] = Path("~nosuchuser/x")
    files["dev null"] = Path("/dev/null")
    files["dev zero"] = Path("/dev/zero")
    files["proc"] = Path("/proc/self/mem")
    files["proc that blocks"] = Path("/proc/kmsg")
    files["name with escape"] = home / "a\x1b[2Jb.txt"
    files["name with escape"].write_bytes(b"ordinary text\n")
    files["dangling link"] = home / "dangling"
    files["dangling link"].symlink_to(home / "nowhere")
    files["unreadable"] = home / "unreadable.txt"
    files["unreadable"].write_bytes(b"text\n")
    os.chmod(files["unreadable"], 0)
    return files


def sets(*overrides: str) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


def positions(models: dict[str, Path], out: Path) -> dict[str, Callable[[Path], list[Any]]]:
    """Where a verb takes a file: name -> the words of the command."""
    translate, classify, signals = (
        models[n] for n in ("phrasebook-transformer", "opinions-classify", "gestures-classify")
    )
    tag, language, masked = (models[n] for n in ("phrasebook-tag", "phrasebook-language", "phrasebook-masked"))
    forecast, tones, stories = (models[n] for n in ("seasons-forecast", "tones-transcribe", "stories-answer"))
    scenes, pen = models["scenes-caption"], models["penfont-handwriting"]
    short = sets("train.max_steps=1", "model.width=8", "train.workers=1", "data.corpus=none")
    return {
        "translate": lambda f: ["translate", translate, f, "--long-lines", "copy"],  # 40,000 words take their time
        "translate model": lambda f: ["translate", f],
        "evaluate source": lambda f: ["evaluate", translate, "--source", f, "--reference", f],
        "evaluate classify": lambda f: ["evaluate", classify, f],
        "evaluate tag": lambda f: ["evaluate", tag, f],
        "evaluate compare": lambda f: ["evaluate", translate, "--source", f, "--reference", f, "--compare", f],
        "classify": lambda f: ["classify", classify, f],
        "classify signals": lambda f: ["classify", signals, f],
        "tag": lambda f: ["tag", tag, f],
        "forecast": lambda f: ["forecast", forecast, f],
        "transcribe": lambda f: ["transcribe", tones, f],
        "answer": lambda f: ["answer", stories, f],
        "caption": lambda f: ["caption", scenes, f],
        "caption out": lambda f: ["caption", scenes, f, "--out", out / "c.html"],
        "translate alignments": lambda f: [
            *("translate", translate, "--long-lines", "copy", "--alignments", out / "links.txt", f)],
        "attention": lambda f: ["attention", signals, f],
        "attention masked": lambda f: ["attention", masked, f],
        "inspect": lambda f: ["inspect", f],
        "inspect gates of a text": lambda f: ["inspect", tag, "--gates", f],
        "inspect gates": lambda f: ["inspect", signals, "--gates", f],
        "generate": lambda f: ["generate", language, f, "--length", "2"],
        "write": lambda f: ["write", pen, str(f)[:30], "--out", out / "w.svg"],
        "check": lambda f: ["check", f, "--no-measure"],
        "check source": lambda f: ["check", "dates-seq2seq", "--no-measure", *sets(
            "data.corpus=none", "data.size=none", f"data.source={f}", f"data.target={f}")],
        "check classify": lambda f: ["check", "sst2-classify", "--no-measure", "--set", f"data.train={f}"],
        "new": lambda f: ["new", f, "--task", "classify", "--minutes", "1", "--out", out / f"{f.name[:20]}.toml"],
        "train recipe": lambda f: ["train", f, "--out", out / "t1", *sets("train.max_steps=1"), "--restart"],
        "train classify": lambda f: ["train", "opinions-classify", "--out", out, *short, *sets(f"data.train={f}")],
        "recipes": lambda f: ["recipes", f],
        "embed neighbors": lambda f: ["embed", "neighbors", f, "word"],
        "embed train": lambda f: ["embed", "train", f, "--out", out / "v", "--epochs", "1"],
        "lab data": lambda f: ["lab", "ratios", "--data", f, "--out", out / "lab", "--quick"],
    }  # fmt: skip


def one_in(share: int) -> pytest.MarkDecorator:
    """Runs a test with one in `share` of its cases, and slowly with all."""
    values = [pytest.param(share, id=f"one in {share}"), pytest.param(1, id="all", marks=pytest.mark.slow)]
    return pytest.mark.parametrize("share", values)


@one_in(16)
def test_every_verb_takes_every_bad_file(
    harken: Any, models: Any, bad_files: dict[str, Path], tmp_path: Path, share: int
) -> None:
    """Every place with every kind of file; the share has every place and every kind, but not every pair of them."""
    wrong, cases = [], 0
    for number, (place, command) in enumerate(positions(models, tmp_path).items()):
        for kind_number, (kind, path) in enumerate(bad_files.items()):
            if (number + kind_number) % share:
                continue
            outcome = harken(*command(path))
            cases += 1
            if problem := outcome.check():
                wrong.append(f"{place}, {kind}: {problem}")
    assert cases >= 1000 // share
    assert wrong == [], "\n".join(wrong)


NUMBERS = ("0", "-1", "1e20", "99999999999999999999999", "nan", "inf", "-inf", "abc", "", "0.5", "1_000", "٣")
OPTIONS = {
    "translate": ("phrasebook-transformer", ["--beam", "--nbest", "--batch"], b"the cat\n"),
    "generate": ("phrasebook-language", ["--length", "--temperature", "--top-k", "--top-p", "--seed", "--count"], b""),
    "transcribe": ("tones-transcribe", ["--beam", "--lm-weight"], b""),
    "classify": ("opinions-classify", ["--top"], b"good\n"),
    "forecast": ("seasons-forecast", ["--steps", "--test"], b""),
    "write": ("penfont-handwriting", ["--count", "--bias", "--seed"], b""),
    "caption": ("scenes-caption", ["--beam"], b""),
    "evaluate": ("phrasebook-transformer", ["--beam", "--split"], b""),
}


@one_in(12)
def test_odd_option_values(harken: Any, models: Any, tmp_path: Path, share: int) -> None:
    wrong, number = [], 0
    short = tmp_path / "short.txt"  # a beam of 1,000 is allowed, and takes its time on the whole test split
    short.write_text("the cat\n")
    for verb, (recipe, options, stdin) in OPTIONS.items():
        for option in options:
            number += 1
            for value in NUMBERS[number % share :: share]:
                words: list[Any] = [verb, models[recipe]]
                words += {"write": ["a"], "generate": ["the"], "transcribe": [tmp_path / "no.wav"]}.get(verb, [])
                words += ["--out", tmp_path / "w.svg"] if verb == "write" else []
                words += ["--source", short, "--reference", short] if (verb, option) == ("evaluate", "--beam") else []
                words += ["--length", "2"] if verb == "generate" and option != "--length" else []
                outcome = harken(*words, f"{option}={value}", stdin=stdin)
                if problem := outcome.check():
                    wrong.append(f"{verb} {option}={value}: {problem}")
    assert wrong == [], "\n".join(wrong)


@one_in(4)
def test_the_wrong_model_for_a_verb(harken: Any, models: Any, tmp_path: Path, share: int) -> None:
    wrong = []
    verbs = ("translate", "classify", "tag", "forecast", "answer", "generate", "transcribe", "caption", "write")
    for number, (recipe, folder) in enumerate(models.items()):
        for verb in verbs[number % share :: share]:
            words = {"caption": [tmp_path], "transcribe": [tmp_path], "write": ["a", "--out", tmp_path / "a.svg"]}
            outcome = harken(verb, folder, *words.get(verb, []), stdin=b"")
            if problem := outcome.check():
                wrong.append(f"{verb} of {recipe}: {problem}")
    assert wrong == [], "\n".join(wrong)


def test_outputs_go_through_links_and_never_replace_devices(harken: Any, models: Any, tmp_path: Path) -> None:
    model = models["phrasebook-transformer"]
    target = tmp_path / "real.svg"
    target.write_text("old")
    link = tmp_path / "link.svg"
    link.symlink_to(target)
    null, fifo = tmp_path / "null.svg", tmp_path / "fifo.svg"
    null.symlink_to("/dev/null")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    for out in (link, null, fifo):
        outcome = harken("attention", model, "the cat sleeps", "--out", out)
        assert outcome.check() is None, outcome.stderr
    os.close(reader)
    assert link.is_symlink() and target.read_text().lstrip().startswith("<")
    assert null.is_symlink() and Path("/dev/null").is_char_device()
    assert fifo.is_fifo()
    for out in ("", tmp_path, "/proc/nothing.svg", tmp_path / "no" / "\0bad.svg"):
        outcome = harken("attention", model, "the cat sleeps", f"--out={out}")
        assert outcome.check((2,)) is None, (str(out), outcome.stderr)


def test_alignments_are_written_whole_or_not_at_all(harken: Any, models: Any, tmp_path: Path) -> None:
    model, links = models["phrasebook-transformer"], tmp_path / "links.txt"
    links.write_text("old\n")
    link = tmp_path / "link.txt"
    link.symlink_to(links)
    refused = harken("translate", model, "--alignments", link, stdin=b"the cat\n\xff\n")
    assert refused.check((2,)) is None and links.read_text() == "old\n"
    done = harken("translate", model, "--alignments", link, stdin=b"the cat\n\nthe house\n")
    assert done.check((0,)) is None, done.stderr
    lines = links.read_text().split("\n")
    assert link.is_symlink() and len(lines) == 4 and lines[1] == lines[3] == "" and lines[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.txt", "links.txt"]
    for place in ("/dev/null", "/dev/stdout"):
        assert harken("translate", model, "--alignments", place, stdin=b"the cat\n").check((0,)) is None
    assert harken("translate", model, "--alignments=", stdin=b"the cat\n").check((2,)) is None


def test_empty_places_and_lists_are_refused(harken: Any, models: Any, tmp_path: Path) -> None:
    commands: list[list[Any]] = [
        ["train", "phrasebook-tag", "--out="],
        ["ladder", "phrasebook-transformer", "--out=", "--rungs", "lstm"],
        ["ladder", "phrasebook-transformer", "--out", tmp_path / "l", "--rungs="],
        ["lab", "ratios", "--quick", "--out="],
        ["demo", "--out="],
        ["embed", "train", tmp_path / "no.txt", "--out="],
        ["evaluate", models["phrasebook-tag"], "--out="],
    ]
    place = tmp_path / "empty"  # an empty working directory, which the empty path would stand for
    place.mkdir()
    for command in commands:
        outcome = harken(*command, cwd=place)
        assert outcome.check((2,)) is None, outcome.command
    assert list(place.iterdir()) == []


def test_a_defect_is_not_taken_for_a_damaged_folder(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from harken.api import load
    from harken.errors import UserError
    from harken.models.reader import Reader

    def broken(error: Exception) -> Any:
        def build(self: Any, *arguments: Any) -> None:
            raise error

        return build

    monkeypatch.setattr(Reader, "__init__", broken(AttributeError("no attribute 'widht'")))
    with pytest.raises(AttributeError, match="widht"):
        load(models["phrasebook-tag"])
    monkeypatch.setattr(Reader, "__init__", broken(RuntimeError("size mismatch")))
    with pytest.raises(UserError, match=r"does not hold together.*size mismatch"):
        load(models["phrasebook-tag"])


def test_python_calls_with_the_wrong_things(models: Any) -> None:
    from harken.api import load, train
    from harken.errors import UserError

    signals, tagger = load(models["gestures-classify"]), load(models["phrasebook-tag"])
    calls: dict[str, Callable[[], Any]] = {
        "give \\(time, channels\\), every row": lambda: signals.predict([[[1, 2], [3]]]),
        "with 2 channels": lambda: signals.predict([np.zeros((5, 7))]),
        "a text, or a list of words": lambda: tagger.tag(3),
        "continue the run in it with resume=True": lambda: train("phrasebook-tag", models["phrasebook-tag"]),
    }
    for said, call in calls.items():
        with pytest.raises(UserError, match=said):
            call()
