"""Draws simple sentences: one clause, perhaps with a relative clause or a time in front, `there is`, and questions."""

from __future__ import annotations

from harken.data.synthetic.phrasebook import scenes
from harken.data.synthetic.phrasebook.composer import Composer
from harken.data.synthetic.phrasebook.lexicon import COPULAS
from harken.data.synthetic.phrasebook.links import Words
from harken.data.synthetic.phrasebook.sentences import Sentences
from harken.data.synthetic.phrasebook.trees import IL, ILS, Clause, Name, NounPhrase, Pronoun, Trace

CARRIERS = ("the", "a", "some", "many", "several", *scenes.NUMBER_WORDS)  # determiners that go with a relative clause


class Simple(Composer):
    """Draws sentences of one clause."""

    words: Sentences  # realises the sentence being drawn

    def simple(self) -> Words:
        """A statement."""
        clause = self.clause(0.9)
        if self.chance(0.4):
            self.attach_relative(clause)
        return self.with_time_first(clause)

    def with_time_first(self, clause: Clause) -> Words:
        """`yesterday, ...`: now and then the time opens the sentence."""
        if clause.time is None or not self.chance(0.25):
            return self.words.clause(clause)
        time, clause.time = clause.time, None
        return self.words.opened(self.words.time(time), self.words.clause(clause))

    def asked(self) -> Clause:
        """A clause that can become a yes-no question."""
        clause = self.clause(0.7, plain=True, pronouns=scenes.ASKED)
        self.make_definite(clause.subject)
        if clause.adverb is not None and clause.adverb.english in ("sometimes", "rarely", "already"):
            clause.adverb = None
        return clause

    def attach_relative(self, clause: Clause) -> bool:
        """Hang a relative clause on the subject or the object, if one of them can carry it."""
        if isinstance(clause.object, Pronoun) and clause.object.person in (IL, ILS):
            return False  # it and them would seem to point into the relative clause
        self.free_pronouns = False
        target = clause.object if self.chance(0.6) else clause.subject
        if not isinstance(target, NounPhrase) or target.owner is not None or target.determiner not in CARRIERS:
            return False
        if target is clause.object:
            if clause.negation or clause.places or isinstance(clause.recipient, NounPhrase | Name):
                return False
            clause.time, clause.whereabout = None, None
            if clause.adverb is not None and not clause.adverb.early:
                clause.adverb = None
        person = "person" in target.noun.tags
        trace = Trace(ILS if target.plural else IL, target.plural, target.feminine)
        if self.chance(0.7 if person else 0.5 if "animal" in target.noun.tags else 0.0):
            target.relative = self._subject_relative(target, trace)
        elif scenes.DONE_TO[target.noun]:
            target.relative = self._object_relative(target, trace)
        return target.relative is not None

    def _subject_relative(self, target: NounPhrase, trace: Trace) -> Clause | None:
        stand_in = NounPhrase(target.noun, "the", target.plural)
        mark = self.mark()
        for _ in range(3):
            relative = self.clause(0.25, subject=stand_in, pronouns=scenes.SPEAKERS, plain=self.chance(0.8))
            if relative.profession is None and relative.adjective is None and relative.time is None:
                relative.subject = trace
                return relative
            self.back_to(mark)
        return None

    def _object_relative(self, target: NounPhrase, trace: Trace) -> Clause:
        verb = self.pick(scenes.DONE_TO[target.noun])
        subject = self.pick(scenes.SPEAKERS) if self.chance(0.5) else self.person((), adjective_rate=0.1)
        tense = self.pick(("present", "past", "past", "future"))
        if verb.imperfect and tense == "future":
            tense = "present"
        clause = Clause(subject, verb, tense, object=trace)
        self.relate(verb, target.noun)
        self.avoid_ambiguous_past(clause)
        return clause

    def there(self) -> Words:
        """`there is a cat in the garden`."""
        phrase = self.noun_phrase(self.pick_noun(scenes.VISIBLE), "indefinite")
        negated = phrase.determiner in ("a", "some") and self.chance(0.2)
        tense = "past" if self.chance(0.3) else "present"
        return self.words.there_is(phrase, (self.place_for(phrase.noun),), tense, negated)


class Questions(Simple):
    """Draws questions that open with a question word."""

    def question(self) -> Words:
        """Any of them."""
        draw = self.draw()
        if draw < 0.25:
            return self._who()
        if draw < 0.4:
            return self._where_is()
        if draw < 0.7:
            return self._about_object()
        return self._about_circumstance(self.pick(("why", "where", "when")))

    def _where_is(self) -> Words:
        """`where are the keys?`"""
        phrase = self.noun_phrase(self.pick_noun(scenes.VISIBLE), "place")
        phrase.plural = self.chance(0.3)
        if phrase.determiner in ("this", "these"):
            phrase.determiner = "the"
        return self.words.where_is(phrase)

    def _about_circumstance(self, word: str) -> Words:
        """why, where, when: of a clause that does not say so itself."""
        mark = self.mark()
        for _ in range(6):
            self.back_to(mark)
            clause = self.clause(0.3, plain=True, pronouns=scenes.ASKED)
            self.make_definite(clause.subject)
            fits = clause.time is None and clause.adverb is None and clause.verb not in COPULAS
            if word != "why":
                fits = fits and not (clause.places or clause.whereabout or clause.verb.imperfect or clause.modal)
            if word == "where":
                fits = fits and ("here" in clause.verb.options or clause.verb in scenes.IN_SOME_PLACE)
            if fits:
                return self.words.adverbial(word, clause)
        return self.words.yes_no(clause)

    def _about_object(self) -> Words:
        """what, who, which, how many."""
        verb = self.pick(scenes.DIRECT)
        tense = self.pick(("present", "past") if verb.imperfect else ("present", "past", "future"))
        if "accident" in verb.options:
            tense = "past"
        subject = self.person(scenes.ASKED)
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

    def _who(self) -> Words:
        """A question about the subject, whose place is empty."""
        return self.words.who(self.clause(0.4, subject=Trace(IL, False, False), plain=self.chance(0.8)))
