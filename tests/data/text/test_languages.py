"""The language of texts, by script and by py3langid."""

import sys

import pytest

from harken.data.text.languages import code_in_name, detect

ENGLISH = ["the black cat sleeps in the house", "we do not know when the train will leave", "she reads a long book"]
FRENCH = ["le chat noir dort dans la maison", "nous ne savons pas quand le train partira", "elle lit un long livre"]


def test_languages_of_one_script_need_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.data.text.languages.load_identifier", lambda: pytest.fail("the model was loaded"))
    texts = {
        "ja": "猫は本を読む",
        "zh": "黑猫睡觉",
        "ko": "검은 고양이",
        "th": "แมวดำนอน",
        "he": "החתול השחור",
        "el": "η γάτα",
    }
    assert {code: detect([text] * 3) for code, text in texts.items()} == {code: code for code in texts}
    assert detect(["1 2 3", ""]) is None and detect([]) is None


def test_languages_of_a_shared_script_are_detected_by_their_words() -> None:
    pytest.importorskip("py3langid")
    assert detect(ENGLISH) == "en" and detect(FRENCH * 100) == "fr"
    assert detect([*FRENCH * 5, *ENGLISH]) == "fr"
    assert detect(["vm"]) is None and detect(["x_1 = 0x7f; y_2 = 0x80;"] * 20) is None


def test_without_the_model_a_shared_script_has_no_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    from harken.data.text.languages import load_identifier

    load_identifier.cache_clear()
    try:
        assert detect(ENGLISH) is None
    finally:
        load_identifier.cache_clear()


def test_names_of_columns_and_files_stand_for_languages() -> None:
    names = ["EN", "zh-CN", "sentence_deu", "fr.text", "Portuguese", "id", "label", "source", "no_of_words"]
    assert [code_in_name(name) for name in names] == ["en", "zh", "de", "fr", "pt", None, None, None, None]
