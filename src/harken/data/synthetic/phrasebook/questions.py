"""Draws questions: who, what, which, how many, where, when, why."""

from __future__ import annotations

from harken.data.synthetic.phrasebook.nominals import Words
from harken.data.synthetic.phrasebook.scenes import ASKED, DIRECT, IN_SOME_PLACE, VISIBLE
from harken.data.synthetic.phrasebook.simple import Simple
from harken.data.synthetic.phrasebook.trees import IL, ILS, Clause, NounPhrase, Trace
from harken.data.synthetic.phrasebook.verbs import COPULAS


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
        phrase = self.noun_phrase(self.pick_noun(VISIBLE), "place")
        phrase.plural = self.chance(0.3)
        if phrase.determiner in ("this", "these"):
            phrase.determiner = "the"
        return self.words.where_is(phrase)

    def _about_circumstance(self, word: str) -> Words:
        """why, where, when: of a clause that does not say so itself."""
        mark = self.mark()
        for _ in range(6):
            self.back_to(mark)
            clause = self.clause(0.3, plain=True, pronouns=ASKED)
            self.make_definite(clause.subject)
            fits = clause.time is None and clause.adverb is None and clause.verb not in COPULAS
            if word != "why":
                fits = fits and not (clause.places or clause.whereabout or clause.verb.imperfect or clause.modal)
            if word == "where":
                fits = fits and ("here" in clause.verb.options or clause.verb in IN_SOME_PLACE)
            if fits:
                return self.words.adverbial(word, clause)
        return self.words.yes_no(clause)

    def _about_object(self) -> Words:
        """what, who, which, how many."""
        verb = self.pick(DIRECT)
        tense = self.pick(("present", "past") if verb.imperfect else ("present", "past", "future"))
        if "accident" in verb.options:
            tense = "past"
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

    def _who(self) -> Words:
        """A question about the subject, whose place is empty."""
        return self.words.who(self.clause(0.4, subject=Trace(IL, False, False), plain=self.chance(0.8)))
