"""A short paragraph to the one sentence that matters: summary by extraction.

A paragraph is about one subject, which most of its sentences name. The sentence to find says what came of that subject
("the old bridge was closed"). The same is said of another subject, which is named only there, and the rest is
colouring. So neither the words of an outcome nor the place in the paragraph give the sentence away: the model has to
find out what the paragraph is about. See et al. (2017) on copying in summaries.

>>> from random import Random
>>> pair = draw(Random(1))
>>> pair.target in pair.source
True
"""

from __future__ import annotations

from random import Random

from harken.data.synthetic.seq2seq import Maker
from harken.data.synthetic.vocabulary import load_vocabulary
from harken.data.text.pairs import Pair

WORDS = load_vocabulary("seq2seq")["extract"]
KINDS, MARKS, OUTCOMES, WHEN, COLOUR, WEATHER = (
    WORDS[name] for name in ("kinds", "marks", "outcomes", "when", "colour", "weather")
)


def draw(random: Random) -> Pair:
    """A paragraph in any order of its sentences, and its key sentence."""
    subject, other = map(" ".join, zip(random.sample(MARKS, 2), random.sample(KINDS, 2), strict=True))
    key = f"the {subject} {random.choice(OUTCOMES)} {random.choice(WHEN)}"
    sentences = [key, *(line.format(subject) for line in random.sample(COLOUR, random.randint(1, 2)))]
    if random.random() < 0.8:
        sentences.append(f"the {other} {random.choice(OUTCOMES)} {random.choice(WHEN)}")
    sentences += random.sample(WEATHER, random.randint(0, 1))
    random.shuffle(sentences)
    return Pair(" . ".join(sentences) + " .", key)


MAKER = Maker(draw, meaning=lambda pair: pair.target, source="paragraph", target="summary")
