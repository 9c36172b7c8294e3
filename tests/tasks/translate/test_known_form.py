"""Capitals and end marks that a model has never seen, taken off and put back; words that stay unknown."""

import pytest

from harken.data.tokenizers.base import train_tokenizer
from harken.tasks.translate.known_form import KnownForm, known_form, known_forms

LOWER = train_tokenizer("word", ["the black cat sleeps", "does the cat sleep?"], size=50)
CASED = train_tokenizer("word", ["The black cat sleeps.", "Paris sleeps!", "the cat"], size=50)


@pytest.mark.parametrize(
    ("text", "read", "restored"),
    [
        ("The Black Cat Sleeps.", "the black cat sleeps", "Le chat noir dort."),
        ("THE CAT SLEEPS...", "the cat sleeps", "Le chat noir dort..."),
        ("The cat sleeps !", "the cat sleeps", "Le chat noir dort!"),
        ("the cat sleeps", "the cat sleeps", "le chat noir dort"),
        ("Does the cat sleep?", "does the cat sleep?", "Le chat noir dort"),
    ],
)
def test_a_lower_case_model_reads_capitals_and_end_marks(text: str, read: str, restored: str) -> None:
    form = known_form(text, LOWER)
    assert form.text == read and form.unknown == [] and form.ids == LOWER.encode(read)
    assert form.restore("le chat noir dort") == restored


def test_what_a_model_knows_stays_as_it_is() -> None:
    for text in ("The black cat sleeps.", "Paris sleeps!"):
        assert known_form(text, CASED) == KnownForm(text, CASED.encode(text))
        assert known_form(text, CASED).restore("il dort") == "il dort"
    assert known_form("The cat sleeps!", CASED).text == "The cat sleeps!"
    assert known_form("Cat sleeps", CASED).text == "cat sleeps"


def test_unknown_words_are_counted_by_their_place() -> None:
    assert known_form("The Zebra sleeps.", LOWER).unknown == [1]
    assert known_form("zebra, lion", LOWER).unknown == [0, 1]
    assert known_form(".", LOWER) == KnownForm("", [], [], False, ".")
    assert known_form(".", LOWER).restore("") == ""


def test_many_are_read_as_one_by_one() -> None:
    texts = ["The cat.", "the cat", "", "Zebra"]
    assert known_forms(texts, LOWER) == [known_form(text, LOWER) for text in texts]


def test_subwords_of_lower_case_text_read_capitals() -> None:
    subwords = train_tokenizer("bpe", ["low lower lowest"] * 3, size=25)
    form = known_form("Lowest Low", subwords)
    assert form.text == "lowest low" and form.unknown == [] and form.capital


def test_a_capital_inside_is_no_capital_at_the_start() -> None:
    tokenizer = train_tokenizer("character", ["彼はcdを買った"], size=100)
    form = known_form("彼はCDを買った", tokenizer)
    assert form.text == "彼はcdを買った" and form.restore("he bought a cd") == "he bought a cd"


def test_characters_that_are_read_as_bytes_count_as_unknown() -> None:
    tokenizer = train_tokenizer("bpe", ["the cat sleeps", "a cat"] * 3, size=290, byte_fallback=True)
    form = known_form("The 龍 Cat.", tokenizer)
    assert (form.text, form.unknown, form.restore("le chat")) == ("the 龍 cat", [1], "Le chat.")
