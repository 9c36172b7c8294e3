"""Byte-level BPE and WordPiece against `tokenizers`, the library behind transformers, on lines of many scripts."""

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.data.tokenizers.base import load_tokenizer
from harken.data.tokenizers.byte_level import ByteLevelTokenizer
from harken.data.tokenizers.tokens import SPECIALS, UNK
from harken.data.tokenizers.wordpiece import WordPieceTokenizer
from harken.errors import UserError

tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")

SENTENCES = [
    "The cats' owner doesn't say she'll pay $1,234.56 (in 2024)!",
    "L'élève n'a pas mangé; où est-il allé ? Ça dépend…",
    "Die Straße über den Fluß: ÄÖÜ äöü — „Grüße“",
    "Привет, как дела? Съешь ещё этих мягких французских булок.",
    "Οι γάτες κοιμούνται ΣΟΦΟΣ και ο ήλιος λάμπει·",
    "黒い猫が眠っています。東京タワーへ行く",
    "我喜欢吃苹果和香蕉，北京大学。",
    "القطة السوداء تنام على السرير ١٢٣٤",
    "החתול השחור ישן על המיטה",
    "काली बिल्ली सो रही है १२३",
    "แมวดำกำลังนอนหลับ",
    "검은 고양이가 자고 있다",
    "Türkçe İstanbul ığüşöç ﬁne ﬀ ½ ² Ⅻ",
    "emoji 😀👍🏽 👨‍👩‍👧 and  double  spaces\tand tabs\u00a0x\u3000y ",
    "a\u0301 e\u0308 n\u0303 \u200bzero\u200dwidth \ufeff \x00 \x1f \x85 \ufffd",
    "  leading, trailing  \n\n new\nlines \r\n 'S 'Re it's",
]


def lines() -> list[str]:
    """500 lines: the sentences, their words shuffled, and characters drawn from the Unicode blocks of these scripts."""
    generator = random.Random(1)
    words = [word for sentence in SENTENCES for word in sentence.split(" ")]
    old = unicodedata.ucd_3_2_0.category  # the tables of tokenizers are of an earlier Unicode than Python's
    assigned = [chr(code) for code in range(0x20, 0x2FFFF) if old(chr(code)) not in ("Cn", "Cs", "Co")]
    assigned = [character for character in assigned if old(character) == unicodedata.category(character)]
    result = list(SENTENCES)
    while len(result) < 500:
        row = generator.sample(words, 8) + ["".join(generator.choices(assigned, k=5)) for _ in range(3)]
        generator.shuffle(row)
        result.append(generator.choice([" ", "  ", "\n"]).join(row))
    return result


@pytest.fixture(scope="module")
def byte_level() -> tuple[Any, ByteLevelTokenizer]:
    theirs = tokenizers.ByteLevelBPETokenizer()
    theirs.train_from_iterator(SENTENCES * 3, vocab_size=600, min_frequency=2, show_progress=False)
    return theirs, own_byte_level(theirs)


def own_byte_level(theirs: Any) -> ByteLevelTokenizer:
    model = json.loads(theirs.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return ByteLevelTokenizer(tokens, [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]])


def word_piece(lowercase: bool) -> tuple[Any, WordPieceTokenizer]:
    theirs = tokenizers.BertWordPieceTokenizer(lowercase=lowercase)
    theirs.train_from_iterator(SENTENCES * 3, vocab_size=500, min_frequency=1, special_tokens=["[UNK]"])
    vocabulary = theirs.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    return theirs, WordPieceTokenizer(tokens[1:], lowercase=lowercase, strip_accents=lowercase)


def test_byte_level_ids_are_those_of_tokenizers(byte_level: tuple[Any, ByteLevelTokenizer]) -> None:
    theirs, own = byte_level
    for line in lines():
        assert [index - len(SPECIALS) for index in own.encode(line)] == theirs.encode(line).ids, repr(line)
        assert own.decode(own.encode(line)) == line


@pytest.mark.parametrize("lowercase", [False, True], ids=["cased", "uncased"])
def test_word_pieces_are_those_of_tokenizers(lowercase: bool) -> None:
    theirs, own = word_piece(lowercase)
    unknown = theirs.token_to_id("[UNK]")
    for line in [*lines(), "x" * 120, ""]:
        ids = [unknown if index == UNK else index - len(SPECIALS) + 1 for index in own.encode(line)]
        expected = theirs.encode(line, add_special_tokens=False)
        assert ids == expected.ids, (line, own.pieces(own.encode(line)), expected.tokens)


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=20))
def test_byte_level_loses_nothing_and_words_own_their_pieces(
    text: str, byte_level: tuple[Any, ByteLevelTokenizer]
) -> None:
    own = byte_level[1]
    ids = own.encode(text)
    assert own.decode(ids) == text.encode("utf-8", "replace").decode()
    owners = own.word_of(ids, text)
    assert owners == sorted(owners) and set(owners) == set(range(len(text.split()))) | ({0} if ids else set())


def test_words_and_pieces_are_shown(byte_level: tuple[Any, ByteLevelTokenizer]) -> None:
    own = ByteLevelTokenizer(["a", "b", "Ġ", "Ċ", "Ġa", "Ã"], merges=[("Ġ", "a")])
    ids = own.encode("a\n aé")
    assert own.pieces(ids) == ["a", "<0x0A>", "▁a", "<0xC3>", "<unk>"]
    assert own.word_of(ids, "a\n aé") == [0, 1, 1, 1, 1]
    prefixed = ByteLevelTokenizer(["a", "b", "Ġ", "Ġa"], merges=[("Ġ", "a")], prefix_space=True)
    assert prefixed.pieces(prefixed.encode("a b")) == ["▁a", "▁", "b"]
    assert (prefixed.decode(prefixed.encode("a b")), prefixed.word_of(prefixed.encode("a b"), "a b")) == (
        "a b",
        [0, 1, 1],
    )
    words = WordPieceTokenizer(["cat", "##s", "!"])
    assert words.word_of(words.encode("cats! cat"), "cats! cat") == [0, 0, 0, 1]
    assert words.decode(words.encode("cats! dog")) == "cats ! ⁇"


def test_saved_and_loaded(byte_level: tuple[Any, ByteLevelTokenizer], tmp_path: Path) -> None:
    for name, own in (("bytes", byte_level[1]), ("words", word_piece(True)[1])):
        assert [path.name for path in own.save(tmp_path, name)] == [f"{name}.json"]
        again = load_tokenizer(tmp_path, name)
        assert type(again) is type(own) and again.encode(SENTENCES[1]) == own.encode(SENTENCES[1])
    (tmp_path / "bytes.json").write_text('{"kind": "byte-level bpe", "tokens": ["a"], "merges": 3}')
    with pytest.raises(UserError, match="not a saved tokenizer"):
        load_tokenizer(tmp_path, "bytes")
