"""Draws whole sentences: statements, questions, conjunctions, relative clauses, reported speech.

>>> from random import Random
>>> drawn = Grammar(Random("phrasebook")).sentence()
>>> drawn.pair.alignment is not None
True
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from harken.data.pairs import Pair
from harken.data.phrasebook.combinations import any_together
from harken.data.phrasebook.composer import DIRECT, EATERS, EVENTS, ONGOING, Composer
from harken.data.phrasebook.links import make_pair
from harken.data.phrasebook.modifiers import REASONS
from harken.data.phrasebook.nominals import Words
from harken.data.phrasebook.nouns import NOUNS, tagged
from harken.data.phrasebook.sampler import SUBJECT_PRONOUNS
from harken.data.phrasebook.sentences import Sentences
from harken.data.phrasebook.trees import IL, ILS, PRONOUN, Clause, Name, NounPhrase, Pronoun, Subject, Trace
from harken.data.phrasebook.verbs import BE, COPULAS, HAVE_STATE, RAIN, REPORTS, SNOW, VERBS, WEATHER_STATE, Verb

SPEAKERS = tuple(PRONOUN[word] for word in ("i", "you", "we"))
ASKED = tuple(PRONOUN[word] for word in ("you", "he", "she", "they"))
VISIBLE = tuple(noun for noun in tagged("animal", "object", "vehicle", "person", "furniture") if "kin" not in noun.tags)
DEEDS = tuple(verb for verb in VERBS if "person" in verb.subjects and not verb.imperfect)
CARRIERS = ("the", "a", "some", "many", "several", "two", "three", "four", "five", "six", "ten")
COUNTABLE = tuple(noun for noun in NOUNS if not noun.mass and "single" not in noun.tags and EATERS[noun])


GETTING = tuple(
    verb for verb in DIRECT if verb.name in ("buy", "find", "choose", "borrow", "take", "receive", "prepare", "pick")
)
USING = (
    "eat", "read", "wear", "put on", "hide", "keep", "sell", "wash", "clean", "repair", "use", "open", "close", "share",
    "taste", "cut", "lose", "break", "copy", "translate", "study", "look at", "paint", "fill", "empty", "photograph",
    "forget", "drive", "plant", "feed",
)
SHELTER = (
    "stay", "rest", "run", "hurry", "close", "open", "put on", "wear", "take off", "take", "drink", "go", "come back",
    "go out", "sleep", "swim", "wait",
)
FEELING_OF = {
    "eat": "hungry", "cook": "hungry", "prepare": "hungry", "share": "hungry", "drink": "thirsty", "sleep": "sleepy",
    "rest": "sleepy", "go to bed": "sleepy", "run": "afraid", "hide": "afraid", "shout": "afraid", "cry": "afraid",
    "close": "cold", "put on": "cold", "wear": "cold", "take off": "hot", "swim": "hot", "open": "hot", "lie": "afraid",
}  # fmt: skip
SOMEWHERE = ("buy", "sell", "find", "hide", "lose", "see", "meet", "keep", "wait for", "plant", "pick", "open", "put on")


class Drawn(NamedTuple):
    """A sentence pair and what the splits must know of it."""

    words: Words
    together: bool  # two words of a held-out combination stand in it
    novel: bool  # ... in their grammatical relation

    @property
    def pair(self) -> Pair:
        """Both sentences and their links."""
        return make_pair(*self.words)


class Grammar(Composer):
    """Draws sentences from a seeded random generator."""

    def __init__(self, random: Random, novel: bool = False) -> None:
        super().__init__(random, novel)
        self.words = Sentences()

    def sentence(self, long: bool = False) -> Drawn:
        """One sentence; `long` ones are chains of clauses for test-long."""
        self.begin()
        self.words = Sentences()
        self.free_pronouns = True
        words = self._long() if long else self._any()
        together = self.is_novel or any_together(self.modifiers, self.nouns)
        return Drawn(words, together, self.is_novel)

    def _any(self) -> Words:
        draw = self.draw()
        if draw < 0.31:
            return self._simple()
        if draw < 0.4:
            return self.words.yes_no(self._asked())
        if draw < 0.48:
            return self._wh()
        if draw < 0.51:
            return self._there()
        self.free_pronouns = False
        if draw < 0.63:
            return self._anaphora() if self.chance(0.35) else self._coordinated()
        if draw < 0.8:
            return self._subordinated()
        if draw < 0.89:
            clause = self.clause(0.4, pronouns=SPEAKERS)
            return self._report(self.words.clause(clause), REPORTS if clause.tense == "future" else REPORTS[:-1])
        return self._chain()

    def _simple(self) -> Words:
        clause = self.clause(0.9)
        if self.chance(0.4):
            self.attach_relative(clause)
        return self._with_time_first(clause)

    def _with_time_first(self, clause: Clause) -> Words:
        """`yesterday, ...`: now and then the time opens the sentence."""
        if clause.time is None or not self.chance(0.25):
            return self.words.clause(clause)
        time, clause.time = clause.time, None
        return self.words.opened(self.words.time(time), self.words.clause(clause))

    def _asked(self) -> Clause:
        clause = self.clause(0.7, plain=True, pronouns=ASKED)
        self.make_definite(clause.subject)
        if clause.adverb is not None and clause.adverb.english in ("sometimes", "rarely", "already"):
            clause.adverb = None
        return clause

    def attach_relative(self, clause: Clause) -> bool:
        """Hang a relative clause on the subject or the object, if one of them can carry it."""
        self.free_pronouns = False
        target = clause.object if self.chance(0.6) else clause.subject
        if not isinstance(target, NounPhrase) or target.owner is not None or target.determiner not in CARRIERS:
            return False
        if target is clause.object:
            if clause.negation or isinstance(clause.recipient, NounPhrase | Name):
                return False
            clause.time, clause.places, clause.whereabout = None, (), None
        person = "person" in target.noun.tags
        trace = Trace(ILS if target.plural else IL, target.plural, target.feminine)
        if person and self.chance(0.7) or "animal" in target.noun.tags and self.chance(0.5):
            target.relative = self._subject_relative(target, trace)
        elif EATERS[target.noun]:
            target.relative = self._object_relative(target, trace)
        return target.relative is not None

    def _subject_relative(self, target: NounPhrase, trace: Trace) -> Clause | None:
        stand_in = NounPhrase(target.noun, "the", target.plural)
        for _ in range(3):
            relative = self.clause(0.25, subject=stand_in, pronouns=SPEAKERS, plain=self.chance(0.8))
            if relative.profession is None and relative.adjective is None and relative.time is None:
                relative.subject = trace
                return relative
        return None

    def _object_relative(self, target: NounPhrase, trace: Trace) -> Clause:
        verb = self.pick(EATERS[target.noun])
        subject = self.pick(SPEAKERS) if self.chance(0.5) else self.person((), adjective_rate=0.1)
        tense = self.pick(("present", "past", "past", "future"))
        if verb.imperfect and tense == "future":
            tense = "present"
        clause = Clause(subject, verb, tense, object=trace)
        self.relate(verb, target.noun)
        self._avoid_ambiguous_past(clause)
        return clause

    def _wh(self) -> Words:
        draw = self.draw()
        if draw < 0.25:
            subject = Trace(IL, False, False)
            for _ in range(4):
                clause = self.clause(0.4, subject=NounPhrase(PERSON_NOUN), plain=self.chance(0.8))
                if clause.profession is None:
                    break
            clause.subject = subject
            clause.profession = None
            if clause.verb is BE and clause.adjective is None and not clause.places:
                clause.places = (self.place(),)
            return self.words.who(clause)
        if draw < 0.4:
            noun = self.pick_noun(VISIBLE)
            phrase = self.noun_phrase(noun, "place")
            phrase.plural = self.chance(0.3)
            if phrase.determiner in ("this", "these"):
                phrase.determiner = "the"
            return self.words.where_is(phrase)
        if draw < 0.7:
            return self._object_question()
        word = self.pick(("why", "where", "when"))
        for _ in range(6):
            clause = self.clause(0.3, plain=True, pronouns=ASKED)
            self.make_definite(clause.subject)
            fits = clause.time is None and clause.adverb is None and clause.verb not in COPULAS
            if word != "why":
                fits = fits and not (clause.places or clause.whereabout or clause.verb.imperfect or clause.modal)
            if word == "where":
                fits = fits and ("here" in clause.verb.options or clause.verb.name in SOMEWHERE)
            if fits:
                return self.words.adverbial(word, clause)
        return self.words.yes_no(clause)

    def _object_question(self) -> Words:
        """what, who, which, how many."""
        verb = self.pick(DIRECT)
        tense = self.pick(("present", "past") if verb.imperfect else ("present", "past", "future"))
        subject = self.person(ASKED)
        self.make_definite(subject)
        self.modifiers.append(verb)
        draw = self.draw()
        person = "person" in verb.objects[0].tags
        if draw < 0.35 and not verb.imperfect:
            clause = Clause(subject, verb, tense, object=Trace(IL, False, False))
            return self.words.what(clause, "who" if person else "what")
        noun = self.pick_object(verb, verb.objects)
        if noun.mass or "single" in noun.tags:
            clause = Clause(subject, verb, tense, object=NounPhrase(noun, "this" if noun.mass else "my"))
            return self.words.yes_no(clause)
        if draw < 0.7 or (verb.imperfect and verb.name not in ("have", "know")):
            plural = self.chance(0.35)
            return self.words.which(noun, plural, Clause(subject, verb, tense, object=Trace(IL, plural, noun.feminine)))
        return self.words.how_many(noun, Clause(subject, verb, tense, object=Trace(ILS, True, noun.feminine)))

    def _there(self) -> Words:
        phrase = self.noun_phrase(self.pick_noun(VISIBLE), "indefinite")
        negated = phrase.determiner in ("a", "some") and self.chance(0.2)
        tense = "past" if self.chance(0.3) else "present"
        return self.words.there_is(phrase, (self.place_for(phrase.noun),), tense, negated)

    def _again(self, subject: Subject) -> Subject:
        """The same person once more: as a pronoun where it was none."""
        if isinstance(subject, Pronoun):
            return subject
        if subject.person == ILS:
            return PRONOUN["they (feminine)" if subject.feminine else "they"]
        return PRONOUN["she" if subject.feminine else "he"]

    def _second(self, first: Clause, richness: float, tense: str) -> Clause:
        """A second clause: about the same person, or somebody else."""
        human = not isinstance(first.subject, NounPhrase) or "person" in first.subject.noun.tags
        if human and self.chance(0.65):
            return self.clause(richness, tense, self._again(first.subject), human=True)
        return self.deed(richness, tense)

    def _coordinated(self) -> Words:
        first = self.deed(0.5, "") if self.chance(0.75) else self.clause(0.4, human=True)
        tense = first.tense if not first.modal else "present"
        second = self._second(first, 0.3, tense)
        word = "but" if self.chance(0.4) else "and"
        return self.words.joined(self._with_time_first(first), word, self.words.clause(second), comma=word == "but")

    def _anaphora(self) -> Words:
        """`the boy buys the apples and he eats them`: the pronoun takes the gender of the object."""
        tense = self.pick(("present", "past", "past", "future"))
        for _ in range(6):
            first = self.action(self.pick(GETTING), 0.2, tense, None, SUBJECT_PRONOUNS, True)
            item = first.object
            if isinstance(item, NounPhrase) and not first.verb.french_preposition and not item.noun.mass:
                person = "person" in item.noun.tags
                verbs = tuple(v for v in EATERS[item.noun] if v.name in USING)
                if verbs and item.determiner not in ("", "every") and not person and first.tense == tense:
                    verb = self.pick(verbs)
                    suffix = " (feminine)" if item.feminine else ""
                    pronoun = PRONOUN[("they" if item.plural else "it") + suffix]
                    self.relate(verb, item.noun)
                    second = Clause(self._again(first.subject), verb, tense, object=pronoun)
                    self._avoid_ambiguous_past(second)
                    return self.words.joined(self.words.clause(first), "and", self.words.clause(second))
        return self._coordinated()

    def weather(self, tense: str) -> Clause:
        """`it rains`, `it is cold`."""
        it = PRONOUN["it"]
        draw = self.draw()
        if draw < 0.5:
            return Clause(it, WEATHER_STATE, tense, feeling="cold" if draw < 0.25 else "hot", degree="very" if draw < 0.1 else "")
        return Clause(it, RAIN if draw < 0.8 else SNOW, tense)

    def reason(self, first: Clause, tense: str) -> Clause:
        """A state that explains something."""
        draw = self.draw()
        if first.verb.name in SHELTER and draw < 0.5:
            return self.weather(tense)
        subject = self._again(first.subject)
        feeling = FEELING_OF.get(first.verb.name, "")
        if feeling and draw < 0.8 and not first.negation:
            return Clause(subject, HAVE_STATE, tense, feeling=feeling)
        adjective = self.pick(REASONS[:3] if first.negation else REASONS)
        self.modifiers.append(adjective)
        return Clause(subject, BE, tense, degree="too" if first.negation else "very" if draw < 0.2 else "", adjective=adjective)

    def event(self, tense: str) -> Clause:
        """Something short that can set a time."""
        if self.chance(0.3):
            return self.weather(tense)
        clause = self.action(self.pick(EVENTS), 0, tense, None, SPEAKERS, True)
        clause.adverb = None
        self.make_definite(clause.subject)
        return clause

    def _subordinated(self, richness: float = 0.3) -> Words:
        draw = self.draw()
        if draw < 0.4:
            first = self.deed(richness, "")
            second = self.reason(first, "past" if first.tense == "past" else "present")
            return self.words.joined(self._with_time_first(first), "because", self.words.clause(second))
        if draw < 0.5:
            second = self.deed(richness, self.pick(("present", "past")))
            subject, second.subject = second.subject, self._again(second.subject)
            first = self.reason(second, second.tense)
            if first.verb not in (RAIN, SNOW, WEATHER_STATE):
                first.subject = subject
            else:
                second.subject = subject
            return self.words.joined(self.words.clause(first), "so", self.words.clause(second), comma=True)
        if draw < 0.65:
            return self._timed("when", richness)
        if draw < 0.73:
            return self._timed("as soon as", richness)
        if draw < 0.88:
            condition = self.event("present") if self.chance(0.7) else self.reason(self.deed(0, "present"), "present")
            result = self.deed(richness, self.pick(("future", "future", "present")))
            return self._either_order("if", condition, result)
        first = self.action(self.pick(ONGOING), richness, "present", None, SUBJECT_PRONOUNS, True)
        first.time = None
        second = self.action(self.pick(ONGOING), 0.2, "present", None, SPEAKERS, True)
        second.time = None
        return self.words.joined(self.words.clause(first), "while", self.words.clause(second))

    def _timed(self, word: str, richness: float) -> Words:
        """`when he comes` with a future is quand il viendra."""
        tense = "future" if word == "as soon as" else self.pick(("present", "future"))
        event = self.event(tense)
        event.time = None
        if tense == "future":
            event.english_tense = "present"
        return self._either_order(word, event, self.deed(richness, tense))

    def deed(self, richness: float, tense: str) -> Clause:
        """What somebody does, perhaps does not do, on an occasion."""
        verb = self.pick(DEEDS)
        clause = self.action(verb, richness, tense, self.person(SPEAKERS), SPEAKERS, self.chance(0.8))
        if clause.negation:
            clause.negation = "not"
        return clause

    def _either_order(self, word: str, event: Clause, main: Clause) -> Words:
        if self.chance(0.5):
            return self.words.fronted(word, self.words.clause(event), self.words.clause(main))
        main.time = None
        return self.words.joined(self.words.clause(main), word, self.words.clause(event))

    def _report(self, reported: Words, verbs: Sequence[Verb] = REPORTS[:-1]) -> Words:
        """`i think that ...`; one hopes only for what is still to come."""
        verb = self.pick(verbs)
        subject = self.person(adjective_rate=0.1)
        return self.words.report(Clause(subject, verb), reported)

    def _chain(self) -> Words:
        """Two or three clauses, some with relative clauses."""
        self.free_pronouns = False
        words = self._rich_clause()
        if self.chance(0.5):
            return self.words.joined(words, "and", self._subordinated(0.3))
        return self._report(self.words.joined(words, self.pick(("and", "but")), self._rich_clause(), comma=False))

    def _rich_clause(self) -> Words:
        clause = self.clause(0.7, pronouns=SPEAKERS, human=True)
        if self.chance(0.6):
            self.attach_relative(clause)
        return self.words.clause(clause)

    def _long(self) -> Words:
        """Four to six clauses."""
        self.free_pronouns = False
        words = self._rich_clause()
        if self.chance(0.4):
            words = self._report(words)
        while len(words[0]) < 26 + 8 * self.draw():
            if self.chance(0.5):
                words = self.words.joined(words, "and", self._subordinated(0.5))
            else:
                words = self.words.joined(words, self.pick(("and", "but")), self._rich_clause(), comma=True)
        return words


PERSON_NOUN = next(noun for noun in NOUNS if noun.english == "man")
