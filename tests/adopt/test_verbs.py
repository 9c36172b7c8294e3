"""Every command on a model of every architecture that can be adopted: it runs, or the documented sentence refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.adopt import test_bert, test_fairseq, test_gpt2, test_marian, test_t5
from typer.testing import CliRunner

import harken
from harken.adopt import adopt
from harken.cli.app import app

pytest.importorskip("transformers", reason="the package transformers is not installed")
TRANSLATORS = ["marian", *test_fairseq.NAMES, "t5"]
OTHERS = ["gpt2", "bert", "roberta", "distilbert"]
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
    "generate": "generate {m} --prompt the --seed 1",
    "evaluate text": "evaluate {m} {d}/in.txt --json",
    "perplexity": "evaluate {m} {d}/in.txt --json",
}
REFUSED = {  # architecture and command: a part of the sentence
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
    if name == "gpt2":
        return Path(test_gpt2.make_pair("tied", folder).own.folder)
    if name in OTHERS:
        return Path(test_bert.make_pair(name, folder).own.folder)
    return Path(test_fairseq.make_peer(name, test_fairseq.several_scripts(), folder).own.folder)


@pytest.fixture(scope="module", params=TRANSLATORS)
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, make(request.param, tmp_path_factory.mktemp(request.param))


def run(name: str, command: str, model: Path, data: Path, out: Path) -> Any:
    arguments = TABLE[command].format(m=model, d=data, o=out).split()
    result = CliRunner().invoke(app, arguments)
    refused = REFUSED.get((name, command))
    assert result.exit_code == (2 if refused else 0), (command, result.output, result.exception)
    if refused:
        assert refused in " ".join(result.output.split())
        assert not out.exists()
    return result


@pytest.mark.parametrize("command", [*list(TABLE)[:16]])
def test_a_command_on_a_translator(translator: tuple[str, Path], command: str, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
    pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    name, model = translator
    result = run(name, command, model, data, tmp_path / "out")
    if command.startswith("translate"):
        assert len(result.stdout.splitlines()) == len(LINES)
    if command in ("train", "adapter"):
        assert len(harken.load(tmp_path / "out").translate(LINES)) == len(LINES)
