"""Clauses in both languages: tenses, negation, object pronouns, agreement of participles, relative clauses, questions.

English    subject  does not   often  give  the book to him     (auxiliaries, do-support)
French     subject  ne le lui  donne  pas souvent               (clitics before the verb, ne ... pas around it)

>>> from harken.data.synthetic.phrasebook.links import make_pair
>>> from harken.data.synthetic.phrasebook.trees import NOUN, PRONOUN, Clause, NounPhrase
>>> from harken.data.synthetic.phrasebook.verbs import VERB
>>> clause = Clause(PRONOUN["she"], VERB["see"], "past", "not", object=PRONOUN["they (feminine)"])
>>> make_pair(*Realiser().clause(clause)).target
'elle ne les a pas vues'
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.english import Word
from harken.data.synthetic.phrasebook.french import conjugate, participle_agrees
from harken.data.synthetic.phrasebook.links import CONTENT, FUNCTION, WEAK, Tokens
from harken.data.synthetic.phrasebook.modifiers import DEGREES, FEELINGS
from harken.data.synthetic.phrasebook.nominals import Nominals, Words
from harken.data.synthetic.phrasebook.trees import (
    IL,
    ILS,
    JE,
    NOUS,
    VOUS,
    Both,
    Clause,
    NounPhrase,
    Pronoun,
    Subject,
    Trace,
)
from harken.data.synthetic.phrasebook.verbs import COPULAS, GOING, MODALS, WANT, Verb

AVOIR, ETRE = conjugate("avoir"), conjugate("être")
BE_PRESENT = {JE: "am", IL: "is", NOUS: "are", VOUS: "are", ILS: "are"}
BE_PAST = {JE: "was", IL: "was", NOUS: "were", VOUS: "were", ILS: "were"}
REFLEXIVE = {JE: "me", IL: "se", NOUS: "nous", VOUS: "vous", ILS: "se"}
NEGATIONS = {"not": "pas", "never": "jamais", "no longer": "plus"}
FIRST_CLITICS = ("me", "nous", "vous", "se")
LAST_CLITICS = ("lui", "leur")
Key = tuple[int, ...]


class Realiser(Nominals):
    """Turns trees into tokens; make a fresh one for each sentence."""

    def noun_phrase(self, phrase: NounPhrase, negated: bool = False, generic: bool = False) -> Words:
        """A noun phrase with its relative clause, whose gap is a Trace."""
        english, french = super().noun_phrase(phrase, negated, generic)
        if phrase.relative is None:
            return english, french
        key = self.key()
        subject_gap = isinstance(phrase.relative.subject, Trace)
        person = "person" in phrase.noun.tags or "infant" in phrase.noun.tags
        more_english, more_french = self.clause(phrase.relative)
        english.append(("who" if subject_gap and person else "that", FUNCTION, key))
        french.append(("qui" if subject_gap else "que", FUNCTION, key))
        return english + more_english, french + more_french

    def subject(self, subject: Subject) -> Words:
        """The subject, silent where it is a gap."""
        if isinstance(subject, Trace):
            return [], []
        if isinstance(subject, Pronoun):
            key = self.key()
            return [(subject.english, FUNCTION, key)], [(subject.french, FUNCTION, key)]
        if isinstance(subject, Both):
            english, french = self.phrase(subject.first)
            more_english, more_french = self.phrase(subject.second)
            key = self.key()
            return [*english, ("and", FUNCTION, key), *more_english], [*french, ("et", FUNCTION, key), *more_french]
        return self.phrase(subject)

    def clause(self, clause: Clause, question: Key = ()) -> Words:
        """A statement; with a key for `question`, English is inverted and its auxiliary linked to est-ce que."""
        subject_english, subject_french = self.subject(clause.subject)
        verb_key, negation_key, modal_key = self.key(), self.key(), self.key()
        auxiliary, main = _english_verb(clause, verb_key, negation_key, modal_key, question)
        clitics_english, clitics_french, objects_english, objects_french = self._objects(clause, verb_key)
        middle_english: Tokens = []
        middle_french: Tokens = []
        late_english: Tokens = []
        late_french: Tokens = []
        if clause.adverb is not None:
            key = self.key()
            into = middle_english if clause.adverb.early else late_english
            into.append((clause.adverb.english, CONTENT, key))
            into = middle_french if clause.adverb.short else late_french
            into.append((clause.adverb.french, CONTENT, key))
        negation = _english_negation(clause.negation, negation_key)
        if clause.modal == "can" and clause.negation:
            negation = [("+not", FUNCTION, negation_key)]
        english = [*negation, *middle_english, *main, *clitics_english]
        if question:
            english = [*auxiliary, *subject_english, *english]
        else:
            english = [*subject_english, *auxiliary, *english]
        french = subject_french + self._french_verb(
            clause, clitics_french, middle_french, late_french, verb_key, negation_key, modal_key
        )
        english += objects_english
        french += objects_french
        more_english, more_french = self._surroundings(clause)
        return english + late_english + more_english, french + more_french

    def _objects(self, clause: Clause, verb_key: Key) -> tuple[Tokens, Tokens, Tokens, Tokens]:
        """Pronouns (English after the verb, French before it), then everything that follows the verb."""
        verb = clause.verb
        english: Tokens = []
        french: Tokens = []
        pronouns: Tokens = []  # English
        clitics: Tokens = []  # French
        particles: Tokens = [(particle, WEAK, verb_key) for particle in verb.particles]
        preposition: Tokens = [(verb.english_preposition, WEAK, verb_key)] if verb.english_preposition else []
        if verb.reflexive:
            clitics.append((REFLEXIVE[clause.subject.person], WEAK, verb_key))
        item = clause.object
        if isinstance(item, Pronoun):
            key = self.key()
            pronouns = [*preposition, (item.english_object, FUNCTION, key), *particles]
            clitics.append((item.indirect if verb.indirect else item.direct, FUNCTION, key))
        elif item is None or isinstance(item, Trace):
            english += particles + preposition
        else:
            negated = clause.negation != "" and not verb.french_preposition and "generic" not in verb.options
            object_english, object_french = self.phrase(item, negated, "generic" in verb.options)
            english += particles + preposition + object_english
            if verb.french_preposition:
                french.append((verb.french_preposition, WEAK, verb_key))
            french += object_french
        if clause.recipient is not None:
            key = self.key()
            if isinstance(clause.recipient, Pronoun):
                clitics.append((clause.recipient.indirect, FUNCTION, key))
                recipient: Tokens = [(clause.recipient.english_object, FUNCTION, key)]
                if isinstance(item, NounPhrase) and "late" not in verb.options:
                    return recipient, _in_order(clitics), english, french  # gives him the book
                recipient.insert(0, ("to", WEAK, key))
            else:
                recipient, recipient_french = self.phrase(clause.recipient)
                recipient.insert(0, ("to", FUNCTION, key))
                french += [("à", FUNCTION, key), *recipient_french]
            english += recipient
        return pronouns, _in_order(clitics), english, french

    def _french_verb(
        self,
        clause: Clause,
        clitics: Tokens,
        middle: Tokens,
        late: Tokens,
        verb_key: Key,
        negation_key: Key,
        modal_key: Key,
    ) -> Tokens:
        """ne, clitics, finite verb, pas, adverb, participle or infinitive."""
        verb, person = clause.verb, clause.subject.person
        forms = verb.french
        rest: Tokens = []
        if clause.modal or clause.tense == "going":
            helper = MODALS[clause.modal] if clause.modal else GOING
            finite = (helper.french.present[person], CONTENT, modal_key)
            rest = [*clitics, (forms.infinitive, CONTENT, verb_key)]
            clitics = []
        elif clause.tense == "past" and not verb.imperfect:
            helper_forms = ETRE if verb.takes_etre else AVOIR
            finite = (helper_forms.present[person], WEAK, verb_key)
            rest = [(_participle(clause), CONTENT, verb_key)]
        else:
            tense = {"present": forms.present, "past": forms.imperfect, "future": forms.future}[clause.tense]
            finite = (tense[person], CONTENT, verb_key)
        if not clause.negation:
            return [*clitics, finite, *middle, *rest, *late]
        negation = (NEGATIONS[clause.negation], FUNCTION, negation_key)
        return [("ne", WEAK, negation_key), *clitics, finite, negation, *middle, *rest, *late]

    def _surroundings(self, clause: Clause) -> Words:
        """What follows the object: the predicate of `to be`, places, times."""
        english: Tokens = []
        french: Tokens = []
        if clause.adjective is not None:
            english, french = self._predicate(clause)
        elif clause.feeling:
            key = self.key()
            if clause.degree:
                degree = self.key()
                english.append((clause.degree, FUNCTION, degree))
                french.append((DEGREES[clause.degree], FUNCTION, degree))
            english.append((clause.feeling, CONTENT, key))
            french.append((FEELINGS[clause.feeling], CONTENT, key))
        elif clause.profession is not None:  # she is a nurse: elle est infirmière
            key = self.key()
            plural = clause.subject.plural
            noun = clause.profession
            if not plural:
                english.append(("a", WEAK, key))
            english.append((noun.english_plural if plural else noun.english, CONTENT, key))
            french.append((noun.french_plural if plural else noun.french, CONTENT, key))
        for place in clause.places:
            more_english, more_french = self.place(place)
            english += more_english
            french += more_french
        if clause.whereabout is not None:
            key = self.key()
            english.append((clause.whereabout.english, CONTENT, key))
            french.append((clause.whereabout.french, CONTENT, key))
        if clause.time is not None:
            more_english, more_french = self.time(clause.time)
            english += more_english
            french += more_french
        return english, french

    def _predicate(self, clause: Clause) -> Words:
        """An adjective after `to be`, with its degree or comparison."""
        adjective = clause.adjective
        assert adjective is not None
        key = self.key()
        text = adjective.french.agree(clause.subject.feminine, clause.subject.plural)
        french: Tokens = [(text, CONTENT, key)]
        english: Tokens = [(adjective.english, CONTENT, key)]
        if clause.than is not None:
            than_key = self.key()
            if adjective.comparative:
                english = [(adjective.comparative, CONTENT, key)]
                french.insert(0, ("plus", WEAK, key))
            else:
                more_key = self.key()
                english.insert(0, ("more", FUNCTION, more_key))
                french.insert(0, ("plus", FUNCTION, more_key))
            more_english, more_french = self.phrase(clause.than)
            english += [("than", FUNCTION, than_key), *more_english]
            french += [("que", FUNCTION, than_key), *more_french]
        elif clause.degree:
            degree = self.key()
            english.insert(0, (clause.degree, FUNCTION, degree))
            french.insert(0, (DEGREES[clause.degree], FUNCTION, degree))
        return english, french


def _english_negation(negation: str, key: Key) -> Tokens:
    return [(word, FUNCTION, key) for word in negation.split()]


def _english_verb(clause: Clause, verb_key: Key, negation_key: Key, modal_key: Key, question: Key) -> Words:
    """The finite auxiliary (or none), and the words that follow subject and negation."""
    verb, person, tense = clause.verb, clause.subject.person, clause.english_tense or clause.tense
    base: Tokens = [(verb.english, CONTENT, verb_key)]
    if tense == "future":
        return [("will", WEAK, verb_key + question)], base
    if tense == "going":
        be = [(BE_PRESENT[person], WEAK, modal_key + question)]
        return be, [("going", FUNCTION, modal_key), (Word("to", "PART"), WEAK, verb_key), *base]
    if clause.modal in ("can", "must"):
        return [(clause.modal, CONTENT, modal_key + question)], base
    if verb in COPULAS:
        form = (BE_PAST if tense == "past" else BE_PRESENT)[person]
        return [(form, CONTENT, verb_key + question)], []
    rest: Tokens = []
    finite: Verb = verb
    if clause.modal == "want":
        finite, rest, verb_key = WANT, [(Word("to", "PART"), WEAK, verb_key), *base], modal_key
        base = [(WANT.english, CONTENT, verb_key)]
    if question or clause.negation == "not":
        text = "did" if tense == "past" else "does" if person == IL else "do"
        return [(text, WEAK, verb_key + question)], base + rest
    if tense == "past":
        return [], [(finite.english_past, CONTENT, verb_key), *rest]
    return [], [(finite.english_third if person == IL else finite.english, CONTENT, verb_key), *rest]


def _participle(clause: Clause) -> str:
    """The past participle: agrees with the subject of être, and with a direct object that came before avoir."""
    verb = clause.verb
    if verb.takes_etre:
        subject = clause.subject
        return participle_agrees(verb.french.participle, subject.feminine, subject.plural)
    item = clause.object
    if isinstance(item, Pronoun | Trace) and not verb.french_preposition:
        return participle_agrees(verb.french.participle, item.feminine, item.plural)
    return verb.french.participle


def _in_order(clitics: Tokens) -> Tokens:
    """me te se nous vous, then le la les, then lui leur."""
    if len(clitics) < 2:
        return clitics
    # A direct `me` never meets a recipient here, so the text alone tells the rank.
    return sorted(clitics, key=lambda token: 0 if token[0] in FIRST_CLITICS else 2 if token[0] in LAST_CLITICS else 1)
