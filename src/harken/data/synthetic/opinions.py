"""opinions: short reviews that harken makes, in which the order of words decides.

    the film was good                            positive
    the film was not good                        negative: a negation turns the word after it
    the film was good but the cast was dull      negative: after `but`, the second half is meant
    although the cast was dull , it was good     positive: after `although`, the second half is meant

The same words in another order have the other label, so counting words is not enough. Splits share no review.

>>> splits = make_splits(200, seed=1)
>>> set(splits.train.values) & set(splits.tests["test"].values)
set()
"""

from __future__ import annotations

import random
from itertools import pairwise

from harken.data.synthetic.vocabulary import load_vocabulary
from harken.data.text.examples import Labelled, LabelledSplits

SIZE, HELD_OUT = 6000, 1000
WORDS = load_vocabulary("opinions")
THINGS, GOOD, BAD, TURNS, DEGREES, VERBS, FILLERS = (
    WORDS[name] for name in ("things", "good", "bad", "turns", "degrees", "verbs", "fillers")
)
POSITIVE, NEGATIVE = "positive", "negative"


def make_splits(size: int | None, seed: int) -> LabelledSplits:
    """`size` reviews to train on, and 1,000 each to validate and to test on; the same for the same seed."""
    count = size or SIZE
    numbers = random.Random(seed)
    reviews: dict[str, str] = {}
    while len(reviews) < count + 2 * HELD_OUT:
        text, label = review(numbers)
        reviews.setdefault(text, label)
    texts, labels = list(reviews), list(reviews.values())
    bounds = [0, count, count + HELD_OUT, count + 2 * HELD_OUT]
    train, valid, test = (Labelled(texts[start:stop], labels[start:stop]) for start, stop in pairwise(bounds))
    return LabelledSplits("opinions", train, valid, {"test": test})


def review(numbers: random.Random) -> tuple[str, str]:
    """A review and its label."""
    positive = numbers.random() < 0.5
    first, other = numbers.sample(THINGS, 2)
    meant = clause(numbers, first, positive)
    shape = numbers.randrange(5)
    if shape == 0:
        text = meant
    elif shape == 1:  # the same twice
        text = f"{meant} and {clause(numbers, other, positive)}"
    elif shape == 2:
        text = f"{clause(numbers, other, not positive)} but {meant}"
    elif shape == 3:
        text = f"although {clause(numbers, other, not positive)} , {meant}"
    else:
        text = f"{meant} , although {clause(numbers, other, not positive)}"
    filler = numbers.choice(FILLERS)
    return f"{filler} {text}".strip(), POSITIVE if positive else NEGATIVE


def clause(numbers: random.Random, thing: str, positive: bool) -> str:
    """`the soup was not very good`: something said of one thing."""
    turned = numbers.random() < 0.4
    words = GOOD if positive != turned else BAD
    predicate = f"{numbers.choice(DEGREES)} {numbers.choice(words)}".strip()
    return f"the {thing} {numbers.choice(VERBS)} {numbers.choice(TURNS) + ' ' if turned else ''}{predicate}"
