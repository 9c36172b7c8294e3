"""Whole models in onnxruntime: the logits of every step and the tokens of greedy search are those of harken."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harken.data.tokenizers.base import load_tokenizers
from harken.data.tokenizers.tokens import BOS, EOS
from harken.errors import UserError
from harken.export import export_model
from harken.search import greedy_search
from harken.tasks.translate.sources import max_lengths

sys.path.insert(0, str(Path(__file__).parent))
from models import DECODER_ONLY, ENGLISH, RECURRENT, TRANSFORMER, make_model

pytest.importorskip("onnx", reason="ONNX files are written by the package onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX files are run by onnxruntime")

CASES: dict[str, tuple[list[str], list[str]]] = {
    "transformer": (TRANSFORMER, []),
    "post norm, gelu, learned": (
        TRANSFORMER,
        ["model.norm=post", "model.activation=gelu", "model.positions=learned", "model.max_length=64"],
    ),
    "post norm, silu, output bias": (
        TRANSFORMER,
        ["model.norm=post", "model.activation=silu", "model.output_bias=true"],
    ),
    "swiglu, rotary, dot": (
        TRANSFORMER,
        ["model.activation=swiglu", "model.positions=rotary", "model.attention=dot", "model.tied=none"],
    ),
    "norm of embeddings, gelu_tanh": (
        TRANSFORMER,
        ["model.embedding_norm=true", "model.activation=gelu_tanh", "model.scale_embeddings=false"],
    ),
    "alibi": (TRANSFORMER, ["model.positions=alibi"]),
    "decoder-only": (DECODER_ONLY, []),
    "decoder-only, rotary": (DECODER_ONLY, ["model.positions=rotary", "model.norm=post"]),
    "decoder-only, alibi": (DECODER_ONLY, ["model.positions=alibi"]),
    "decoder-only, norm of embeddings": (DECODER_ONLY, ["model.embedding_norm=true", "model.scale_embeddings=false"]),
    "lstm, after": (RECURRENT, ["model.layers=2", "model.connections=residual"]),
    "lstm, before, additive": (
        RECURRENT,
        ["model.attend=before", "model.attention=additive", "model.coverage=true", "model.peephole=diagonal"],
    ),
    "gru": (RECURRENT, ["model.cell=gru", "model.attention=scaled", "model.input_feeding=false", "model.zoneout=0.0"]),
    "rnn, cosine": (
        RECURRENT,
        ["model.cell=rnn", "model.attention=cosine", "model.layers=3", "model.connections=highway"],
    ),
    "no attention": (
        RECURRENT,
        ["model.attention=none", "model.context=constant", "model.context_to=all", "model.layers=2"],
    ),
    "transformer to recurrent": (
        TRANSFORMER,
        ['model.decoder={architecture="recurrent", embedding=16, width=12, attention="multiplicative"}'],
    ),
    "recurrent to transformer": (
        RECURRENT,
        ['model.decoder={architecture="transformer", layers=1, width=8, heads=2, feedforward=16}'],
    ),
}


class OnnxTranslator:
    """The loop of docs/how-to/export.md."""

    def __init__(self, folder: Path) -> None:
        self.about = json.loads((folder / "harken.json").read_text())
        self.encoder = onnxruntime.InferenceSession(folder / self.about["encoder"])
        self.decoder = onnxruntime.InferenceSession(folder / self.about["decoder"])

    def greedy(self, source: np.ndarray, lengths: np.ndarray, limits: np.ndarray) -> tuple[list[list[int]], list[Any]]:
        memory, state = self.about["memory"], self.about["state"]
        tensors = dict(zip(memory + state, self.encoder.run(None, {"source": source, "lengths": lengths}), strict=True))
        tokens = np.full(len(source), self.about["tokens"]["bos"])
        written, open_rows, seen = [[] for _ in source], np.ones(len(source), bool), []
        for position in range(int(limits.max())):
            logits, *after = self.decoder.run(None, {"tokens": tokens, "lengths": lengths, **tensors})
            tensors |= dict(zip(state, after, strict=True))
            seen.append(logits.copy())
            logits[:, self.about["never_written"]] = -np.inf
            tokens = np.where(open_rows, logits.argmax(-1), self.about["tokens"]["pad"])
            open_rows &= tokens != self.about["tokens"]["eos"]
            for row in np.flatnonzero(open_rows):
                written[row].append(int(tokens[row]))
            open_rows &= limits > position + 1
            if not open_rows.any():
                break
        return written, seen


@pytest.mark.parametrize("case", CASES)
def test_tokens_and_logits_are_those_of_the_model(case: str, tmp_path: Path) -> None:
    base, overrides = CASES[case]
    model = make_model(tmp_path / "model", base, *overrides)
    exported = export_model(model, "onnx", tmp_path / "onnx")
    batch = model.read(ENGLISH).batch(range(len(ENGLISH)), "cpu")
    limits = max_lengths(model.recipe, batch.lengths)
    found, seen = OnnxTranslator(exported).greedy(batch.ids.numpy(), batch.lengths.numpy(), limits.numpy())
    with torch.no_grad():
        state = model.model.start(batch.ids, batch.lengths)
        wanted = greedy_search(model.model, state, len(ENGLISH), max_lengths=limits)
        assert found == [one.tokens for one in wanted]
        longest = max(len(tokens) for tokens in found)
        fed = torch.tensor([[BOS, *tokens, *[EOS] * (longest - len(tokens))] for tokens in found])
        state = model.model.start(batch.ids, batch.lengths)
        for position, logits in enumerate(seen[: longest + 1]):
            expected = model.model.step(fed[:, position], state).numpy()
            rows = [row for row, tokens in enumerate(found) if len(tokens) >= position]
            np.testing.assert_allclose(logits[rows], expected[rows], atol=2e-4)
    assert len(set(map(tuple, found))) > 1 and longest > 1
    source, target = load_tokenizers(exported)
    assert source.encode(ENGLISH[0]) == model.source.encode(ENGLISH[0])
    assert target.size == model.target.size == seen[0].shape[1]


@pytest.mark.parametrize(
    ("base", "overrides", "said"),
    [
        (TRANSFORMER, ["model.positions=relative"], "no form for model.positions = 'relative'"),
        (TRANSFORMER, ["model.experts=2"], "no form for model.experts"),
        (TRANSFORMER, ["model.decoder_mixer=ssru"], "no form for model.decoder_mixer = 'ssru'"),
        (TRANSFORMER, ["model.attention=cosine"], "no form for model.attention = 'cosine'"),
        (RECURRENT, ["model.layer_norm=true"], "no form for layer_norm=True"),
        (RECURRENT, ["model.zoneout=0.1"], "no form for zoneout=0.1"),
    ],
)
def test_what_onnx_has_no_form_for_is_refused(base: list[str], overrides: list[str], said: str, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", base, *overrides)
    with pytest.raises(UserError, match=said):
        export_model(model, "onnx", tmp_path / "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_folder_says_what_the_network_does_not_do(tmp_path: Path) -> None:
    """harken translate reads words in a form that the vocabulary has; an exported model is given ids."""
    model = make_model(tmp_path / "model", TRANSFORMER)
    text = (export_model(model, "onnx", tmp_path / "out") / "README.md").read_text(encoding="utf-8")
    for fact in ("in lower case", "the end mark", f'stopping = "{model.recipe.search.stopping}"', "unknown words"):
        assert fact in text


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", RECURRENT)
    with pytest.raises(UserError, match="is not empty"):
        export_model(model, "onnx", tmp_path / "model")
