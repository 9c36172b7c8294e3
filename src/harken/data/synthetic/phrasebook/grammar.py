"""The grammar: draws whole sentences of every kind from a seeded random generator.

>>> from random import Random
>>> drawn = Grammar(Random("phrasebook")).sentence()
>>> drawn.pair.alignment is not None
True
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from harken.data.synthetic.phrasebook.combinations import any_together
from harken.data.synthetic.phrasebook.compounds import Compounds
from harken.data.synthetic.phrasebook.links import make_pair
from harken.data.synthetic.phrasebook.nominals import Words
from harken.data.synthetic.phrasebook.scenes import SPEAKERS
from harken.data.synthetic.phrasebook.sentences import Sentences
from harken.data.synthetic.phrasebook.verbs import REPORTS
from harken.data.text.pairs import Pair


class Drawn(NamedTuple):
    """A sentence in both languages, and what the splits must know of it."""

    words: Words
    together: bool  # two words of a held-out combination stand in it
    novel: bool  # ... in their grammatical relation

    @property
    def pair(self) -> Pair:
        """Both sentences and their links."""
        return make_pair(*self.words)


class Grammar(Compounds):
    """Draws sentences."""

    def __init__(self, random: Random, novel: bool = False) -> None:
        super().__init__(random, novel)
        self.words = Sentences()

    def sentence(self, long: bool = False) -> Drawn:
        """One sentence; `long` ones are chains of clauses for test-long."""
        self.begin()
        self.words = Sentences()
        self.free_pronouns = True
        words = self.long() if long else self._any()
        together = self.is_novel or any_together(self.modifiers, self.nouns)
        return Drawn(words, together, self.is_novel)

    def _any(self) -> Words:
        draw = self.draw()
        if draw < 0.31:
            return self.simple()
        if draw < 0.4:
            return self.words.yes_no(self.asked())
        if draw < 0.48:
            return self.question()
        if draw < 0.51:
            return self.there()
        self.free_pronouns = False
        if draw < 0.63:
            return self.anaphora() if self.chance(0.35) else self.coordinated()
        if draw < 0.8:
            return self.subordinated()
        if draw < 0.89:
            clause = self.clause(0.4, pronouns=SPEAKERS)
            return self.report(self.words.clause(clause), REPORTS if clause.tense == "future" else REPORTS[:-1])
        return self.chain()
