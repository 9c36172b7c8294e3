"""Draws clauses: a verb, somebody who can do it, something it can be done to, and when, where and how.

`richness` between 0 and 1 says how much is hung on a clause: adverbs, places, times, relative clauses.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.data.phrasebook.french import starts_with_vowel
from harken.data.phrasebook.modifiers import (
    ABSOLUTE, ADJECTIVE, ALREADY, EVERYWHERE, FEELINGS, FREQUENCIES, MANNERS_OF, PERSONAL, PREPOSITION, STATES, SUITING, TIMES_OF,
    TOGETHER, UNCOMPARED, WHEREABOUTS, Adjective, Adverb,
)  # fmt: skip
from harken.data.phrasebook.nouns import NOUN, NOUNS, Noun, tagged
from harken.data.phrasebook.sampler import AT, HOMES, SUBJECT_PRONOUNS, Sampler
from harken.data.phrasebook.trees import (
    IL, ILS, PRONOUN, Both, Clause, Name, NounPhrase, Object, Place, Pronoun, Subject, Trace,
)  # fmt: skip
from harken.data.phrasebook.verbs import BE, COPULAS, HAVE_STATE, VERB, VERBS, Verb

INTRANSITIVE = tuple(verb for verb in VERBS if not verb.objects)
TRANSITIVE = tuple(verb for verb in VERBS if verb.objects and not verb.recipient)
DITRANSITIVE = tuple(verb for verb in VERBS if verb.recipient)
DOERS = {verb: tagged(*(tag for tag in verb.subjects if tag != "person")) for verb in VERBS}
DIRECT = tuple(verb for verb in TRANSITIVE if not verb.french_preposition)
EATERS = {noun: tuple(verb for verb in DIRECT if noun in verb.objects) for noun in NOUNS}  # verbs with this object
DOINGS = {
    kind: tuple(verb for verb in (*INTRANSITIVE, *TRANSITIVE) if kind in verb.subjects) for kind in ("person", "animal")
}
SHOPS = tuple(NOUN[word] for word in ("market", "bakery", "station", "farm", "airport"))
FEELING_WORDS = tuple(FEELINGS)
JOBS = tagged("job")
THINGS = tagged("thing", "vehicle", "animal")
PERSON_OBJECTS = tuple(PRONOUN[word] for word in ("i", "you", "he", "she", "we", "they"))
RECIPIENTS = tuple(PRONOUN[word] for word in ("i", "you", "he", "we", "they"))
EVENTS = tuple(VERB[name] for name in ("arrive", "leave", "come back", "go out", "wake up", "get up"))


ONGOING = tuple(verb for verb in (*INTRANSITIVE, *TRANSITIVE) if verb.options & {"here", "careful", "manner"})


class Composer(Sampler):
    """Draws clauses."""

    free_pronouns = True  # whether `it` and `them` may point outside the sentence

    def tense(self) -> tuple[str, str]:
        """A tense and a modal verb."""
        draw = self.draw()
        if draw < 0.4:
            return "present", ""
        if draw < 0.68:
            return "past", ""
        if draw < 0.84:
            return "future", ""
        if draw < 0.91:
            return "going", ""
        return "present", self.pick(("can", "must", "want"))

    def clause(
        self,
        richness: float = 0.5,
        tense: str = "",
        subject: Subject | None = None,
        pronouns: Sequence[Pronoun] = SUBJECT_PRONOUNS,
        plain: bool = False,
        human: bool = False,
    ) -> Clause:
        """Any clause; `plain` keeps negation away, `human` keeps to what people do and how they feel."""
        draw = self.draw()
        if subject is not None and not _is_person(subject):
            return self.action(self.pick(DOINGS["animal"]), richness, tense, subject, pronouns, plain)
        if draw < 0.22:
            return self.action(self.pick(INTRANSITIVE), richness, tense, subject, pronouns, plain)
        if draw < 0.66:
            return self.action(self.pick(TRANSITIVE), richness, tense, subject, pronouns, plain)
        if draw < 0.75:
            return self.action(self.pick(DITRANSITIVE), richness, tense, subject, pronouns, plain)
        return self.state(tense, subject, pronouns, plain, human)

    def action(
        self, verb: Verb, richness: float, tense: str, subject: Subject | None, pronouns: Sequence[Pronoun], plain: bool
    ) -> Clause:
        """Somebody does something."""
        modal = ""
        if not tense:
            tense, modal = self.tense()
        if subject is None:
            doers = DOERS[verb]
            if doers and ("person" not in verb.subjects or self.chance(0.35)):
                subject = self.noun_phrase(self.pick_noun(doers))
            else:
                subject = self.person(pronouns)
        if verb.imperfect:
            tense, modal = ("past" if tense == "past" else "present"), ""
        if "accident" in verb.options and (modal or tense == "going"):
            tense, modal = "past", ""
        self.modifiers.append(verb)
        clause = Clause(subject, verb, tense, modal=modal)
        if not plain:
            clause.negation = self._negation(clause)
        if verb.objects:
            clause.object = self._object(clause)
        if verb.recipient:
            clause.recipient = self._recipient(clause)
        self._avoid_ambiguous_past(clause)
        self._hang(clause, richness)
        return clause

    def _negation(self, clause: Clause) -> str:
        draw = self.draw()
        subject = clause.subject
        if draw > 0.2 or (isinstance(subject, NounPhrase) and subject.determiner == "every"):
            return ""
        if draw > 0.06 or clause.modal or clause.tense == "going" or (clause.tense == "past" and clause.verb.imperfect):
            return "not"
        return "never" if clause.tense == "past" or draw < 0.03 else "no longer"

    def _object(self, clause: Clause) -> Object:
        """A pronoun, a name or a noun phrase; where French says l' for him and her alike, it is him."""
        verb, subject = clause.verb, clause.subject
        people = "person" in verb.objects[0].tags
        if "bare" not in verb.options and self.chance(0.16):
            if people:
                chosen = self._other_than(subject, PERSON_OBJECTS)
                hidden = starts_with_vowel(verb.french.infinitive) and (clause.tense != "past" or verb.imperfect)
                return PRONOUN["he"] if hidden and chosen.english == "she" and not verb.indirect else chosen
            if self.free_pronouns:
                return PRONOUN["it"] if self.chance(0.6) else PRONOUN["they"]
        if people and self.chance(0.08):
            return self.name()
        noun = self.pick_object(verb, verb.objects)
        role = "object"
        if verb.french_preposition == "de" and "instrument" in noun.tags:
            role = "instrument"
        elif verb.french_preposition:
            role = "place"
        elif "generic" in verb.options:
            role = "generic"
        elif clause.negation:
            role = "negated"
        return self.noun_phrase(noun, role, subject)

    def _other_than(self, subject: Subject, pronouns: Sequence[Pronoun]) -> Pronoun:
        """A pronoun for somebody who is not the subject."""
        person = subject.person
        chosen = self.pick(pronouns)
        while (chosen.person == person and person not in (IL, ILS)) or {chosen.person, person} == {0, 2}:
            chosen = self.pick(pronouns)
        if not self.free_pronouns and chosen.person in (IL, ILS):
            return PRONOUN["i"] if person not in (0, 2) else PRONOUN["you"]
        return chosen

    def _recipient(self, clause: Clause) -> NounPhrase | Pronoun | Name:
        if self.chance(0.4):
            return self._other_than(clause.subject, RECIPIENTS)
        if self.chance(0.25):
            return self.name()
        noun = self.pick_noun(KIN_AND_PEOPLE)
        return self.noun_phrase(noun, "place", clause.subject)

    def _avoid_ambiguous_past(self, clause: Clause) -> None:
        """`they read` and `they cut` must not be past as well as present: only he reads, he read tell them apart."""
        verb = clause.verb
        if clause.tense == "past" and verb.english == verb.english_past and clause.negation != "not":
            if clause.subject.person != IL:
                clause.tense = "future"

    def _hang(self, clause: Clause, richness: float) -> None:
        """Adverbs, places, companions and times."""
        verb, subject = clause.verb, clause.subject
        options = verb.options
        if "place" in options:
            clause.places = (self._direction(verb),)
        elif "home" in options:
            clause.places = (self.place_of(PREPOSITION["in"], HOMES),)
        elif "shop" in options and self.chance(0.25 * richness):
            clause.places = (self.place_of(PREPOSITION["at"], SHOPS),)
        elif "everywhere" in options:
            clause.whereabout = EVERYWHERE if self.chance(0.15) else None
        elif "here" in options and not _is_person(subject):
            if isinstance(subject, NounPhrase) and self.chance(0.75 * richness):
                clause.places = (self.place_for(subject.noun),)
        elif "here" in options and self.chance(0.75 * richness):
            if self.chance(0.15):
                clause.whereabout = self.pick(WHEREABOUTS)
            elif self.chance(0.25):
                clause.places = (self.companion(subject),)
            else:
                clause.places = (self.place(subject),)
        simple = not clause.modal and clause.tense != "going"
        clause.adverb = self._adverb(clause, simple, richness)
        habitual = clause.adverb is not None and clause.adverb.early
        if clause.negation in ("", "not") and not habitual and not verb.imperfect and self.chance(0.4 * richness):
            tense = "future" if clause.tense == "going" else clause.tense
            clause.time = self.pick(TIMES_OF[tense])
            if clause.modal or (clause.negation and tense == "present"):
                clause.time = self.pick(TIMES_OF["present"][:2])

    def _direction(self, verb: Verb) -> Place:
        if verb.name == "go" or (verb.name == "come" and self.chance(0.5)):
            return self.place_of(PREPOSITION["to"], AT)
        return self.place_of(PREPOSITION["from"], AT)

    def _adverb(self, clause: Clause, simple: bool, richness: float) -> Adverb | None:
        options = clause.verb.options
        draw = self.draw()
        if draw < 0.13 * (0.4 + richness) and simple and clause.negation in ("", "not"):
            if clause.negation == "not" or clause.tense == "future":
                return self.pick(FREQUENCIES[:2])
            if clause.tense == "past":
                return None if clause.verb.imperfect else self.pick((*FREQUENCIES, ALREADY))
            return self.pick(FREQUENCIES)
        if draw > 0.75 and clause.negation in ("", "not"):
            for kind in ("well", "careful", "manner"):
                if kind in options and (simple or kind != "well"):
                    return self.pick(MANNERS_OF[kind])
            if draw > 0.95 and not clause.verb.objects and "here" in options and clause.subject.plural:
                return TOGETHER
        return None

    def state(
        self, tense: str, subject: Subject | None, pronouns: Sequence[Pronoun], plain: bool, human: bool = False
    ) -> Clause:
        """How or where or what somebody or something is."""
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
        if isinstance(subject, NounPhrase) and not subject.noun.tags & {"kin"}:
            return None
        for _ in range(8):
            job = self.pick(JOBS)
            if job.feminine == subject.feminine:
                return job
        return None

    def _quality(self, clause: Clause) -> Clause:
        """Fill in an adjective, and sometimes a degree, a frequency or a comparison."""
        subject = clause.subject
        noun = subject.noun if isinstance(subject, NounPhrase) else None
        adjective: Adjective | None = None
        if noun is not None and clause.tense != "future":
            adjective = self.adjective_for(noun, predicate=True)
            if isinstance(subject, NounPhrase) and adjective in subject.adjectives:
                adjective = None
        if adjective is None:
            fitting = tuple(a for a in SUITING[noun] if not a.attribute_only) if noun is not None else PERSONAL
            adjective = self.pick(STATES if _is_person(subject) and clause.tense == "future" else fitting or BASIC)
            if noun is None:
                self.modifiers.append(adjective)
            else:
                self.relate(adjective, noun)
        clause.adjective = adjective
        draw = self.draw()
        if draw < 0.15 and adjective.english not in ABSOLUTE:
            clause.degree = self.pick(("very", "too", "quite") if not clause.negation else ("very", "too"))
        elif draw < 0.25 and clause.tense == "present" and adjective in STATES:
            clause.adverb = self.pick(FREQUENCIES[:2] if clause.negation else FREQUENCIES)
        elif 0.25 < draw < 0.45 and adjective.english not in UNCOMPARED and clause.tense == "present":
            clause.than = self._compared(subject, adjective)
        return clause

    def _compared(self, subject: Subject, adjective: Adjective) -> NounPhrase | Name | None:
        """Something else of the same kind."""
        if not isinstance(subject, NounPhrase):
            return self.name()
        kind = next((kind for kind in MAIN_KINDS if kind in subject.noun.tags), "")
        for _ in range(4 if kind and not subject.noun.mass else 0):
            noun = self.pick(MAIN_KINDS[kind])
            if noun not in self.nouns and not noun.mass:
                self.nouns.append(noun)
                return NounPhrase(noun, self._determiner(noun, "place", False, None))
        return None


BASIC = (ADJECTIVE["beautiful"],)
COMPARED = ("person", "vehicle", "clothes", "furniture", "text", "instrument", "food")
MAIN_KINDS = {kind: tagged(kind) for kind in COMPARED}
KIN_AND_PEOPLE = tagged("person")


def _is_person(subject: Subject) -> bool:
    return not isinstance(subject, NounPhrase) or "person" in subject.noun.tags


__all__ = ["COPULAS", "DIRECT", "EATERS", "EVENTS", "ONGOING", "Composer"]
