"""Sentences to their trees, written as brackets: parsing as translation, after Vinyals et al. (2015).

    the cat sees a dog with a stick .  ->  (S (NP the cat) (VP sees (NP a dog) (PP with (NP a stick))))
    the cat sees a dog with a tail .   ->  (S (NP the cat) (VP sees (NP a dog (PP with (NP a tail)))))

The grammar has relative clauses (on the subject and on the object, so that clauses stand inside clauses), clauses after
verbs of saying, adjectives, "of", and phrases whose place the words alone decide: one sees with a stick, a dog is with
a tail. So every sentence has one tree, and finding it needs more than counting.

>>> from random import Random
>>> draw(Random(29)).target
'(S (NP the slow boy (PP with (NP a scarf))) (VP sleeps))'
"""

from __future__ import annotations

from random import Random

from harken.data.synthetic.seq2seq import Maker
from harken.data.synthetic.vocabulary import load_vocabulary
from harken.data.text.pairs import Pair

LONGEST = 16  # words of a sentence, its full stop counted
DEEPEST = 2  # clauses inside clauses

WORDS = load_vocabulary("seq2seq")["brackets"]


def draw(random: Random) -> Pair:
    """A sentence that is short enough, and its tree."""
    while True:
        tree = sentence(random, 0)
        words = [word for word in tree.replace("(", " ( ").replace(")", " ").split() if word.islower()]
        if len(words) < LONGEST:
            return Pair(" ".join([*words, "."]), tree)


def sentence(random: Random, depth: int) -> str:
    """S -> NP VP."""
    return f"(S {actor(random, depth)} {verb_phrase(random, depth)})"


def actor(random: Random, depth: int) -> str:
    """Who: a noun with what belongs to it."""
    parts = [random.choice(WORDS["determiners"])]
    if random.random() < 0.35:
        parts.append(random.choice(WORDS["adjectives"]))
    parts.append(random.choice(WORDS["actors"]))
    choice = random.random()
    if choice < 0.12:
        parts.append(f"(PP with (NP a {random.choice(WORDS['marks'])}))")
    elif choice < 0.22:
        parts.append(f"(PP of (NP the {random.choice(WORDS['actors'])}))")
    elif choice < 0.45 and depth < DEEPEST:
        parts.append(f"(SBAR that {relative(random, depth + 1)})")
    return f"(NP {' '.join(parts)})"


def relative(random: Random, depth: int) -> str:
    """The noun is who does it, or (half as often) whom it is done to."""
    if random.random() < 0.67:
        return verb_phrase(random, depth)
    return f"(S {actor(random, depth)} (VP {random.choice(WORDS['seeing'])}))"


def verb_phrase(random: Random, depth: int) -> str:
    """The action of a sentence: what is done, to whom, with what and where."""
    choice = random.random()
    if choice < 0.15 and depth < DEEPEST:
        return f"(VP {random.choice(WORDS['saying'])} (SBAR that {sentence(random, depth + 1)}))"
    if choice < 0.4:
        parts = [random.choice(WORDS["sleeping"])]
    elif choice < 0.6:
        parts = [
            random.choice(WORDS["seeing"]),
            f"(NP {random.choice(WORDS['determiners'])} {random.choice(WORDS['things'])})",
        ]
    else:
        parts = [random.choice(WORDS["seeing"]), actor(random, depth)]
        if "(SBAR" not in parts[-1] and random.random() < 0.25:  # after a clause one could not tell who holds it
            parts.append(f"(PP with (NP a {random.choice(WORDS['tools'])}))")
    if depth == 0 and random.random() < 0.25:  # inside a clause one could not tell whose place it is
        parts.append(f"(PP {random.choice(WORDS['places'])} (NP the {random.choice(WORDS['things'])}))")
    return f"(VP {' '.join(parts)})"


MAKER = Maker(draw, meaning=lambda pair: pair.source, source="sentence", target="tree")
