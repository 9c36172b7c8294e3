"""Corpora that the package makes for the other seq2seq jobs: the model of translation, other pairs.

    dates        "the 3rd of May, 1987"                     -> 1987-05-03
    arithmetic   "12 + 345 ="                               -> 357
    brackets     "the cat sleeps ."                         -> (S (NP the cat) (VP sleeps))
    code         "the sum of the squares of xs"             -> sum([i ** 2 for i in xs])
    extract      a paragraph                                -> the sentence that says what came of its subject

>>> corpus = load_made("dates", seed=1, train=5, valid=2, test=2)
>>> len(corpus.train), list(corpus.tests)
(5, ['test'])
"""

from __future__ import annotations

from harken.data.synthetic.seq2seq.splits import MADE, load_made

__all__ = ["MADE", "load_made"]
