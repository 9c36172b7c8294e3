"""Sums and differences of whole numbers, digit by digit: "12 + 345 =" -> 357.

Numbers have one to four digits, every length as often; a difference may be below 0. What is carried from one digit
to the next has to be found from the right, while the answer is written from the left: Zaremba and Sutskever (2014).
The same two numbers in the other order are the same sum, and stand in one split.

>>> from random import Random
>>> pair = draw(Random(2))
>>> pair.source, pair.target
('1 - 5 =', '-4')
"""

from __future__ import annotations

from random import Random

from harken.data.synthetic.seq2seq import Maker
from harken.data.text.pairs import Pair

DIGITS = 4


def draw(random: Random) -> Pair:
    """One problem and its answer."""
    first, second = (random.randrange(10 ** random.randint(1, DIGITS)) for _ in range(2))
    plus = random.random() < 0.5
    return Pair(f"{first} {'+' if plus else '-'} {second} =", str(first + second if plus else first - second))


def meaning(pair: Pair) -> str:
    """The numbers whatever their order, and what is done with them."""
    first, sign, second, _ = pair.source.split()
    return " ".join([sign, *sorted((first, second))])


MAKER = Maker(draw, meaning, source="problem", target="answer")
