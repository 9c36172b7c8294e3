"""Draws how somebody or something is: adjectives, comparisons, feelings, professions, places, and the weather."""

from __future__ import annotations

from collections.abc import Sequence

from harken.data.synthetic.phrasebook.modifiers import (
    ABSOLUTE,
    ADJECTIVE,
    FEELINGS,
    FREQUENCIES,
    PERSONAL,
    REASONS,
    REASONS_AGAINST,
    STATES,
    SUITING,
    UNCOMPARED,
    Adjective,
    clashes,
)
from harken.data.synthetic.phrasebook.nouns import Noun
from harken.data.synthetic.phrasebook.sampler import Sampler
from harken.data.synthetic.phrasebook.scenes import COMPARED, FEELING_OF, JOBS, THINGS, WEATHER_OF
from harken.data.synthetic.phrasebook.trees import ILS, PRONOUN, Both, Clause, Name, NounPhrase, Pronoun, Subject, Trace
from harken.data.synthetic.phrasebook.verbs import BE, HAVE_STATE, RAIN, SNOW, WEATHER_STATE

FEELING_WORDS = tuple(FEELINGS)
BASIC = (ADJECTIVE["beautiful"],)


class States(Sampler):
    """Draws clauses around `to be`."""

    def state(
        self, tense: str, subject: Subject | None, pronouns: Sequence[Pronoun], plain: bool, human: bool = False
    ) -> Clause:
        """How or where or what somebody (or, unless `human`, something) is; `plain` keeps negation away."""
        tense = tense or ("present" if self.chance(0.6) else "past" if self.chance(0.6) else "future")
        tense = "future" if tense == "going" else tense
        draw = self.draw()
        negation = "" if plain or self.chance(0.85) else "not"
        if subject is None and draw < 0.45 and not human and tense != "future":
            subject = self.noun_phrase(self.pick_noun(THINGS), adjective_rate=0.15)
            self.make_definite(subject)
        elif subject is None:
            subject = self.person(pronouns)
            self.make_definite(subject)
        if draw < 0.6:
            return self._quality(Clause(subject, BE, tense, negation))
        if draw < 0.75:
            return Clause(subject, HAVE_STATE, tense, negation, feeling=self.pick(FEELING_WORDS))
        if draw < 0.83 and not isinstance(subject, Both | Trace) and tense != "future" and not human:
            job = self._job(subject)
            if job is not None:
                return Clause(subject, BE, tense, negation, profession=job)
        place = self.place_for(subject.noun) if isinstance(subject, NounPhrase) else self.place(subject)
        return Clause(subject, BE, tense, negation, places=(place,))

    def make_definite(self, subject: Subject) -> None:
        """`is a prince here?` is no good English: give the subject a definite article."""
        if isinstance(subject, NounPhrase) and subject.determiner in ("a", "some", "many", "several", "every"):
            subject.determiner = "the"

    def _job(self, subject: Subject) -> Noun | None:
        """A profession whose French gender is that of the subject."""
        if isinstance(subject, NounPhrase) and "kin" not in subject.noun.tags:
            return None
        for _ in range(8):
            job = self.pick(JOBS)
            if job.feminine == subject.feminine:
                return job
        return None

    def _quality(self, clause: Clause) -> Clause:
        """Fill in an adjective, and sometimes a degree, a frequency or a comparison."""
        adjective = clause.adjective = self._predicate_for(clause)
        draw = self.draw()
        if draw < 0.15 and adjective.english not in ABSOLUTE:
            clause.degree = self.pick(("very", "too", "quite") if not clause.negation else ("very", "too"))
        elif draw < 0.25 and clause.tense == "present" and adjective in STATES:
            clause.adverb = self.pick(FREQUENCIES[:2] if clause.negation else FREQUENCIES)
        elif 0.25 < draw < 0.6 and adjective.english not in UNCOMPARED and clause.tense == "present":
            clause.than = self._compared(clause.subject)
        return clause

    def _predicate_for(self, clause: Clause) -> Adjective:
        """An adjective for the subject; what will be is a passing state."""
        subject = clause.subject
        if not isinstance(subject, NounPhrase):
            adjective = self.pick(STATES if clause.tense == "future" else PERSONAL)
            self.modifiers.append(adjective)
            return adjective
        mark = self.mark()
        chosen = self.adjective_for(subject.noun, predicate=True) if clause.tense != "future" else None
        if chosen is not None and not clashes(chosen, subject.adjectives):
            return chosen
        self.back_to(mark)
        person = "person" in subject.noun.tags
        fitting = tuple(a for a in SUITING[subject.noun] if not a.attribute_only and not clashes(a, subject.adjectives))
        adjective = self.pick(STATES if person and clause.tense == "future" else fitting or BASIC)
        self.relate(adjective, subject.noun)
        return adjective

    def _compared(self, subject: Subject) -> NounPhrase | Name | None:
        """Something else of the same kind."""
        if not isinstance(subject, NounPhrase):
            return self.name()
        kind = next((kind for kind in COMPARED if kind in subject.noun.tags), "")
        for _ in range(4 if kind and not subject.noun.mass else 0):
            noun = self.pick(COMPARED[kind])
            if noun not in self.nouns and not noun.mass:
                self.nouns.append(noun)
                return NounPhrase(noun, self.determiner(noun, "place", False, None))
        return None

    def weather(self, tense: str, kinds: Sequence[str] = ("hot", "cold", "rain", "snow")) -> Clause:
        """`it rains`, `it is cold`."""
        kind = self.pick(kinds)
        if kind in ("rain", "snow"):
            return Clause(PRONOUN["it"], RAIN if kind == "rain" else SNOW, tense)
        degree = "very" if self.chance(0.2) else ""
        return Clause(PRONOUN["it"], WEATHER_STATE, tense, feeling=kind, degree=degree)

    def again(self, subject: Subject) -> Subject:
        """The same person once more: as a pronoun where it was none."""
        if isinstance(subject, Pronoun):
            return subject
        if subject.person == ILS:
            return PRONOUN["they (feminine)" if subject.feminine else "they"]
        return PRONOUN["she" if subject.feminine else "he"]

    def reason(self, first: Clause, tense: str) -> Clause:
        """A state that explains why somebody does something, or does not."""
        draw = self.draw()
        if WEATHER_OF[first.verb] and draw < 0.5 and not first.negation:
            return self.weather(tense, WEATHER_OF[first.verb])
        subject = self.again(first.subject)
        if first.verb in FEELING_OF and draw < 0.8 and not first.negation:
            return Clause(subject, HAVE_STATE, tense, feeling=FEELING_OF[first.verb])
        adjective = self.pick(REASONS_AGAINST if first.negation else REASONS)
        self.modifiers.append(adjective)
        degree = "too" if first.negation else "very" if draw < 0.2 else ""
        return Clause(subject, BE, tense, degree=degree, adjective=adjective)
