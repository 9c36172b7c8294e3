"""The grammar: draws whole sentences of every kind from a seeded random generator.

>>> from random import Random
>>> drawn = Grammar(Random("phrasebook")).sentence()
>>> drawn.pair.alignment is not None
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from harken.data.synthetic.phrasebook import lexicon, scenes
from harken.data.synthetic.phrasebook.composer import is_person
from harken.data.synthetic.phrasebook.lexicon import Verb, any_together
from harken.data.synthetic.phrasebook.links import Words, make_pair
from harken.data.synthetic.phrasebook.sentences import Sentences
from harken.data.synthetic.phrasebook.simple import Questions
from harken.data.synthetic.phrasebook.trees import PRONOUN, Both, Clause, Name, NounPhrase
from harken.data.text.pairs import Pair


class Compounds(Questions):
    """Draws sentences of several clauses; the words for them are in `sentences`."""

    def _second(self, first: Clause, richness: float, tense: str) -> Clause:
        """A second clause: about the same person, or somebody else."""
        if is_person(first.subject) and self.chance(0.65):
            return self.clause(richness, tense, self.again(first.subject), human=True)
        return self.deed(richness, tense)

    def coordinated(self) -> Words:
        """Two clauses of one tense with and, or with but."""
        first = self.deed(0.5, "") if self.chance(0.75) else self.clause(0.4, human=True)
        tense = first.tense if not first.modal else "present"
        second = self._second(first, 0.3, tense)
        word = "but" if self.chance(0.4) else "and"
        return self.words.joined(self.with_time_first(first), word, self.words.clause(second), comma=word == "but")

    def anaphora(self) -> Words:
        """`the boy buys the apples and he eats them`: the pronoun takes the gender of the object."""
        tense = self.pick(("present", "past", "past", "future"))
        mark = self.mark()
        for _ in range(6):
            self.back_to(mark)
            first = self.action(self.pick(scenes.GETTING), 0.2, tense, None, scenes.SUBJECT_PRONOUNS, True)
            item = first.object
            if isinstance(item, NounPhrase) and not first.verb.french_preposition and not item.noun.mass:
                person = "person" in item.noun.tags
                verbs = tuple(v for v in scenes.DONE_TO[item.noun] if v in scenes.USING)
                if verbs and item.determiner not in ("", "every") and not person and first.tense == tense:
                    verb = self.pick(verbs)
                    suffix = " (feminine)" if item.feminine else ""
                    pronoun = PRONOUN[("they" if item.plural else "it") + suffix]
                    self.relate(verb, item.noun)
                    second = Clause(self.again(first.subject), verb, tense, object=pronoun)
                    self.avoid_ambiguous_past(second)
                    return self.words.joined(self.words.clause(first), "and", self.words.clause(second))
        self.back_to(mark)
        return self.coordinated()

    def event(self, tense: str) -> Clause:
        """Something short that can set a time."""
        if self.chance(0.3):
            return self.weather(tense)
        clause = self.action(self.pick(scenes.EVENTS), 0, tense, None, scenes.SPEAKERS, True)
        clause.adverb = None
        self.make_definite(clause.subject)
        return clause

    def subordinated(self, richness: float = 0.3) -> Words:
        """because, so, when, as soon as, if, while."""
        draw = self.draw()
        if draw < 0.4:
            first = self.deed(richness, "")
            if first.adverb is not None and first.adverb.early:
                first.adverb = None
            second = self.reason(first, "past" if first.tense == "past" else "present")
            return self.words.joined(self.with_time_first(first), "because", self.words.clause(second))
        if draw < 0.5:
            second = self.deed(richness, self.pick(("present", "past")))
            subject, second.subject = second.subject, self.again(second.subject)
            first = self.reason(second, second.tense)
            if first.verb not in (lexicon.RAIN, lexicon.SNOW, lexicon.WEATHER_STATE):
                first.subject = subject
            else:
                second.subject = subject
            return self.words.joined(self.words.clause(first), "so", self.words.clause(second), comma=True)
        if draw < 0.65:
            return self._timed("when", richness)
        if draw < 0.73:
            return self._timed("as soon as", richness)
        if draw < 0.88:
            condition = self.event("present") if self.chance(0.7) else self._condition()
            result = self.deed(richness, self.pick(("future", "future", "present")))
            return self._either_order("if", condition, result)
        first = self.action(self.pick(scenes.ONGOING), richness, "present", None, scenes.SUBJECT_PRONOUNS, True)
        first.time = None
        second = self.action(self.pick(scenes.ONGOING), 0.2, "present", None, scenes.SPEAKERS, True)
        second.time = None
        return self.words.joined(self.words.clause(first), "while", self.words.clause(second))

    def _condition(self) -> Clause:
        """`if he is tired`: a reason for something that is not said."""
        mark = self.mark()
        draft = self.deed(0, "present")
        draft.negation = ""
        self.back_to(mark)
        self.make_definite(draft.subject)
        if isinstance(draft.subject, NounPhrase | Name | Both):
            draft.subject = self.pick(scenes.SPEAKERS)
        return self.reason(draft, "present")

    def _timed(self, word: str, richness: float) -> Words:
        """`when he comes` with a future is quand il viendra."""
        tense = "future" if word == "as soon as" else self.pick(("present", "future"))
        event = self.event(tense)
        event.time = None
        if tense == "future":
            event.english_tense = "present"
        return self._either_order(word, event, self.deed(richness, tense, plain=True))

    def deed(self, richness: float, tense: str, plain: bool = False) -> Clause:
        """A clause about what somebody does, or does not do, on an occasion."""
        verb = self.pick(scenes.DEEDS)
        clause = self.action(
            verb, richness, tense, self.person(scenes.SPEAKERS), scenes.SPEAKERS, plain or self.chance(0.8)
        )
        if clause.negation:
            clause.negation = "not"
        return clause

    def _either_order(self, word: str, event: Clause, main: Clause) -> Words:
        if self.chance(0.5):
            return self.words.fronted(word, self.words.clause(event), self.words.clause(main))
        main.time = None
        return self.words.joined(self.words.clause(main), word, self.words.clause(event))

    def report(self, reported: Words, verbs: Sequence[Verb] = lexicon.REPORTS[:-1]) -> Words:
        """`i think that ...`; one hopes only for what is still to come."""
        verb = self.pick(verbs)
        subject = self.person(scenes.REPORTERS, adjective_rate=0.1)
        return self.words.report(Clause(subject, verb), reported)

    def chain(self) -> Words:
        """Two or three clauses, some with relative clauses."""
        self.free_pronouns = False
        words = self._rich_clause()
        if self.chance(0.5):
            return self.words.joined(words, "and", self.subordinated(0.3))
        return self.report(self.words.joined(words, self.pick(("and", "but")), self._rich_clause(), comma=False))

    def _rich_clause(self) -> Words:
        clause = self.clause(0.7, pronouns=scenes.SPEAKERS, human=True)
        if self.chance(0.6):
            self.attach_relative(clause)
        return self.words.clause(clause)

    def long(self) -> Words:
        """Four to six clauses."""
        self.free_pronouns = False
        words = self._rich_clause()
        if self.chance(0.4):
            words = self.report(words)
        while len(words[0]) < 26 + 8 * self.draw():
            if self.chance(0.5):
                words = self.words.joined(words, "and", self.subordinated(0.5))
            else:
                words = self.words.joined(words, self.pick(("and", "but")), self._rich_clause(), comma=True)
        return words


@dataclass(frozen=True)
class Drawn:
    """A sentence in both languages, and what the splits must know of it."""

    words: Words
    together: bool  # two words of a held-out combination stand in it
    novel: bool  # ... in their grammatical relation

    @cached_property
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
            clause = self.clause(0.4, pronouns=scenes.SPEAKERS)
            return self.report(
                self.words.clause(clause), lexicon.REPORTS if clause.tense == "future" else lexicon.REPORTS[:-1]
            )
        return self.chain()
