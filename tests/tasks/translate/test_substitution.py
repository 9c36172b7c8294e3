"""Glossary terms replace the words that translate them; nothing is appended, and all other words stay."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harken
from harken.errors import UserError
from harken.tasks.translate.decoding.glossary import Match
from harken.tasks.translate.decoding.substitution import span_of, with_terms, word_weights

FOLDERS = Path(__file__).parents[2] / "folders"
SENTENCES = [
    "the black cat sleeps",
    "the cat sees the old house",
    "my brother likes the cat",
    "the small cat is in the garden",
    "a black cat sees the dog",
]


@pytest.fixture(scope="module", params=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = shutil.copytree(FOLDERS / request.param, tmp_path_factory.mktemp("folders") / request.param)
    translator = harken.load(folder, device="cpu")
    translator.threads.count = 1
    return translator


@pytest.fixture
def glossary(tmp_path: Path) -> str:
    path = tmp_path / "terms.tsv"
    path.write_text("cat\tlapin\n", encoding="utf-8")
    return str(path)


def test_a_term_takes_the_place_of_the_words_that_translate_it(model: Any, glossary: str) -> None:
    for options in ({}, {"beam": 1}, {"precision": "int8"}):
        free = [translation.text for translation in model.translate(SENTENCES, **options)]
        assert all("chat" in text.split() for text in free)
        translations = model.translate(SENTENCES, glossary=glossary, **options)
        assert [translation.text for translation in translations] == [text.replace("chat", "lapin") for text in free]
    assert model.translate(SENTENCES[0], glossary=glossary).text == "le lapin noir dort"


def test_a_glossary_may_be_a_dict_or_a_path(model: Any, glossary: str) -> None:
    expected = model.translate(SENTENCES, glossary=glossary)
    for given in ({"cat": "lapin"}, Path(glossary)):
        texts = [translation.text for translation in model.translate(SENTENCES, glossary=given)]
        assert texts == [translation.text for translation in expected]
    with pytest.raises(UserError, match="the glossary has the term 'cat': ''; fill both sides"):
        model.translate(SENTENCES[0], glossary={"cat": " "})
    with pytest.raises(UserError, match=r"search\.glossary"):
        model.translate(SENTENCES[0], glossary={"cat": 3})
    for given in (["cat"], [("cat", "lapin")], {"cat"}, 3):
        with pytest.raises(UserError, match=r"glossary: a \w+ is no glossary; give a dict from .*, such as \{"):
            model.translate(SENTENCES[0], glossary=given)  # type: ignore[arg-type]


def test_the_score_of_a_substituted_translation_is_that_of_forced_decoding(model: Any, glossary: str) -> None:
    best = model.translate(SENTENCES[0], glossary=glossary)
    forced = model.score([SENTENCES[0]], [best.text])[0]
    assert best.score == pytest.approx(forced.score, abs=1e-5)
    assert best.token_scores == pytest.approx(forced.token_scores, abs=1e-5)


def test_nbest_lists_streams_samples_and_attention_have_the_term(model: Any, glossary: str) -> None:
    text = SENTENCES[0]
    options = {"glossary": glossary, "beam": 4}
    for translation in model.nbest([text], 4, **options)[0]:
        assert "chat" not in translation.text.split()
        assert "lapin" in translation.text.split()
    texts = [translation.text for translation in model.nbest([text], 4, **options)[0]]
    assert len(set(texts)) == len(texts)
    assert "".join(model.stream(text, **options)) == texts[0]
    assert "lapin" in model.translate(text, glossary=glossary, sample=True, seed=3).text.split()
    aligned = model.translate(text, attention=True, **options)
    assert aligned.attention.shape == (len(aligned.text.split()), len(text.split()))
    for alternative in model.alternatives(text, count=2, glossary=glossary):
        assert "lapin" in alternative.text
        assert "chat" not in alternative.text


def test_terms_of_each_text_and_several_terms(model: Any) -> None:
    texts = [SENTENCES[1], SENTENCES[1]]
    first, second = model.translate(texts, terms=[[("cat", "lapin"), ("house", "ville")], []])
    free = model.translate(texts[1]).text
    assert second.text == free
    assert first.text == free.replace("chat", "lapin").replace("maison", "ville")


def test_a_prefix_is_not_changed_by_a_term(model: Any, glossary: str) -> None:
    assert model.translate(SENTENCES[0], glossary=glossary, prefix="le chat").text.startswith("le chat")


def test_a_term_that_cannot_be_written_is_refused(model: Any) -> None:
    with pytest.raises(UserError, match="cannot write 'xylophone'"):
        model.translate(SENTENCES[0], terms=[[("cat", "xylophone")]])


def test_terms_that_make_a_translation_longer_than_the_model_reads_are_refused(model: Any) -> None:
    with pytest.raises(UserError, match="tokens long, and the model reads 1,000; shorten the terms"):
        model.translate("cat " * 60, glossary={"cat": "chat noir " * 20})
    assert model.translate("cat " * 3, glossary={"cat": "chat noir " * 20}).text.count("noir") >= 60


def test_a_model_without_attention_aligns_by_what_each_source_word_contributes(
    model: Any, glossary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(model.model), "attention", lambda *_: None)
    assert model.translate(SENTENCES[0], glossary=glossary).text == "le lapin noir dort"
    sources = model.read([SENTENCES[0]])
    (weights,) = word_weights(model, sources, [(0, model.target.encode("le chat noir dort"))])
    assert weights.shape == (4, 4)
    assert weights.argmax(1)[1:].tolist() == [2, 1, 3]  # the cat, black, sleeps


def test_spans_grow_over_words_of_the_term_alone() -> None:
    weights = np.array([[0.3, 0.1, 0.6], [0.0, 0.6, 0.4], [0.0, 0.2, 0.8], [0.1, 0.3, 0.6]])
    assert span_of(weights, [1, 2], set()) == (1, 4)  # the first word is the best translation of source word 0
    assert span_of(weights, [2], {0, 2}) == (3, 4)
    assert span_of(weights, [0], {0, 1, 2, 3}) is None
    assert span_of(weights, [7], set()) is None


def test_a_capital_is_kept_where_the_term_may_have_one() -> None:
    weights = np.eye(2)
    assert (
        with_terms("Chat noir.", np.pad(weights, ((0, 1), (0, 0))), [Match(0, 1, ["lapin", "Lapin"])]) == "Lapin noir."
    )
    assert with_terms("l'ami", np.array([[0.2], [0.0], [0.8]]), [Match(0, 1, ["chat"])]) == "l'chat"
    assert with_terms("? ?", np.zeros((2, 1)), [Match(0, 1, ["chat"])]) == "? ? chat"  # no word that it could replace
