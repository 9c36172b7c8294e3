"""One answer per question: trained models give a sentence the same hypotheses in every batch and every backend."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import harken
from harken.data.text.parallel import read_corpus
from harken.errors import UserError
from harken.kernels.weights import forget
from harken.search import dispatch

FOLDERS = Path(__file__).parents[1] / "folders"
BATCHES = (1, 7, 64)
TOLERANCE = 2e-5  # of normalised scores in float32


@pytest.fixture(scope="module", params=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = shutil.copytree(FOLDERS / request.param, tmp_path_factory.mktemp("folders") / request.param)
    translator = harken.load(folder, device="cpu")
    translator.threads.count = 1
    translator.prepare()
    return translator


@pytest.fixture(scope="module")
def sentences(model: Any) -> list[str]:
    corpus = read_corpus(model.recipe.data.model_copy(update={"size": 200}))
    return [pair.source for pair in corpus.valid[:64]]


def nbest(model: Any, sentences: list[str], batch: int, **options: Any) -> list[Any]:
    recipe = model.recipe
    model.recipe = recipe.model_copy(
        update={"search": recipe.search.model_copy(update={"batch_sentences": batch, "stopping": "exact"})}
    )
    try:
        return model.nbest(sentences, 3, **options)
    finally:
        model.recipe = recipe


@pytest.mark.parametrize("beam", [3, 5])
def test_batches_and_backends_give_one_answer(
    model: Any, sentences: list[str], beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends: list[str] = []
    choose = dispatch.choose

    def recorded(call: Any) -> Any:
        backend = choose(call)
        backends.append(backend.name)
        return backend

    monkeypatch.setattr(dispatch, "choose", recorded)
    answers = []
    for kernels in ("", "off"):
        monkeypatch.setenv("HARKEN_KERNELS", kernels)
        for batch in BATCHES:
            backends.clear()
            answers.append(nbest(model, sentences, batch, beam=beam))
            assert set(backends) == {"reference" if kernels else "compiled"}
            assert len(backends) == -(-len(sentences) // batch)
    first = answers[0]
    assert len({translation.text for row in first for translation in row}) > len(sentences)
    for other in answers[1:]:
        for row, expected in zip(other, first, strict=True):
            scores = [translation.score for translation in expected]
            assert [translation.score for translation in row] == pytest.approx(scores, abs=TOLERANCE)
            assert [translation.token_ids for translation in row] == [translation.token_ids for translation in expected]


def test_int8_is_never_replaced_by_float32(model: Any, sentences: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that the int8 kernels do not support are refused, whatever leads to them."""
    exact, quantised = (nbest(model, sentences, 64, precision=precision) for precision in ("float32", "int8"))
    differences = [a[0].score - b[0].score for a, b in zip(exact, quantised, strict=True)]
    assert any(abs(difference) > 1e-4 for difference in differences)  # it is another computation
    text = sentences[0]
    refused = [
        lambda: model.translate(text, precision="int8", shortlist=50, ensemble=[model]),
        lambda: model.beam(text, precision="int8"),
    ]
    for call in refused:
        with pytest.raises(UserError, match=r'search\.precision is "int8", but'):
            call()
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    with pytest.raises(UserError, match="HARKEN_KERNELS=off is set"):
        model.translate(text, precision="int8")


def test_without_kernels_no_path_reads_packed_weights(
    model: Any, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from harken.search import compiled

    def packed(*_: Any) -> Any:
        raise AssertionError("kernels ran although they are off")

    forget(model.model)
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    monkeypatch.setattr(compiled, "packed_weights", packed)
    monkeypatch.setattr(compiled, "describe", packed)
    text = sentences[0]
    model.prepare()
    whole = model.translate(text, beam=3).text
    assert "".join(model.stream(text, beam=3)) == whole
    assert model.nbest([text], 2, precision="auto")[0][0].text
    assert model.beam(text, beam=3).hypotheses
    assert model.alternatives(text, count=2)
    assert model.translate(text, sample=True, seed=1).text
    with torch.no_grad():
        assert model.score([text], [whole])[0].score < 0
