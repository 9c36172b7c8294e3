import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.data.text.config import TokenizerConfig
from harken.data.tokenizers.base import (
    Tokenizer,
    load_tokenizer,
    load_tokenizers,
    save_tokenizers,
    train_tokenizer,
    train_tokenizers,
)
from harken.data.tokenizers.tokens import BOS, EOS, PAD, UNK
from harken.data.tokenizers.word import JOINED, WordTokenizer, split_word
from harken.errors import UserError

TEXT = [
    "L'homme n'a pas vu le chat noir, dit-elle.",
    "Où est la bibliothèque ? C'est aujourd'hui (lundi) !",
    "the black cat sleeps on the mat",
    "« Bien sûr », répondit-il ; mais 3,5 % c'est trop...",
] * 5
KINDS = ["bpe", "unigram", "word", "character"]


def trained(kind: str) -> Tokenizer:
    return train_tokenizer(kind, TEXT, size=120 if kind in ("bpe", "unigram") else 1000)


TRAINED = {kind: trained(kind) for kind in KINDS}
BYTES = train_tokenizer("bpe", TEXT, size=400, byte_fallback=True)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_on_known_text(kind: str) -> None:
    tokenizer = TRAINED[kind]
    for text in TEXT:
        ids = tokenizer.encode(text)
        assert UNK not in ids and min(ids) > EOS and max(ids) < tokenizer.size
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode([BOS, *ids, EOS, PAD]) == text
    assert tokenizer.encode_all(TEXT) == [tokenizer.encode(text) for text in TEXT]
    assert tokenizer.encode_all([]) == [] and tokenizer.encode("  ") == [] and tokenizer.decode([]) == ""
    assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.mark.parametrize("kind", KINDS)
def test_white_space_of_any_kind_is_one_space(kind: str) -> None:
    tokenizer = TRAINED[kind]
    assert tokenizer.encode(" the\t black\u00a0 cat\u2028") == tokenizer.encode("the black cat")


@pytest.mark.parametrize("kind", KINDS)
def test_training_and_saving_are_deterministic(kind: str, tmp_path: Path) -> None:
    paths = TRAINED[kind].save(tmp_path / "a", "source") + trained(kind).save(tmp_path / "b", "source")
    assert [path.name for path in paths] == [f"source.{'json' if kind in ('word', 'character') else 'model'}"] * 2
    assert paths[0].read_bytes() == paths[1].read_bytes()
    loaded = load_tokenizer(tmp_path / "a", "source")
    assert loaded.size == TRAINED[kind].size
    assert loaded.encode_all(TEXT) == TRAINED[kind].encode_all(TEXT)


def test_unknown_pieces_show() -> None:
    assert TRAINED["bpe"].decode(TRAINED["bpe"].encode("the 漢 cat")) == "the ⁇ cat"
    assert TRAINED["word"].decode(TRAINED["word"].encode("the white cat.")) == "the ⁇ cat."
    assert TRAINED["character"].decode(TRAINED["character"].encode("cWt")) == "c⁇t"
    assert BYTES.decode(BYTES.encode("the 漢 cat")) == "the 漢 cat"


def test_words_have_one_id_beside_any_punctuation() -> None:
    assert WordTokenizer.split("L'homme, homme (homme) l'«homme»?!") == [
        "L", "￭'￭", "homme", "￭,", "homme", "(￭", "homme", "￭)", "l", "￭'", "￭«￭", "homme", "￭»", "￭?", "￭!",
    ]  # fmt: skip
    assert split_word("हिन्दी") == ("हिन्दी",)


def test_word_vocabulary_is_sorted_by_frequency_and_cut() -> None:
    texts = ["b b b a a c c d"]
    assert train_tokenizer("word", texts, size=100).pieces(range(4, 8)) == ["b", "a", "c", "d"]
    assert train_tokenizer("word", texts, size=100, min_count=2).size == 7
    assert train_tokenizer("word", texts, size=5).size == 5


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(words)
def test_word_and_character_round_trip_on_any_text(text: str) -> None:
    for kind in ("word", "character"):
        tokenizer = train_tokenizer(kind, [text], size=1000)
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == " ".join(text.split())
        check_words(tokenizer, ids, text)


@given(st.text(alphabet=f"ab{JOINED}',. ", max_size=12))
def test_word_joins_are_never_ambiguous(text: str) -> None:
    tokenizer = train_tokenizer("word", [text], size=1000)
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())


@given(words)
def test_bytes_round_trip_on_any_text(text: str) -> None:
    assert BYTES.decode(BYTES.encode(text)) == " ".join(text.replace("▁", "_").split())


def check_words(tokenizer: Tokenizer, ids: list[int], text: str) -> None:
    """Every piece is in range, words come in order, and each word's pieces give that word."""
    found = tokenizer.word_of(ids, text)
    expected = text.split()
    assert len(found) == len(ids)
    assert found == sorted(found)
    assert set(found) == set(range(len(expected)))
    if UNK not in ids:
        for index, word in enumerate(expected):
            own = [item for item, owner in zip(ids, found, strict=True) if owner == index]
            assert tokenizer.decode(own).strip() == word.replace("▁", "_" if tokenizer is BYTES else "▁")


@given(words)
def test_word_of_any_text(text: str) -> None:
    for tokenizer in (*TRAINED.values(), BYTES):
        check_words(tokenizer, tokenizer.encode(text), text)


@settings(max_examples=50)
@given(st.data())
def test_word_of_any_ids_is_in_range(data: st.DataObject) -> None:
    for tokenizer in (*TRAINED.values(), BYTES):
        ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=8))
        for text in (tokenizer.decode(ids), "three words here", "one"):
            found = tokenizer.word_of(ids, text)
            assert len(found) == len(ids)
            assert all(0 <= index < max(1, len(text.split())) for index in found)


def test_word_of_puts_a_lone_space_with_the_next_word() -> None:
    tokenizer = TRAINED["bpe"]
    ids = tokenizer.encode("the  漢 cat")
    assert tokenizer.pieces(ids)[:3] == ["▁the", "▁", "<unk>"]
    assert tokenizer.word_of(ids, "the  漢 cat")[:4] == [0, 1, 1, 2]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_size_that_does_not_fit(kind: str) -> None:
    tokenizer = train_tokenizer(kind, ["a small text of few words", "of few words a text"], size=8000)
    assert 20 < tokenizer.size < 100
    assert tokenizer.decode(tokenizer.encode("a small text")) == "a small text"
    with pytest.raises(UserError, match=r"tokenizer.size 10 is too small, the characters of the text alone need \d+"):
        train_tokenizer(kind, TEXT, size=10)
    with pytest.raises(UserError, match="There is no text to learn subwords from"):
        train_tokenizer(kind, ["", " "], size=10)


def test_only_a_sample_of_many_lines_is_read() -> None:
    texts = [f"{chr(0x4E00 + i)}{chr(0x5E00 + i)}" for i in range(200)]
    first, again, other = (train_tokenizer("bpe", texts, 1900, seed, max_lines=20) for seed in (1, 1, 2))
    assert first.size == 4 + 1 + 20 * 5  # specials, ▁, and for every line two characters and three merges
    assert first.pieces(range(first.size)) == again.pieces(range(again.size))
    assert first.pieces(range(first.size)) != other.pieces(range(other.size))


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match=r'tokenizer\.kind is "wordpiece": use bpe, unigram, word or character\.'):
        train_tokenizer("wordpiece", TEXT, 100)


def test_joint_and_separate_tokenizers_come_back(tmp_path: Path) -> None:
    source, target = train_tokenizers(TokenizerConfig(size=120), TEXT[:2], TEXT[2:])
    assert source is target
    assert [path.name for path in save_tokenizers(tmp_path / "joint", source, target)] == ["tokenizer.model"]
    one, two = load_tokenizers(tmp_path / "joint")
    assert one is two and one.size == source.size
    source, target = train_tokenizers(TokenizerConfig(kind="word", joint=False), ["a b"], ["c"])
    assert (source.size, target.size) == (6, 5)
    assert [path.name for path in save_tokenizers(tmp_path / "two", source, target)] == ["source.json", "target.json"]
    assert [item.size for item in load_tokenizers(tmp_path / "two")] == [6, 5]


def test_another_kind_under_the_same_name_takes_its_place(tmp_path: Path) -> None:
    for kind in ("bpe", "word", "bpe"):
        TRAINED[kind].save(tmp_path, "x")
        assert type(load_tokenizer(tmp_path, "x")) is type(TRAINED[kind])


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds neither x.model nor x.json"):
        load_tokenizer(tmp_path, "x")
    for content in (b"junk", b""):
        (tmp_path / "x.model").write_bytes(content)
        with pytest.raises(UserError, match=r"x.model "):
            load_tokenizer(tmp_path, "x")
    (tmp_path / "x.model").unlink()
    for content in ("{", "[]", "{}", '{"kind": "word", "tokens": [1]}', '{"kind": "word", "tokens": ["a", "a"]}'):
        (tmp_path / "x.json").write_text(content)
        with pytest.raises(UserError, match=r"x.json is not a saved tokenizer"):
            load_tokenizer(tmp_path, "x")
    (tmp_path / "x.json").write_text(json.dumps({"kind": "syllable", "tokens": []}))
    with pytest.raises(UserError, match='of kind "syllable", which this version cannot read'):
        load_tokenizer(tmp_path, "x")


SCRIPTS = {
    "Chinese": ["黑猫在屋顶上睡觉。", "他昨天在北京见了朋友。", "今天天气很好，我们去公园吧！"],
    "Japanese": ["黒い猫は屋根の上で眠っている。", "彼はＣＤを２枚買った。", "ｶﾀｶﾅとひらがな、漢字。"],
    "Thai": ["แมวดำนอนหลับอยู่บนหลังคา", "เขาซื้อหนังสือสองเล่ม", "วันนี้อากาศดีมาก"],
    "Lao": ["ແມວດຳນອນຢູ່ເທິງຫລັງຄາ", "ລາວຊື້ປຶ້ມສອງຫົວ"],
    "Khmer": ["ឆ្មាខ្មៅកំពុងដេកលើដំបូល", "គាត់បានទិញសៀវភៅពីរក្បាល"],
    "Burmese": ["ကြောင်နက်သည် ခေါင်မိုးပေါ်တွင် အိပ်နေသည်", "သူ စာအုပ် နှစ်အုပ် ဝယ်ခဲ့သည်။"],
    "Korean": ["검은 고양이가 지붕 위에서 잔다.", "그는 책을 두 권 샀다."],
    "Arabic": ["القطة السوداء تنام على السطح.", "اشترى كتابَيْنِ أمسِ؟"],
    "Hebrew": ["החתול השחור ישן על הגג.", "שָׁלוֹם לְךָ, מה שלומך?"],
    "Devanagari": ["काली बिल्ली छत पर सो रही है।", "उसने दो किताबें खरीदीं।"],
    "emoji": ["👨‍👩‍👧‍👦 👍🏽 🇯🇵 ❤️ 1️⃣", "e\u0301 é ñ n\u0303"],
}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("script", list(SCRIPTS))
def test_round_trip_in_any_script_without_unknown(kind: str, script: str) -> None:
    """Also of text in another script than that of the training text, which is read as bytes."""
    tokenizer = train_tokenizer(kind, SCRIPTS[script] * 4, size=2000)
    for text in SCRIPTS[script]:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text and UNK not in ids
        check_words(tokenizer, ids, text)
    is_large = script in ("Chinese", "Japanese", "Thai", "Lao", "Khmer", "Burmese", "Korean")
    assert (len(tokenizer.fallback_ids) == 257) == is_large
    for text in (text for texts in SCRIPTS.values() for text in texts if is_large):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text and UNK not in ids


ANY_SCRIPT = train_tokenizer("bpe", [text for texts in SCRIPTS.values() for text in texts] * 2, size=2000)


@given(
    st.text(
        st.sampled_from("".join(sorted({c for texts in SCRIPTS.values() for text in texts for c in text}))), max_size=30
    )
)
def test_any_mix_of_scripts_round_trips(text: str) -> None:
    ids = ANY_SCRIPT.encode(text)
    assert ANY_SCRIPT.decode(ids) == " ".join(text.split()) and UNK not in ids
    check_words(ANY_SCRIPT, ids, text)


def test_settings_that_are_given_win_over_the_script() -> None:
    texts = SCRIPTS["Japanese"] * 4
    assert train_tokenizer("bpe", texts, size=2000, byte_fallback=False).fallback_ids == {UNK}
    assert train_tokenizer("bpe", texts, size=200).fallback_ids == {UNK}  # 256 bytes would be most of it
    assert train_tokenizer("bpe", TEXT, size=2000).fallback_ids == {UNK}
    stored = TokenizerConfig.model_validate({"character_coverage": 1.0, "byte_fallback": False})
    assert (stored.character_coverage, stored.byte_fallback) == (1.0, False)
    assert TokenizerConfig().byte_fallback == TokenizerConfig().character_coverage == "auto"


def test_words_of_text_without_spaces_are_refused() -> None:
    for script in ("Chinese", "Japanese", "Thai"):
        with pytest.raises(UserError, match=r'tokenizer.kind is "word".*without spaces.*bpe, unigram or character'):
            train_tokenizer("word", SCRIPTS[script] * 10, size=1000)
    divided = [" ".join(text) for text in SCRIPTS["Japanese"]] * 10
    assert train_tokenizer("word", divided, size=1000).size > 10
    assert train_tokenizer("word", [*TEXT * 3, "日本語の長い文章です"], size=1000).size > 10
