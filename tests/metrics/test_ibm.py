"""The classic aligner finds what words go together, and knows the empty word and the diagonal."""

import random

from harken.metrics.ibm import align


def test_words_are_found_through_the_sentences_they_share() -> None:
    words = {f"e{number}": f"f{number}" for number in range(12)}
    draw = random.Random(1)
    pairs = []
    for _ in range(300):
        chosen = draw.sample(sorted(words), 5)
        order = draw.sample(range(5), 5)
        pairs.append((" ".join(chosen), " ".join(words[chosen[at]] for at in order), order))
    training = [pair[:2] for pair in pairs]
    found = align(training[:-20], training[-20:], iterations=12, tension=0.0)
    wanted = [[(source, target) for target, source in enumerate(order)] for *_, order in pairs[-20:]]
    assert found == wanted


def test_the_diagonal_decides_where_words_cannot() -> None:
    assert align([], [("a a a", "x x x")]) == [[(0, 0), (1, 1), (2, 2)]]


def test_empty_sentences_have_no_links() -> None:
    assert align([("a", "x")], [("", "x"), ("a", ""), ("", "")]) == [[], [], []]
