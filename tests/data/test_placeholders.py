"""Markup that a translation copies: spans, symbols, and a model that is trained and used with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import harken
from harken.data.text.placeholders import SYMBOLS, Placeholders, copied_kinds, fill, misplaced
from harken.errors import UserError

A, B, C = SYMBOLS[:3]
ALL = Placeholders(frozenset({":func:", "``", "%", "{}", "<>", "url"}))


@pytest.mark.parametrize(
    ("text", "masked", "spans"),
    [
        ("call :func:`open`.", f"call {A}.", [":func:`open`"]),
        ("``a b`` or ``c`` or ``a b``", f"{A} or {B} or {A}", ["``a b``", "``c``"]),
        ("%s of {n} at <b>x</b>", f"{A} of {B} at {C}x{SYMBOLS[3]}", ["%s", "{n}", "<b>", "</b>"]),
        ("see https://a.org/x.", f"see {A}.", ["https://a.org/x"]),
        (":term:`word` and *x* stay", ":term:`word` and *x* stay", []),
        (":func:`text <open>` is another kind", ":func:`text <open>` is another kind", []),
        (f"a {A} of the text, ``b``", f"a {A} of the text, ``b``", []),
    ],
)
def test_spans_of_the_chosen_kinds_become_symbols(text: str, masked: str, spans: list[str]) -> None:
    assert ALL.mask(text) == (masked, tuple(spans))


def test_more_spans_than_symbols_stay_as_they_are() -> None:
    text = " ".join(f"``{number}``" for number in range(20))
    masked, spans = Placeholders(frozenset({"``"}), count=2).mask(text)
    assert masked == " ".join([A, B, *(f"``{number}``" for number in range(2, 20))])
    assert spans == ("``0``", "``1``")


def test_a_training_pair_has_symbols_for_what_both_sides_have() -> None:
    pair = "use ``a`` and ``b``", "prends ``b`` et ``c``"
    assert ALL.mask_pair(*pair) == (f"use ``a`` and {A}", f"prends {A} et ``c``")
    assert ALL.mask_pair(*pair, as_read=True) == (f"use {A} and {B}", f"prends {B} et ``c``")


@pytest.mark.parametrize(
    ("output", "filled", "count"),
    [
        (f"{B} puis {A}", "``b`` puis ``a``", 0),
        (f"{A} puis {A}", "``a`` puis ``b``", 2),  # twice instead of the other
        (f"{C}, {A}", "``a``, ``b``", 2),
        (f"{A} {B} {C} fin", "``a`` ``b`` fin", 1),  # too many
        ("rien", "rien", 2),
    ],
)
def test_symbols_that_a_model_mixes_up_are_repaired(output: str, filled: str, count: int) -> None:
    masked, spans = ALL.mask("``a`` then ``b``")
    assert fill(output, masked, spans) == filled
    assert misplaced(output, masked) == count


def test_the_kinds_that_are_copied_are_chosen() -> None:
    pairs = [(f"call :func:`f{n}` of the :term:`list`", f"appelle :func:`f{n}` de la :term:`liste`") for n in range(10)]
    assert copied_kinds(pairs) == (":func:",)
    assert copied_kinds([*pairs, *[("a", "b")] * 2000]) == ()  # fewer than 1% of the pairs


def test_a_model_copies_names_that_it_never_read(tmp_path: Path) -> None:
    names = [f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst"]
    rows = [f"call :func:`{name}` now\tappelle :func:`{name}` maintenant" for name in names]
    rows += [f"never read :func:`{name}`\tne lis jamais :func:`{name}`" for name in names]
    (tmp_path / "pairs.tsv").write_text("".join(f"{row}\n" for row in rows))
    recipe: dict[str, Any] = {
        "task": "translate",
        "data": {"source": str(tmp_path / "pairs.tsv"), "format": "tsv", "header": False},
        "tokenizer": {"size": 120},
        "model": {"architecture": "transformer", "width": 32, "layers": 1, "heads": 2, "feedforward": 64, "dropout": 0},
        "train": {"max_steps": 120, "learning_rate": 0.01, "warmup_steps": 10, "device": "cpu", "workers": 1},
    }
    model = harken.train(recipe, tmp_path / "run", progress=False)
    assert model.recipe.data.markup == (":func:",)  # chosen, and kept in the folder
    assert "copied: :func:" in (tmp_path / "run" / "card.md").read_text()
    longer = recipe | {"train": {**recipe["train"], "max_steps": 121}}
    assert harken.train(longer, tmp_path / "run", progress=False, resume=True).recipe.data.markup == (":func:",)
    text = "call :func:`Zürich.42` now"
    for loaded in (model, harken.load(tmp_path / "run")):
        best = loaded.translate(text)
        assert best.text == "appelle :func:`Zürich.42` maintenant"
        assert "".join(loaded.stream(text)) == best.text
        assert best.source_words == ["call", ":func:`Zürich.42`", "now"]
        assert best.target_words[1] == ":func:`Zürich.42`"
        assert loaded.align(text, best.text).target_words[1] == ":func:`Zürich.42`"
        assert len(loaded.score([text], [best.text])[0].pieces) < 12  # the name is one piece


def test_markup_of_words_is_refused(tmp_path: Path) -> None:
    recipe = {"task": "translate", "data": {"corpus": "phrasebook", "markup": ["``"]}, "tokenizer": {"kind": "word"}}
    with pytest.raises(UserError, match=r'tokenizer.kind = "bpe", or data.markup = \[\]'):
        harken.train(recipe, tmp_path / "run", progress=False)
