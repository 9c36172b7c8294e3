"""Draws clauses: a verb, somebody who can do it, something it can be done to, and when, where and how.

`richness` between 0 and 1 says how much is hung on a clause: adverbs, places, times, relative clauses.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.data.phrasebook.modifiers import (
    ADJECTIVE, ALREADY, FEELINGS, FREQUENCIES, MANNERS_OF, PERSONAL, PREPOSITION, STATES, TIMES_OF, TOGETHER,
    WHEREABOUTS, Adjective, Adverb,
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
EVENTS = tuple(VERB[name] for name in ("arrive", "leave", "come back", "go out", "wake up", "get up", "sleep", "sing"))


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
    ) -> Clause:
        """Any clause; `plain` keeps negation away."""
        draw = self.draw()
        if subject is not None and not _is_person(subject):
            return self.action(self.pick(DOINGS["animal"]), richness, tense, subject, pronouns, plain)
        if draw < 0.22:
            return self.action(self.pick(INTRANSITIVE), richness, tense, subject, pronouns, plain)
        if draw < 0.66:
            return self.action(self.pick(TRANSITIVE), richness, tense, subject, pronouns, plain)
        if draw < 0.75:
            return self.action(self.pick(DITRANSITIVE), richness, tense, subject, pronouns, plain)
        return self.state(tense, subject, pronouns, plain)

    def action(
        self, verb: Verb, richness: float, tense: str, subject: Subject | None, pronouns: Sequence[Pronoun], plain: bool
    ) -> Clause:
        """Somebody does something."""
        modal = ""
        if not tense:
            tense, modal = self.tense()
        if "once" in verb.options:
            tense, modal = ("past" if tense == "past" else "future"), ""
        if subject is None:
            doers = DOERS[verb]
            if doers and ("person" not in verb.subjects or self.chance(0.35)):
                subject = self.noun_phrase(self.pick_noun(doers))
            else:
                subject = self.person(pronouns)
        if verb.imperfect and modal:
            modal = ""
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
        if draw > 0.2 or "once" in clause.verb.options:
            return ""
        if draw > 0.06 or clause.modal or clause.tense == "going" or (clause.tense == "past" and clause.verb.imperfect):
            return "not"
        return "never" if clause.tense == "past" or draw < 0.03 else "no longer"

    def _object(self, clause: Clause) -> Object:
        verb, subject = clause.verb, clause.subject
        people = "person" in verb.objects[0].tags
        if "bare" not in verb.options and self.chance(0.16):
            if people:
                return self._other_than(subject, PERSON_OBJECTS)
            if self.free_pronouns:
                return PRONOUN["it"] if self.chance(0.6) else PRONOUN["they"]
        if people and verb.objects[-1].tags >= {"person"} and self.chance(0.1):
            return self.pick_name(subject)
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
        """A pronoun for somebody who is not the subject; `l'` before a vowel must not hide her from him."""
        person = subject.person
        chosen = self.pick(pronouns)
        while (chosen.person == person and person not in (IL, ILS)) or {chosen.person, person} == {0, 2}:
            chosen = self.pick(pronouns)
        if not self.free_pronouns and chosen.person in (IL, ILS):
            return PRONOUN["i"] if person not in (0, 2) else PRONOUN["you"]
        return chosen

    def pick_name(self, subject: Subject | None) -> Name:
        """A name other than the subject's."""
        from harken.data.phrasebook.sampler import NAMES_LIST

        name = self.pick(NAMES_LIST)
        while name is subject or (isinstance(subject, Both) and name in (subject.first, subject.second)):
            name = self.pick(NAMES_LIST)
        return name

    def _recipient(self, clause: Clause) -> NounPhrase | Pronoun | Name:
        if self.chance(0.4):
            return self._other_than(clause.subject, RECIPIENTS)
        if self.chance(0.25):
            return self.pick_name(clause.subject)
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
        elif "here" in options and self.chance(0.75 * richness):
            if self.chance(0.15):
                clause.whereabout = self.pick(WHEREABOUTS)
            elif self.chance(0.25) and _is_person(subject):
                clause.places = (self.companion(subject),)
            else:
                clause.places = (self.place(subject),)
        simple = not clause.modal and clause.tense != "going"
        clause.adverb = self._adverb(clause, simple, richness)
        habitual = clause.adverb is not None and clause.adverb.early
        if clause.negation in ("", "not") and not habitual and not verb.imperfect and self.chance(0.4 * richness):
            tense = "future" if clause.tense == "going" else clause.tense
            clause.time = self.pick(TIMES_OF[tense])
            if clause.modal:
                clause.time = self.pick(TIMES_OF["present"][:2])

    def _direction(self, verb: Verb) -> Place:
        if verb.name == "go" or (verb.name == "come" and self.chance(0.5)):
            return self.place_of(PREPOSITION["to"], AT)
        return self.place_of(PREPOSITION["from"], AT)

    def _adverb(self, clause: Clause, simple: bool, richness: float) -> Adverb | None:
        options = clause.verb.options
        draw = self.draw()
        if draw < 0.13 * (0.4 + richness) and simple and clause.negation in ("", "not") and "once" not in options:
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

    def state(self, tense: str, subject: Subject | None, pronouns: Sequence[Pronoun], plain: bool) -> Clause:
        """How or where or what somebody or something is."""
        tense = tense or ("present" if self.chance(0.6) else "past" if self.chance(0.6) else "future")
        if tense == "going":
            tense = "future"
        draw = self.draw()
        negation = "" if plain or self.chance(0.85) else "not"
        if subject is None and draw < 0.45:
            noun = self.pick_noun(THINGS)
            subject = self.noun_phrase(noun, adjective_rate=0.1)
        if subject is None:
            subject = self.person(pronouns)
        if draw < 0.6:
            return self._quality(Clause(subject, BE, tense, negation))
        if draw < 0.75:
            return Clause(subject, HAVE_STATE, tense, negation, feeling=self.pick(FEELING_WORDS))
        if draw < 0.83 and not isinstance(subject, Both | Trace):
            job = self._job(subject)
            if job is not None:
                return Clause(subject, BE, tense, negation, profession=job)
        clause = Clause(subject, BE, tense, negation)
        clause.places = (self.place(subject),)
        return clause

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
        adjective: Adjective | None = self.pick(PERSONAL)
        if noun is not None:
            adjective = self.adjective_for(noun, predicate=True)
        elif adjective is not None:
            self.modifiers.append(adjective)
        if adjective is None or (isinstance(subject, NounPhrase) and adjective in subject.adjectives):
            adjective = ADJECTIVE["beautiful"] if noun is not None else ADJECTIVE["tired"]
            if noun is not None:
                self.relate(adjective, noun)
        clause.adjective = adjective
        draw = self.draw()
        if draw < 0.15:
            clause.degree = self.pick(("very", "too", "quite") if not clause.negation else ("very", "too"))
        elif draw < 0.25 and clause.tense == "present" and adjective in STATES:
            clause.adverb = self.pick(FREQUENCIES[:2] if clause.negation else FREQUENCIES)
        elif draw < 0.45 and not adjective.predicate_only | (adjective.english in COLORS):
            clause.than = self._compared(subject, adjective)
        return clause

    def _compared(self, subject: Subject, adjective: Adjective) -> NounPhrase | Name | None:
        """Something else of the same kind."""
        if not isinstance(subject, NounPhrase):
            return self.pick_name(subject)
        kind = next(iter(sorted(subject.noun.tags & MAIN_KINDS)), "")
        nouns = tagged_once(kind)
        for _ in range(4):
            noun = self.pick(nouns) if nouns else subject.noun
            if noun not in self.nouns and not noun.mass and not subject.noun.mass:
                self.nouns.append(noun)
                return NounPhrase(noun, self._determiner(noun, "place", False, None))
        return None


COLORS = ("red", "blue", "green", "yellow", "black", "white", "grey", "brown", "pink", "purple")
MAIN_KINDS = {"person", "animal", "vehicle", "clothes", "furniture", "text", "instrument", "food"}
KIN_AND_PEOPLE = tagged("person")
_KINDS = {kind: tagged(kind) for kind in sorted(MAIN_KINDS)}


def tagged_once(kind: str) -> tuple[Noun, ...]:
    """The nouns of a main kind, from a table made once."""
    return _KINDS.get(kind, ())


def _is_person(subject: Subject) -> bool:
    return not isinstance(subject, NounPhrase) or "person" in subject.noun.tags


__all__ = ["COPULAS", "DIRECT", "EATERS", "EVENTS", "Composer"]
