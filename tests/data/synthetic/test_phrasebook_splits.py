"""The splits: sizes, no shared sentence, longer and novel tests, the same on every platform."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from itertools import islice

import pytest

from harken.data.synthetic.phrasebook import generate, load_phrasebook
from harken.data.synthetic.phrasebook.lexicon import HELD_OUT, Verb
from harken.data.synthetic.phrasebook.splits import LONG, LONGEST
from harken.errors import UserError

CHECKSUM = "282be815a647a322d415a93355f8985af3b9a4bcc3bb378d9be61dafe7b4ae5a"


@pytest.fixture(scope="module")
def corpus():
    return load_phrasebook(seed=1, train=20000, valid=500, test=500)


def lengths(pairs):
    return [len(pair.source.split()) for pair in pairs], [len(pair.target.split()) for pair in pairs]


def test_sizes_and_languages(corpus):
    assert (len(corpus.train), len(corpus.valid)) == (20000, 500)
    assert {name: len(pairs) for name, pairs in corpus.tests.items()} == {
        "test": 500,
        "test-long": 500,
        "test-novel": 500,
    }
    assert (corpus.name, corpus.source_language, corpus.target_language) == ("phrasebook", "en", "fr")
    assert corpus.skipped == {}


def test_splits_share_no_sentence_on_either_side(corpus):
    everything = [*corpus.train, *corpus.valid, *(pair for pairs in corpus.tests.values() for pair in pairs)]
    assert len({pair.source for pair in everything}) == len(everything)
    assert len({pair.target for pair in everything}) == len(everything)


def test_long_pairs_are_longer_than_all_of_train(corpus):
    source, target = lengths(corpus.train)
    long_source, long_target = lengths(corpus.tests["test-long"])
    assert max(*source, *target) <= LONGEST
    assert min(long_source) > max(source)
    assert min(long_target) > max(target)
    assert max(*long_source, *long_target) <= LONG[1]


def test_lengths_are_mixed(corpus):
    source, _ = lengths(corpus.train)
    assert 8.5 <= sum(source) / len(source) <= 10.5
    assert min(source) == 3
    assert max(source) >= 22
    assert sum(length <= 5 for length in source) > 0.1 * len(source)
    assert sum(length >= 15 for length in source) > 0.08 * len(source)


def english_forms(word):
    if isinstance(word, Verb):
        return {word.english, word.english_third, word.english_past}
    return {word.english, word.comparative} - {""}


def combinations_in(pairs):
    """Which held-out combinations stand in a sentence, by their English forms."""
    table = [
        (english_forms(modifier), tuple(modifier.particles) if isinstance(modifier, Verb) else (), modifier, noun)
        for modifier, nouns in HELD_OUT.items()
        for noun in sorted(nouns, key=lambda noun: noun.english)
    ]
    by_noun = {}
    for forms, particles, modifier, noun in table:
        for text in (noun.english, noun.english_plural):
            by_noun.setdefault(text, []).append((forms, particles, modifier))
    found = []
    for pair in pairs:
        words = pair.source.replace(",", "").replace("?", "").replace("'s", "").split()
        here = set(words)
        found.append(
            any(forms & here and here.issuperset(p) for word in words for forms, p, _ in by_noun.get(word, ()))
        )
    return found


def test_novel_pairs_hold_a_combination_that_train_never_does(corpus):
    assert sum(map(len, HELD_OUT.values())) > 200
    assert all(combinations_in(corpus.tests["test-novel"]))
    # In train the two words may only meet as other words: `clean` the adjective, `look` of another verb, `plant`.
    assert sum(combinations_in(corpus.train)) < 0.01 * len(corpus.train)


def test_train_never_draws_two_words_of_a_held_out_combination():
    from random import Random

    from harken.data.synthetic.phrasebook.grammar import Grammar

    grammar = Grammar(Random("together"))
    for _ in range(3000):
        drawn = grammar.sentence()
        meets = any(noun in HELD_OUT.get(modifier, ()) for modifier in grammar.modifiers for noun in grammar.nouns)
        assert drawn.together == (meets or drawn.novel)
        assert drawn.together or not drawn.novel


def test_words_of_novel_pairs_occur_in_train(corpus):
    source = {word for pair in corpus.train for word in pair.source.replace("?", "").replace(",", "").split()}
    target = {word for pair in corpus.train for word in pair.target.replace(",", "").split()}
    unseen_source = unseen_target = total_source = total_target = 0
    for pair in corpus.tests["test-novel"]:
        words = pair.source.replace("?", "").replace(",", "").split()
        unseen_source += sum(word not in source for word in words)
        total_source += len(words)
        words = pair.target.replace(",", "").split()
        unseen_target += sum(word not in target for word in words)
        total_target += len(words)
    assert unseen_source < 0.002 * total_source  # a rare form such as `julie's`
    assert unseen_target < 0.005 * total_target
    for modifier, nouns in HELD_OUT.items():
        assert english_forms(modifier) & source
        assert all({noun.english, noun.english_plural} & source for noun in nouns)


def test_other_direction_is_the_mirror(corpus):
    turned = load_phrasebook(seed=1, train=300, valid=20, test=20, direction="fr-en")
    plain = load_phrasebook(seed=1, train=300, valid=20, test=20)
    assert (turned.source_language, turned.target_language) == ("fr", "en")
    for here, there in zip(turned.train, plain.train, strict=True):
        assert (here.source, here.target) == (there.target, there.source)
        assert here.alignment.sure == {(j, i) for i, j in there.alignment.sure}
        assert here.alignment.possible == {(j, i) for i, j in there.alignment.possible}


def test_tests_do_not_change_with_the_size_of_train(corpus):
    small = load_phrasebook(seed=1, train=100, valid=500, test=500)
    assert small.tests == corpus.tests
    assert small.valid == corpus.valid
    assert small.train == corpus.train[:100]


def test_seeds_differ():
    one, two = (load_phrasebook(seed=seed, train=200, valid=10, test=10) for seed in (1, 2))
    assert len({pair.source for pair in one.train} & {pair.source for pair in two.train}) < 20


def test_user_errors():
    with pytest.raises(UserError, match="en-de"):
        load_phrasebook(direction="en-de")
    with pytest.raises(UserError, match="train"):
        load_phrasebook(train=-1)


SCRIPT = """
import hashlib
from itertools import islice
from harken.data.synthetic.phrasebook import generate
lines = (f"{p.source}|{p.target}|{p.alignment.to_pharaoh()}" for p in islice(generate(1), 1000))
print(hashlib.sha256("\\n".join(lines).encode()).hexdigest())
"""


def test_first_thousand_pairs_are_fixed():
    lines = (f"{p.source}|{p.target}|{p.alignment.to_pharaoh()}" for p in islice(generate(1), 1000))
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == CHECKSUM


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_pairs_do_not_depend_on_string_hashes(hash_seed):
    import os

    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == CHECKSUM


def test_samples_can_be_printed():
    command = [sys.executable, "-m", "harken.data.synthetic.phrasebook", "--n", "3", "--seed", "5"]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    blocks = run.stdout.strip().split("\n\n")
    assert len(blocks) == 3
    for block, pair in zip(blocks, generate(5), strict=False):
        assert block.split("\n") == [pair.source, pair.target, pair.alignment.to_pharaoh()]
