"""Packages of Argos Translate: their content, their sentences, and the translations of Argos Translate itself."""

import json
import os
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.export import export_model
from harken.export.argos import OTHER, write_sentence_model

sys.path.insert(0, str(Path(__file__).parent))
from models import ENGLISH, RECURRENT, TRANSFORMER, make_model

ctranslate2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
sentencepiece = pytest.importorskip("sentencepiece")

LATER = 6.0  # by which the bias of EOS is lowered, so that outputs are not empty
NAME = "translate-en_fr-1_0"
SEARCH = {"beam": 4, "length_penalty": 0.2, "stopping": "count"}  # as Argos Translate searches
SPLITS = [
    ["The cat sleeps.", "The dog eats!", "Does it? ", "yes"],
    ["Dr. Smith met J. S. Bach at approx. three.", "He said: “No.”", "Then he left…", "(Really.)", "So it is."],
    ["It costs 3.50 today, e.g. here.", "And «now!» it is late."],
    ["黒い猫が眠る。", "「犬は食べる。」", "本当！？", "はい"],
    ["one line without an end"],
]
INSTALL = """
import json, socket, sys
def refuse(*_): raise OSError("there is no network")
socket.socket.connect = socket.getaddrinfo = refuse
from argostranslate import package, translate
package.install_from_path(sys.argv[1])
lines = json.loads(sys.stdin.read())
print("RESULT" + json.dumps([translate.translate(line, "en", "fr") for line in lines]))
"""


def open_package(path: Path, folder: Path) -> Path:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder / NAME


@pytest.mark.parametrize("joint", ["true", "false"])
def test_content_of_a_package(joint: str, tmp_path: Path) -> None:
    options = [f"tokenizer.joint={joint}", "model.tied=none", "model.output_bias=true"]
    model = make_model(tmp_path / "model", TRANSFORMER, *options)
    with torch.no_grad():
        model.model.output_bias[EOS] -= LATER
    out = export_model(model, "argos", tmp_path / "argos")
    assert {path.name for path in out.iterdir()} == {f"{NAME}.argosmodel", "README.md"}
    package = open_package(out / f"{NAME}.argosmodel", tmp_path / "installed")
    names = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    vocabularies = {"model/source_vocabulary.json", "model/target_vocabulary.json"}
    vocabularies = {"model/shared_vocabulary.json"} if joint == "true" else vocabularies
    assert names == vocabularies | {
        *("README.md", "metadata.json", "sentencepiece.model", "minisbd/sentences.onnx"),
        *("model/config.json", "model/model.bin"),
    }
    assert json.loads((package / "metadata.json").read_text()) == {
        "type": "translate",
        "package_version": "1.0",
        "argos_version": "1.11",
        "from_code": "en",
        "from_name": "English",
        "to_code": "fr",
        "to_name": "French",
    }
    assert "Argos Translate" in (package / "README.md").read_text()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    texts = [*ENGLISH, "the\u00a0cat  sleeps", "Ω cat"]
    encoded = [pieces.encode(text, out_type=str) for text in texts]
    assert [pieces.piece_to_id(row) for row in encoded] == [model.source.encode(text) for text in texts]
    other = ctranslate2.Translator(str(package / "model"), compute_type="float32", inter_threads=1, intra_threads=1)
    results = other.translate_batch(encoded[:5], beam_size=1, min_decoding_length=0, max_decoding_length=20)
    own = model.translate(ENGLISH, beam=1, max_length_factor=0.01, max_length_extra=20)
    # Argos Translate decodes by the source's pieces and writes a space for each ▁ that is left
    decoded = [pieces.decode_pieces(result.hypotheses[0]).replace("▁", " ").strip() for result in results]
    assert decoded == [translation.text for translation in own]
    assert len(set(decoded)) > 1 and (joint == "true" or any(" " in text for text in decoded))


def test_the_command(tmp_path: Path) -> None:
    make_model(tmp_path / "model", TRANSFORMER)
    arguments = ["export", str(tmp_path / "model"), "--format", "argos", "--out", str(tmp_path / "argos")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert zipfile.is_zipfile(tmp_path / "argos" / f"{NAME}.argosmodel")


def split(session: Any, text: str) -> list[str]:
    """The sentences of a text with the rules' model, read as MiniSBD reads one."""
    about = session.get_modelmeta().custom_metadata_map
    kinds = json.loads(about["vocab"])["_unit2id"]
    assert json.loads(about["config"])["feat_funcs"] == ["capitalized"]
    units = np.array([[kinds.get(character, OTHER) for character in text]])
    features = np.array([[[character.isupper()] for character in text]], np.float32)
    ends = session.run(None, {"units": units, "features": features})[0].argmax(2)[0]
    assert set(ends) <= {0, 2}
    cuts = [0, *(np.flatnonzero(ends == 2) + 1), len(text)]
    parts = (text[start:end].strip() for start, end in pairwise(cuts))
    return [part for part in parts if part]


@pytest.mark.parametrize("sentences", SPLITS)
def test_ends_of_sentences(sentences: list[str], tmp_path: Path) -> None:
    write_sentence_model(tmp_path / "sentences.onnx", "en")
    session = onnxruntime.InferenceSession(tmp_path / "sentences.onnx")
    space = "" if "。" in sentences[0] else " "
    assert split(session, space.join(sentences)) == [sentence.strip() for sentence in sentences]


@pytest.mark.parametrize(
    ("base", "overrides", "message"),
    [
        (RECURRENT, ["tokenizer.kind=bpe", "tokenizer.size=60"], "CTranslate2 has no form for RecurrentEncoder"),
        (TRANSFORMER, ["tokenizer.kind=word", "tokenizer.joint=false"], "Argos Translate needs SentencePiece"),
        (TRANSFORMER, ["data.corpus=copy"], "needs the languages of a package; set data.source_language"),
    ],
)
def test_what_argos_has_no_form_for_is_refused(
    base: list[str], overrides: list[str], message: str, tmp_path: Path
) -> None:
    model = make_model(tmp_path / "model", base, *overrides)
    with pytest.raises(UserError, match=message):
        export_model(model, "argos", tmp_path / "argos")
    assert not (tmp_path / "argos").exists()


def test_argos_translate_installs_and_translates(tmp_path: Path) -> None:
    """Set HARKEN_ARGOS_PYTHON to the Python of another environment that has argostranslate."""
    python = os.environ.get("HARKEN_ARGOS_PYTHON", sys.executable)
    home = {name: str(tmp_path / name) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | home
    environment |= {"ARGOS_COMPUTE_TYPE": "float32", "ARGOS_INTRA_THREADS": "1"}
    probe = [python, "-c", "import argostranslate.translate"]
    if subprocess.run(probe, env=environment, capture_output=True, check=False).returncode:
        pytest.skip("the package argostranslate is not installed")
    small = [
        "model.layers=2",
        "model.width=64",
        "model.heads=4",
        "model.feedforward=128",
        "train.max_steps=300",
        "train.warmup_steps=50",
    ]
    subword = ["tokenizer.kind=bpe", "tokenizer.size=300", "tokenizer.joint=true"]
    harken.train("phrasebook-transformer", tmp_path / "model", overrides=[*small, *subword], progress=False)
    model = harken.load(tmp_path / "model", device="cpu")
    package = export_model(model, "argos", tmp_path / "argos") / f"{NAME}.argosmodel"
    lines = ["the black cat sleeps", "a dog sees the old house", "she reads a book", "we do not eat the bread"]
    run = subprocess.run(
        [python, "-c", INSTALL, str(package)], input=json.dumps(lines), env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    texts = json.loads(run.stdout.rpartition("RESULT")[2])
    assert texts == [translation.text for translation in model.translate(lines, **SEARCH)]
    assert len(set(texts)) == len(lines)
