"""Draws clauses: what somebody does, or how, where and what somebody or something is.

`richness` between 0 and 1 says how much is hung on a clause: adverbs, places and times.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.data.synthetic.phrasebook import lexicon, scenes
from harken.data.synthetic.phrasebook.french import starts_with_vowel
from harken.data.synthetic.phrasebook.lexicon import Adjective, Adverb, Noun, Verb, clashes
from harken.data.synthetic.phrasebook.nominals import INDEFINITE
from harken.data.synthetic.phrasebook.sampler import Sampler
from harken.data.synthetic.phrasebook.trees import (
    IL,
    ILS,
    JE,
    NOUS,
    PRONOUN,
    Both,
    Clause,
    Name,
    NounPhrase,
    Object,
    Place,
    Pronoun,
    Subject,
    Trace,
)

FEELING_WORDS = tuple(lexicon.FEELINGS)
BASIC = (lexicon.ADJECTIVE["beautiful"],)
WITH = (lexicon.PREPOSITION["with"], lexicon.PREPOSITION["with"], lexicon.PREPOSITION["without"])


def is_person(subject: Subject) -> bool:
    """Whether the subject thinks and feels."""
    return not isinstance(subject, NounPhrase) or "person" in subject.noun.tags


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
            subject = self.noun_phrase(self.pick_noun(scenes.THINGS), adjective_rate=0.15)
            self.make_definite(subject)
        elif subject is None:
            subject = self.person(pronouns)
            self.make_definite(subject)
        if draw < 0.6:
            return self._quality(Clause(subject, lexicon.BE, tense, negation))
        if draw < 0.75:
            return Clause(subject, lexicon.HAVE_STATE, tense, negation, feeling=self.pick(FEELING_WORDS))
        if draw < 0.83 and not isinstance(subject, Both | Trace) and tense != "future" and not human:
            job = self._job(subject)
            if job is not None:
                return Clause(subject, lexicon.BE, tense, negation, profession=job)
        place = self.place_for(subject.noun) if isinstance(subject, NounPhrase) else self.place(subject)
        return Clause(subject, lexicon.BE, tense, negation, places=(place,))

    def make_definite(self, subject: Subject) -> None:
        """`is a prince here?` is no good English: give the subject a definite article."""
        if isinstance(subject, NounPhrase) and subject.determiner in ("a", "some", "many", "several", "every"):
            subject.determiner = "the"

    def _job(self, subject: Subject) -> Noun | None:
        """A profession whose French gender is that of the subject."""
        if isinstance(subject, NounPhrase) and "kin" not in subject.noun.tags:
            return None
        for _ in range(8):
            job = self.pick(scenes.JOBS)
            if job.feminine == subject.feminine:
                return job
        return None

    def _quality(self, clause: Clause) -> Clause:
        """Fill in an adjective, and sometimes a degree, a frequency or a comparison."""
        adjective = clause.adjective = self._predicate_for(clause)
        draw = self.draw()
        if draw < 0.15 and adjective.english not in lexicon.ABSOLUTE:
            clause.degree = self.pick(("very", "too", "quite") if not clause.negation else ("very", "too"))
        elif draw < 0.25 and clause.tense == "present" and adjective in lexicon.STATES:
            clause.adverb = self.pick(lexicon.FREQUENCIES[:2] if clause.negation else lexicon.FREQUENCIES)
        elif 0.25 < draw < 0.6 and adjective.english not in lexicon.UNCOMPARED and clause.tense == "present":
            clause.than = self._compared(clause.subject)
        return clause

    def _predicate_for(self, clause: Clause) -> Adjective:
        """An adjective for the subject; what will be is a passing state."""
        subject = clause.subject
        if not isinstance(subject, NounPhrase):
            adjective = self.pick(lexicon.STATES if clause.tense == "future" else lexicon.PERSONAL)
            self.modifiers.append(adjective)
            return adjective
        mark = self.mark()
        chosen = self.adjective_for(subject.noun, predicate=True) if clause.tense != "future" else None
        if chosen is not None and not clashes(chosen, subject.adjectives):
            return chosen
        self.back_to(mark)
        person = "person" in subject.noun.tags
        fitting = tuple(
            a for a in lexicon.SUITING[subject.noun] if not a.attribute_only and not clashes(a, subject.adjectives)
        )
        adjective = self.pick(lexicon.STATES if person and clause.tense == "future" else fitting or BASIC)
        self.relate(adjective, subject.noun)
        return adjective

    def _compared(self, subject: Subject) -> NounPhrase | Name | None:
        """Something else of the same kind."""
        if not isinstance(subject, NounPhrase):
            return self.name()
        kind = next((kind for kind in scenes.COMPARED if kind in subject.noun.tags), "")
        for _ in range(4 if kind and not subject.noun.mass else 0):
            noun = self.pick(scenes.COMPARED[kind])
            if noun not in self.nouns and not noun.mass:
                self.nouns.append(noun)
                return NounPhrase(noun, self.determiner(noun, "place", False, None))
        return None

    def weather(self, tense: str, kinds: Sequence[str] = ("hot", "cold", "rain", "snow")) -> Clause:
        """`it rains`, `it is cold`."""
        kind = self.pick(kinds)
        if kind in ("rain", "snow"):
            return Clause(PRONOUN["it"], lexicon.RAIN if kind == "rain" else lexicon.SNOW, tense)
        degree = "very" if self.chance(0.2) else ""
        return Clause(PRONOUN["it"], lexicon.WEATHER_STATE, tense, feeling=kind, degree=degree)

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
        if scenes.WEATHER_OF[first.verb] and draw < 0.5 and not first.negation:
            return self.weather(tense, scenes.WEATHER_OF[first.verb])
        subject = self.again(first.subject)
        if first.verb in scenes.FEELING_OF and draw < 0.8 and not first.negation:
            return Clause(subject, lexicon.HAVE_STATE, tense, feeling=scenes.FEELING_OF[first.verb])
        adjective = self.pick(lexicon.REASONS_AGAINST if first.negation else lexicon.REASONS)
        self.modifiers.append(adjective)
        degree = "too" if first.negation else "very" if draw < 0.2 else ""
        return Clause(subject, lexicon.BE, tense, degree=degree, adjective=adjective)


class Composer(States):
    """Draws clauses."""

    def tense(self) -> tuple[str, str]:
        """A tense and a modal verb."""
        draw = self.draw()
        for bound, tense in ((0.4, "present"), (0.68, "past"), (0.84, "future"), (0.91, "going")):
            if draw < bound:
                return tense, ""
        return "present", self.pick(("can", "must", "want"))

    def clause(
        self,
        richness: float = 0.5,
        tense: str = "",
        subject: Subject | None = None,
        pronouns: Sequence[Pronoun] = scenes.SUBJECT_PRONOUNS,
        plain: bool = False,
        human: bool = False,
    ) -> Clause:
        """Any clause; `plain` keeps negation away, `human` keeps to what people do and how they feel."""
        draw = self.draw()
        if subject is not None and not is_person(subject):
            return self.action(self.pick(scenes.ANIMAL_DOINGS), richness, tense, subject, pronouns, plain)
        for bound, verbs in ((0.22, scenes.INTRANSITIVE), (0.66, scenes.TRANSITIVE), (0.75, scenes.DITRANSITIVE)):
            if draw < bound:
                return self.action(self.pick(verbs), richness, tense, subject, pronouns, plain)
        return self.state(tense, subject, pronouns, plain, human)

    def action(
        self, verb: Verb, richness: float, tense: str, subject: Subject | None, pronouns: Sequence[Pronoun], plain: bool
    ) -> Clause:
        """Somebody does something."""
        modal = ""
        if not tense:
            tense, modal = self.tense()
        if subject is None:
            doers = scenes.OTHER_DOERS[verb]
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
                chosen = self._other_than(subject, scenes.SUBJECT_PRONOUNS)
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
        if phrase.adjectives and phrase.adjectives[-1].english == scenes.POINTLESS.get(verb.name):
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
            return self._other_than(clause.subject, scenes.RECIPIENTS)
        if self.chance(0.25):
            return self.name()
        noun = self.pick_noun(scenes.ANYBODY)
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
            clause.places = (self.place_of(lexicon.PREPOSITION["in"], scenes.HOMES),)
        elif "shop" in options and self.chance(0.25 * richness):
            clause.places = (self.place_of(lexicon.PREPOSITION["at"], scenes.SHOPS),)
        elif "for" in options and clause.object is not None and self.chance(0.3 * richness):
            clause.places = (self.companion(lexicon.PREPOSITION["for"], subject),)
        elif "company" in options and self.chance(richness):
            clause.places = (self.companion(self.pick(WITH), subject),)
        elif "everywhere" in options:
            clause.whereabout = lexicon.EVERYWHERE if self.chance(0.15) else None
        elif "here" in options and not is_person(subject):
            if isinstance(subject, NounPhrase) and self.chance(0.75 * richness):
                clause.places = (self.place_for(subject.noun),)
        elif "here" in options and self.chance(0.75 * richness):
            if self.chance(0.15):
                clause.whereabout = self.pick(lexicon.WHEREABOUTS)
            elif self.chance(0.25):
                clause.places = (self.companion(self.pick(WITH), subject),)
            else:
                clause.places = (self.place(subject),)
        simple = not clause.modal and clause.tense != "going"
        clause.adverb = self._adverb(clause, simple, richness)
        habitual = clause.adverb is not None and clause.adverb.early
        if clause.negation in ("", "not") and not habitual and not verb.imperfect and self.chance(0.4 * richness):
            tense = "future" if clause.tense == "going" else clause.tense
            clause.time = self.pick(lexicon.TIMES_OF[tense])
            if clause.modal or (clause.negation and tense == "present"):
                clause.time = self.pick(lexicon.TIMES_OF["present"][:2])

    def _direction(self, verb: Verb) -> Place:
        if verb.name == "go" or (verb.name == "come" and self.chance(0.5)):
            return self.place_of(lexicon.PREPOSITION["to"], scenes.AT)
        return self.place_of(lexicon.PREPOSITION["from"], scenes.AT)

    def _adverb(self, clause: Clause, simple: bool, richness: float) -> Adverb | None:
        options = clause.verb.options
        draw = self.draw()
        if draw < 0.13 * (0.4 + richness) and simple and clause.negation in ("", "not") and not clause.verb.imperfect:
            indefinite = isinstance(clause.object, NounPhrase) and clause.object.determiner in INDEFINITE
            if clause.negation and indefinite:
                return None  # nobody says `he does not always eat any apples`
            if clause.negation or clause.tense == "future":
                return self.pick(lexicon.FREQUENCIES[:2])
            if clause.tense == "past":
                return self.pick((*lexicon.FREQUENCIES, lexicon.ALREADY))
            return self.pick(lexicon.FREQUENCIES)
        if draw > 0.75 and clause.negation in ("", "not"):
            for kind in ("well", "careful", "manner"):
                if kind in options and (simple or kind != "well"):
                    return self.pick(lexicon.MANNERS_OF[kind])
            if draw > 0.95 and not clause.verb.objects and "here" in options and clause.subject.plural:
                return lexicon.TOGETHER
        return None
