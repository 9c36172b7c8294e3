"""Every command on a model of every architecture of translators that is adopted: it runs, or a sentence refuses it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adopt import test_fairseq, test_marian, test_t5
from typer.testing import CliRunner

import harken
from harken.adopt import adopt
from harken.cli.app import app
from harken.export import export_model

pytest.importorskip("transformers", reason="the package transformers is not installed")
QUICKLY = ["marian", "m2m", "t5"]  # in the quick tests
TRANSLATORS = [*QUICKLY, "bart", "mbart", "mbart50", "nllb"]
LINES = ["the black cat", "a dog sees the house", "yes"]
MACHINE = ["train.workers=1", "train.threads=1", "train.precision=float32", "train.device=cpu"]
QUICK = [*MACHINE, "train.max_steps=2", "train.validate_every=2", "train.batch_tokens=256"]
TABLE = {  # the arguments of a command; {m}: the model, {d}: a folder with data, {o}: a new path
    "translate": "translate {m} {d}/in.txt",
    "translate int8": "translate {m} {d}/in.txt --precision int8",
    "attention": "attention {m} the --out {o}.svg",
    "beam": "beam {m} the --out {o}.svg",
    "inspect": "inspect {m} --json",
    "gradients": "inspect {m} --gradients --source {d}/in.txt --target {d}/in.txt --sentences 3 --json",
    "evaluate": "evaluate {m} --source {d}/in.txt --reference {d}/in.txt --json",
    "score": "score {m} {d}/in.txt {d}/in.txt",
    "average": "average {m} {m} --out {o}",
    "onnx": "export {m} --format onnx --out {o}",
    "ctranslate2": "export {m} --format ctranslate2 --out {o}",
    "huggingface": "export {m} --format huggingface --out {o}",
    "argos": "export {m} --format argos --out {o}",
    "harken": "export {m} --format harken --out {o}",
    "train": "train {d}/pairs.tsv --start {m} --out {o} --quiet " + " ".join(f"--set {one}" for one in QUICK),
    "adapter": "train {d}/pairs.tsv --start {m} --out {o} --quiet --set adapt.rank=2 "
    + " ".join(f"--set {one}" for one in QUICK),
}
REFUSED = {  # architecture and command: a part of the sentence
    ("marian", "argos"): "has no form for models with tokens of target languages",
    ("bart", "argos"): "needs the languages of a package",
    ("mbart", "argos"): "has no form for tokens after a source",
    ("t5", "argos"): "needs the languages of a package",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    pairs = {f"{line} {end}": end for end in ("the", "house", "cat", "dog") for line in LINES * 2}
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{source}\n" for source in pairs))
    return folder


def make(name: str, folder: Path) -> Path:
    """An adopted model of an architecture."""
    if name == "marian":
        return Path(adopt(test_marian.write_marian(folder), folder / "adopted").folder)
    if name == "t5":
        return Path(test_t5.make_pair("v1.1", folder).own.folder)
    return Path(test_fairseq.make_peer(name, test_fairseq.several_scripts(), folder).own.folder)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in QUICKLY else pytest.mark.slow) for name in TRANSLATORS],
)
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, make(request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.parametrize("command", TABLE)
def test_a_command(translator: tuple[str, Path], command: str, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
    pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    name, model = translator
    out = tmp_path / "out"
    result = CliRunner().invoke(app, TABLE[command].format(m=model, d=data, o=out).split())
    refused = REFUSED.get((name, command))
    assert result.exit_code == (2 if refused else 0), (result.output, result.exception)
    if refused:
        assert refused in " ".join(result.output.split())
        assert not out.exists()
    elif command.startswith("translate"):
        assert len(result.stdout.splitlines()) == len(LINES)
    elif command in ("train", "adapter", "harken"):
        assert len(harken.load(out).translate(LINES)) == len(LINES)


@pytest.mark.slow
def test_a_student(translator: tuple[str, Path], tmp_path: Path) -> None:
    own = harken.load(translator[1])
    with torch.no_grad():
        own.model.output_bias[5:150] += 20  # pieces, no other tokens
    teacher = export_model(own, "harken", tmp_path / "teacher")
    sources = [f"{line} {end}" for end in ("the", "house", "cat", "dog", "yes") for line in LINES]
    (tmp_path / "sources.txt").write_text("".join(f"{line}\n" for line in sources))
    small = ["model.width=16", "model.heads=2", "model.feedforward=16", "tokenizer.kind=character"]
    command = ["distill", str(teacher), str(tmp_path / "sources.txt"), "--out", str(tmp_path / "student")]
    for option in [*QUICK, *small, "train.validate_sentences=2"]:
        command += ["--set", option]
    result = CliRunner().invoke(app, [*command, "--size", "tiny", "--beam", "2", "--quiet"])
    assert result.exit_code == 0, (result.output, result.exception)
    pairs = (tmp_path / "student.pairs" / "translations.jsonl").read_text().splitlines()
    assert len(pairs) == len(sources)
    expected = harken.load(teacher).translate(sources[:3], beam=2)
    assert any(one.text for one in expected)
    assert [json.loads(line)["translations"][0]["text"] for line in pairs[:3]] == [one.text for one in expected]
    assert len(harken.load(tmp_path / "student").translate(LINES)) == len(LINES)


@pytest.mark.slow
def test_a_server_of_all_architectures(tmp_path: Path) -> None:
    models = [make(name, tmp_path / name) for name in TRANSLATORS if not (tmp_path / name).mkdir()]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "harken", "serve", *map(str, models), "--port", str(port), "--device", "cpu"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        names = ask(port, "/v1/models")["models"]
        assert len(names) == len(TRANSLATORS)
        for about in names:
            answer = ask(port, "/v1/translate", {"text": LINES, "model": about["name"], "max_length_extra": 3})
            assert len(answer["results"]) == len(LINES)
    finally:
        server.terminate()
        server.wait()


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    """The answer of a server, which may not listen yet."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    for _ in range(600):
        try:
            with urllib.request.urlopen(request) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise AssertionError(error.read().decode()) from error
        except OSError:
            pass
        time.sleep(0.5)
    raise AssertionError("the server does not listen")
