from __future__ import annotations

import math

import pytest
from sacrebleu.metrics.bleu import BLEU

from harken.errors import UserError
from harken.metrics import corpus_bleu, corpus_chrf, exact_match
from harken.metrics.bleu import bleu_tokenisation, corpus_score, multi_reference_score, sentence_bleu


def test_bleu_by_hand() -> None:
    # 6 words; 5 of 6 unigrams, 3 of 5 bigrams, 2 of 4 trigrams, 1 of 3 four-grams are in the reference; equal lengths
    score = corpus_bleu(["the black cat sleeps in peace"], ["the black cat sleeps at peace"])
    assert score.value == pytest.approx(100 * math.exp(sum(map(math.log, [5 / 6, 3 / 5, 2 / 4, 1 / 3])) / 4))
    assert score.name == "BLEU"
    assert "tok:13a" in score.signature and "case:mixed" in score.signature and "version:" in score.signature


def test_bleu_counts_over_the_whole_corpus_and_punishes_brevity() -> None:
    # all n-grams found: 4 + 4 words of output, 4 + 8 of reference, so only exp(1 - 12/8) is left
    score = corpus_bleu(["a b c d", "e f g h"], ["a b c d", "e f g h i j k l"])
    assert score.value == pytest.approx(100 * math.exp(1 - 12 / 8))


def test_chrf_by_hand() -> None:
    # characters "ab" against "ac": unigrams 1 of 2 both ways, bigrams 0 of 1; over the two orders P = R = 1/4
    score = corpus_chrf(["ab"], ["ac"])
    assert score.value == pytest.approx(25.0, abs=1e-6)
    assert score.name == "chrF2" and "nc:6" in score.signature


def test_perfect_scores_read_as_a_line() -> None:
    line = str(corpus_bleu(["one two three four"], ["one two three four"]))
    assert line.startswith("BLEU 100.00 (nrefs:1|case:mixed")
    assert corpus_chrf(["déjà vu"], ["déjà vu"]).value == pytest.approx(100.0)


@pytest.mark.parametrize("score", [corpus_bleu, corpus_chrf])
def test_lines_must_match(score: object) -> None:
    with pytest.raises(UserError, match="2 outputs and 1 references"):
        score(["a", "b"], ["a"])  # type: ignore[operator]
    with pytest.raises(UserError, match="no lines"):
        score([], [])  # type: ignore[operator]


def test_unknown_metric() -> None:
    with pytest.raises(UserError, match='no metric "meteor"'):
        corpus_score("meteor", ["a"], ["a"])


def test_exact_match_compares_whole_outputs_and_ignores_spacing() -> None:
    found = exact_match(["a b", "a  b ", "a c", "ab"], ["a b"] * 4)
    assert found.value == 50.0
    assert 0.0 <= found.low < 50.0 < found.high <= 100.0
    assert exact_match(["a"] * 9, ["a"] * 9).low == 100.0


def test_exact_match_needs_one_reference_a_line() -> None:
    with pytest.raises(UserError, match="2 outputs and 1 references"):
        exact_match(["a", "b"], ["a"])


JAPANESE = ["黒い猫は屋根の上で眠っている。", "彼は昨日、東京で友達に会いました。"]


def test_bleu_of_unspaced_scripts_counts_characters() -> None:
    """As one word a line, only whole sentences would match: a near miss scored 0."""
    outputs = ["黒い猫は屋根の上で寝ている。", "彼は昨日、京都で友達に会いました。"]
    whole_lines = BLEU(tokenize="13a").corpus_score(outputs, [JAPANESE]).score
    score = corpus_bleu(outputs, JAPANESE)
    assert whole_lines < 1 and score.value > 60
    assert score.value == pytest.approx(BLEU(tokenize="char").corpus_score(outputs, [JAPANESE]).score)
    assert "|tok:char|" in score.signature
    assert sentence_bleu(outputs[0], JAPANESE[:1]) > 50
    assert multi_reference_score("bleu", outputs, [[line, "猫。"] for line in JAPANESE]).value > 60


@pytest.mark.parametrize(
    ("text", "tokenisation"),
    [
        ("the cat sleeps", "13a"),
        ("кошка спит", "13a"),
        ("القطة تنام", "13a"),
        ("बिल्ली सो रही है", "13a"),
        ("12 + 3", "13a"),
        ("黑猫在睡觉。", "zh"),
        ("黒い猫が眠る", "char"),
        ("ネコ", "char"),
        ("고양이가 잔다", "char"),
        ("แมวกำลังนอนหลับ", "char"),
        ("ແມວນອນ", "char"),
        ("ឆ្មាកំពុងដេក", "char"),
        ("ကြောင်အိပ်နေသည်", "char"),
        ("彼はCDとDVDを買った", "char"),
    ],
)
def test_tokenisation_follows_the_script_of_the_references(
    text: str, tokenisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harken.metrics.bleu.find_spec", lambda name: None)
    assert bleu_tokenisation([text]) == tokenisation


def test_dictionaries_of_words_are_used_where_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.metrics.bleu.find_spec", lambda name: object())
    assert [bleu_tokenisation([text]) for text in ("黒い猫が眠る", "고양이가 잔다")] == ["ja-mecab", "ko-mecab"]
    monkeypatch.setattr("harken.metrics.bleu.find_spec", lambda name: None if name == "ipadic" else object())
    assert bleu_tokenisation(["黒い猫が眠る"]) == "char"
