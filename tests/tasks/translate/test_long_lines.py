"""Texts cut into parts and their translations joined: nothing is lost, and no part is too long."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.tasks.translate.files.long_lines import copied, join_translations, split_text
from harken.tasks.translate.translation import Translation


def words(text: str) -> int:
    return len(text.split())


@given(st.text("ab .,!。、\n", max_size=80), st.integers(1, 9), st.integers(1, 9))
def test_the_parts_are_the_text_and_none_is_too_long(text: str, limit: int, target: int) -> None:
    for count in (words, len):
        parts = split_text(text, limit, target, count)
        assert "".join(parts) == text
        assert all(count(part) <= limit for part in parts)


def test_sentences_before_clauses_before_words_before_characters() -> None:
    text = 'He said "no." She left, and he stayed. abcdefgh'
    assert split_text(text, 5, 5, words) == ['He said "no." ', "She left, and he stayed. ", "abcdefgh"]
    assert split_text(text, 3, 3, words) == ['He said "no." ', "She left, ", "and he stayed. ", "abcdefgh"]
    assert split_text("abcdefgh", 3, 3, len) == ["ab", "cd", "ef", "gh"]


def test_short_sentences_are_put_together_up_to_the_target() -> None:
    text = "a. b. c. d. e. "
    assert split_text(text, 100, 2, words) == ["a. b. ", "c. d. ", "e. "]
    assert split_text("a b c d. e.", 4, 2, words) == ["a b c d. ", "e."]  # within the limit: not cut


def translation(
    source: str, text: str, score: float, weights: list[list[float]] | None = None, unknown: tuple[int, ...] = ()
) -> Translation:
    return Translation(source, text, score, None if weights is None else np.array(weights), unknown=list(unknown))


def test_joined_translations_have_the_score_words_and_attention_of_the_whole() -> None:
    parts = ["the cat. ", "it sleeps"]
    links = [[1.0, 0.0], [0.0, 1.0]]
    first = [
        translation("the cat.", "le chat.", -0.5, links, (1,)),
        translation("the cat.", "un chat.", -1.0, links),
    ]
    second = [translation("it sleeps", "il dort", -0.2, [[0.5, 0.5], [0, 1]], (0,))]
    best, other = join_translations("the cat. it sleeps", parts, [first, second], [[4, 4], [3]])
    assert (best.text, other.text) == ("le chat. il dort", "un chat. il dort")
    assert best.source_words == ["the", "cat.", "it", "sleeps"]
    assert best.score == pytest.approx((4 * -0.5 + 3 * -0.2) / 7)
    assert best.unknown == [1, 2] and other.unknown == [2]
    assert best.is_aligned and best.attention is None  # links alone: weights would take the product of the lengths
    assert best.alignment() == [(0, 0), (1, 1), (2, 2), (3, 3)]
    first[0].attention = None
    assert not join_translations("", parts, [first[:1], second], [[4], [3]])[0].is_aligned


def test_parts_are_joined_as_the_script_of_the_translation_has_it() -> None:
    found = join_translations(
        "猫。犬。", ["猫。", "犬。"], [[translation("猫。", "cat.", -1)], [translation("犬。", "dog.", -1)]], [[1], [1]]
    )
    assert (found[0].text, found[0].is_aligned) == ("cat. dog.", False)
    parts = [[translation("a cat. ", "猫。", -1)], [translation("a dog.", "犬。", -1)]]
    assert join_translations("a cat. a dog.", ["a cat. ", "a dog."], parts, [[1], [1]])[0].text == "猫。犬。"


def test_a_word_that_was_cut_stays_one_word() -> None:
    links = [[1.0, 0.0], [0.0, 1.0]]
    parts = [
        [translation("one two", "un deux", -1, links)],
        [translation("three four", "trois quatre", -1, links, (0,))],
    ]
    (found,) = join_translations("one twothree four", ["one two", "three four"], parts, [[3], [3]])
    assert (found.text, found.unknown_words) == ("un deuxtrois quatre", ["twothree"])
    assert found.alignment() == [(0, 0), (1, 1), (1, 1), (2, 2)]


def test_a_copied_line_is_linked_to_itself() -> None:
    assert (copied("a b").text, copied("a b").alignment()) == ("a b", [(0, 0), (1, 1)])
