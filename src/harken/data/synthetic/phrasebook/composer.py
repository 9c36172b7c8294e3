"""Draws clauses: a verb, somebody who can do it, something it can be done to, and when, where and how.

`richness` between 0 and 1 says how much is hung on a clause: adverbs, places and times.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.data.synthetic.phrasebook.french import starts_with_vowel
from harken.data.synthetic.phrasebook.modifiers import (
    ALREADY,
    EVERYWHERE,
    FREQUENCIES,
    MANNERS_OF,
    PREPOSITION,
    TIMES_OF,
    TOGETHER,
    WHEREABOUTS,
    Adverb,
)
from harken.data.synthetic.phrasebook.nominals import INDEFINITE
from harken.data.synthetic.phrasebook.scenes import (
    ANIMAL_DOINGS,
    ANYBODY,
    AT,
    DITRANSITIVE,
    HOMES,
    INTRANSITIVE,
    OTHER_DOERS,
    RECIPIENTS,
    SHOPS,
    SUBJECT_PRONOUNS,
    TRANSITIVE,
)
from harken.data.synthetic.phrasebook.states import States
from harken.data.synthetic.phrasebook.trees import (
    IL,
    ILS,
    JE,
    NOUS,
    PRONOUN,
    Clause,
    Name,
    NounPhrase,
    Object,
    Place,
    Pronoun,
    Subject,
)
from harken.data.synthetic.phrasebook.verbs import Verb

POINTLESS = {"fill": "full", "empty": "empty", "wash": "clean", "clean": "clean", "break": "broken", "pick": "hot"}
WITH = (PREPOSITION["with"], PREPOSITION["with"], PREPOSITION["without"])


def is_person(subject: Subject) -> bool:
    """Whether the subject thinks and feels."""
    return not isinstance(subject, NounPhrase) or "person" in subject.noun.tags


class Composer(States):
    """Draws clauses."""

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
        if subject is not None and not is_person(subject):
            return self.action(self.pick(ANIMAL_DOINGS), richness, tense, subject, pronouns, plain)
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
            doers = OTHER_DOERS[verb]
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
        self.avoid_ambiguous_past(clause)
        self._hang(clause, richness)
        return clause

    def _negation(self, clause: Clause) -> str:
        draw = self.draw()
        subject = clause.subject
        if draw > 0.2 or (isinstance(subject, NounPhrase) and subject.determiner == "every"):
            return ""
        if draw > 0.06 or clause.modal or clause.tense == "going" or (clause.tense == "past" and clause.verb.imperfect):
            return "not"
        seldom = not clause.verb.imperfect and draw < 0.03
        return "never" if clause.tense == "past" or seldom else "no longer"

    def _object(self, clause: Clause) -> Object:
        """A pronoun, a name or a noun phrase; where French has l' or lui for both him and her, it is him."""
        verb, subject = clause.verb, clause.subject
        people = "person" in verb.objects[0].tags
        if "bare" not in verb.options and self.chance(0.16):
            if people:
                chosen = self._other_than(subject, SUBJECT_PRONOUNS)
                hidden = starts_with_vowel(verb.french.infinitive) and (clause.tense != "past" or verb.imperfect)
                return PRONOUN["he"] if chosen.english == "she" and (hidden or verb.indirect) else chosen
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
        mark = self.mark()
        phrase = self.noun_phrase(noun, role, subject)
        if phrase.adjectives and phrase.adjectives[-1].english == POINTLESS.get(verb.name):
            self.back_to(mark)
            return self.noun_phrase(noun, role, subject, adjective_rate=0)
        return phrase

    def _other_than(self, subject: Subject, pronouns: Sequence[Pronoun]) -> Pronoun:
        """A pronoun for somebody who is not the subject."""
        person = subject.person
        chosen = self.pick(pronouns)
        while (chosen.person == person and person not in (IL, ILS)) or {chosen.person, person} == {JE, NOUS}:
            chosen = self.pick(pronouns)
        if not self.free_pronouns and chosen.person in (IL, ILS):
            return PRONOUN["i"] if person not in (JE, NOUS) else PRONOUN["you"]
        return chosen

    def _recipient(self, clause: Clause) -> NounPhrase | Pronoun | Name:
        if self.chance(0.4):
            return self._other_than(clause.subject, RECIPIENTS)
        if self.chance(0.25):
            return self.name()
        noun = self.pick_noun(ANYBODY)
        return self.noun_phrase(noun, "place", clause.subject)

    def avoid_ambiguous_past(self, clause: Clause) -> None:
        """`they read` and `they cut` must not be past as well as present: only he reads, he read tell them apart."""
        verb = clause.verb
        same = verb.english == verb.english_past and clause.subject.person != IL
        if same and clause.tense == "past" and clause.negation != "not":
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
        elif "for" in options and clause.object is not None and self.chance(0.3 * richness):
            clause.places = (self.companion(PREPOSITION["for"], subject),)
        elif "company" in options and self.chance(richness):
            clause.places = (self.companion(self.pick(WITH), subject),)
        elif "everywhere" in options:
            clause.whereabout = EVERYWHERE if self.chance(0.15) else None
        elif "here" in options and not is_person(subject):
            if isinstance(subject, NounPhrase) and self.chance(0.75 * richness):
                clause.places = (self.place_for(subject.noun),)
        elif "here" in options and self.chance(0.75 * richness):
            if self.chance(0.15):
                clause.whereabout = self.pick(WHEREABOUTS)
            elif self.chance(0.25):
                clause.places = (self.companion(self.pick(WITH), subject),)
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
        if draw < 0.13 * (0.4 + richness) and simple and clause.negation in ("", "not") and not clause.verb.imperfect:
            indefinite = isinstance(clause.object, NounPhrase) and clause.object.determiner in INDEFINITE
            if clause.negation and indefinite:
                return None  # nobody says `he does not always eat any apples`
            if clause.negation or clause.tense == "future":
                return self.pick(FREQUENCIES[:2])
            if clause.tense == "past":
                return self.pick((*FREQUENCIES, ALREADY))
            return self.pick(FREQUENCIES)
        if draw > 0.75 and clause.negation in ("", "not"):
            for kind in ("well", "careful", "manner"):
                if kind in options and (simple or kind != "well"):
                    return self.pick(MANNERS_OF[kind])
            if draw > 0.95 and not clause.verb.objects and "here" in options and clause.subject.plural:
                return TOGETHER
        return None
