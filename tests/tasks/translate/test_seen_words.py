"""Words that a subword model never met are named, though every piece of them has an id."""

from collections.abc import Callable
from pathlib import Path

import pytest

import harken
from harken.errors import UserError
from harken.tasks.translate.seen_words import FILE, SeenWords


def test_a_list_survives_its_folder(tmp_path: Path) -> None:
    words = SeenWords.learn(["L'été est là.", "Rendez-vous à 7 heures !"])
    words.save(tmp_path)
    assert SeenWords.load(tmp_path) == words
    assert words.unseen("l'ÉTÉ, 99 fois : rendez vous là-bas") == [2, 6]
    assert SeenWords.load(tmp_path / "elsewhere").unseen("anything") == []
    assert SeenWords.learn(["the cat 黒い猫"]).unseen("白い犬 the dog") == [2]
    (tmp_path / FILE).write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UserError, match="damaged"):
        SeenWords.load(tmp_path)


def test_a_subword_model_names_them(tiny_model: Callable[[str], Path]) -> None:
    model = harken.load(tiny_model("tatoeba-transformer"))
    text = "The xylophone is here, Tom."
    for attention in (True, False):
        assert model.translate(text, attention=attention).unknown_words == ["xylophone"]
    assert model.translate("Tom is here.").unknown_words == []
    assert "[xylophone]" in model.translate(text, attention=True).map().to_terminal()
