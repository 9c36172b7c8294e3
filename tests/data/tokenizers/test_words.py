"""Pieces merged to words in any script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.text.scripts import chunk_numbers
from harken.data.tokenizers.base import Tokenizer, train_tokenizer
from harken.data.tokenizers.words import words_of

TEXT = [
    "黒い猫は屋根の上で眠っている。",
    "私はCDを2枚買った。",
    "แมวกำลังนอนหลับ",
    "the black cat sleeps",
    "猫 と 犬",
] * 3
TOKENIZERS = {
    "bpe": train_tokenizer("bpe", TEXT, 330, byte_fallback=True),
    "unigram": train_tokenizer("unigram", TEXT, 100),
    "character": train_tokenizer("character", TEXT, 100),
    "word": train_tokenizer("word", ["the black cat", "猫 と 犬"], 100),
}


def check(tokenizer: Tokenizer, text: str) -> list[str]:
    """Words put together are the text without its spaces, and words lie within what spaces divide."""
    ids = tokenizer.encode(text)
    words, owners = words_of(tokenizer, ids, text)
    assert "".join(words) == "".join(text.split()) and all(words)
    assert len(owners) == len(ids) and owners == sorted(owners)
    assert all(0 <= owner < len(words) for owner in owners)
    chunks = text.split()
    for word, number in zip(words, chunk_numbers(words, text), strict=True):
        assert word in chunks[number]
    return words


def test_pieces_of_unspaced_scripts_are_words() -> None:
    pieces = [piece.strip("▁") for piece in TOKENIZERS["unigram"].pieces(TOKENIZERS["unigram"].encode(TEXT[0]))]
    assert check(TOKENIZERS["unigram"], TEXT[0]) == [piece for piece in pieces if piece]
    assert check(TOKENIZERS["character"], "the 猫はCDだ。") == ["the", "猫", "は", "CD", "だ", "。"]
    assert check(TOKENIZERS["character"], "แมวกำลัง") == ["แ", "ม", "ว", "ก", "ำ", "ลั", "ง"]  # marks stay with letters


@pytest.mark.parametrize("kind", list(TOKENIZERS))
def test_spaces_divide_words_of_other_scripts(kind: str) -> None:
    assert check(TOKENIZERS[kind], "the black  cat") == ["the", "black", "cat"]
    assert check(TOKENIZERS[kind], "猫 と 犬") == ["猫", "と", "犬"]


def test_characters_as_bytes_stay_whole() -> None:
    assert check(TOKENIZERS["bpe"], "龍 👨‍👩‍👧猫は") == ["龍", "👨‍👩‍👧", "猫", "は"]


def test_words_as_shown_have_their_capital_and_end_mark() -> None:
    tokenizer = TOKENIZERS["character"]
    ids = tokenizer.encode("the 猫は")
    assert words_of(tokenizer, ids, "the 猫は", "The 猫は.")[0] == ["The", "猫", "は."]
    assert words_of(tokenizer, ids, "the 猫は", "The 猫は .")[0] == ["The", "猫", "は", "."]


@given(
    st.text(
        st.one_of(st.sampled_from("猫は黒い、。 กำลัง CD2 cat"), st.characters(exclude_categories=["Cs"])), max_size=12
    )
)
def test_words_of_any_text(text: str) -> None:
    text = text.replace("▁", "_")
    for tokenizer in TOKENIZERS.values():
        check(tokenizer, text)
