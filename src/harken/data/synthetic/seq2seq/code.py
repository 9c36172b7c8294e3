"""Instructions in English to small Python expressions: "the larger of x and y" -> max(x, y).

Numbers, lists and conditions, put into one another; the first of two things is a name or a number alone, so that one
can hear where the second begins, and every instruction has one expression. Several ways of saying lead to the same
code, and brackets stand only where Python needs them: both have to be learnt. Ling et al. (2016).

>>> from random import Random
>>> pair = draw(Random(46))
>>> pair.source, pair.target
('the smallest of the squares of ys', 'min([i ** 2 for i in ys])')
"""

from __future__ import annotations

import ast
from random import Random

from harken.data.synthetic.seq2seq import Maker
from harken.data.synthetic.vocabulary import load_vocabulary
from harken.data.text.pairs import Pair

DEEPEST = 2
WORDS = load_vocabulary("seq2seq")["code"]


def draw(random: Random) -> Pair:
    """One instruction and its expression, without brackets it does not need."""
    kind = random.random()
    english, code = condition(random) if kind < 0.2 else a_list(random, 0) if kind < 0.35 else value(random, 0)
    return Pair(english, ast.unparse(ast.parse(code, mode="eval")))


def value(random: Random, depth: int) -> tuple[str, str]:
    """A number: its words and its code."""
    kind = random.random()
    if depth == DEEPEST or (depth and kind < 0.35):
        word = random.choice(WORDS["names"]) if random.random() < 0.6 else str(random.randint(2, 9))
        return word, word
    if kind < 0.6:
        words, code = random.choice(list(WORDS["over_a_list"].items()))
        inner, inside = a_list(random, depth + 1)
        return f"{words} {inner}", code.format(inside)
    words, code = random.choice(list(WORDS["of_two"].items()))
    first, second = leaf(random), value(random, depth + 1)
    return words.format(first[0], second[0]), code.format(first[1], second[1])


def leaf(random: Random) -> tuple[str, str]:
    """A name or a number alone."""
    return value(random, DEEPEST)


def a_list(random: Random, depth: int) -> tuple[str, str]:
    """A list: its name, or one made of another, or what is left of it under a condition."""
    kind, name = random.random(), random.choice(WORDS["lists"])
    if depth == DEEPEST or (depth and kind < 0.4):
        return name, name
    if kind < 0.7:
        words, code = random.choice(list(WORDS["of_a_list"].items()))
        return words.format(name), code.format(name)
    words, sign = random.choice(list(WORDS["comparisons"].items()))
    bound = leaf(random)
    return f"those of {name} where each {words} {bound[0]}", f"[i for i in {name} if i {sign} {bound[1]}]"


def condition(random: Random) -> tuple[str, str]:
    """One thing or another."""
    words, sign = random.choice(list(WORDS["comparisons"].items()))
    left, right, yes, no = leaf(random), leaf(random), value(random, 1), value(random, 1)
    test = f"{left[1]} {sign} {right[1]}"
    condition_words = f"{left[0]} {words} {right[0]}"
    if random.random() < 0.5:
        return f"if {condition_words} then {yes[0]} , else {no[0]}", f"{yes[1]} if {test} else {no[1]}"
    return f"{yes[0]} , if {condition_words} , otherwise {no[0]}", f"{yes[1]} if {test} else {no[1]}"


MAKER = Maker(draw, meaning=lambda pair: pair.target, source="instruction", target="code")
