"""Clauses in both languages: tenses, negation, object pronouns, agreement of participles, relative clauses, questions.

English    subject  does not   often  give  the book to him     (auxiliaries, do-support)
French     subject  ne le lui  donne  pas souvent               (clitics before the verb, ne ... pas around it)

>>> from harken.data.synthetic.phrasebook.lexicon import VERB
>>> from harken.data.synthetic.phrasebook.links import make_pair
>>> from harken.data.synthetic.phrasebook.trees import PRONOUN, Clause
>>> clause = Clause(PRONOUN["she"], VERB["see"], "past", "not", object=PRONOUN["they (feminine)"])
>>> make_pair(*Realiser().clause(clause)).target
'elle ne les a pas vues'
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.english import Word
from harken.data.synthetic.phrasebook.french import conjugate, participle_agrees
from harken.data.synthetic.phrasebook.lexicon import COPULAS, DEGREES, FEELINGS, GOING, MODALS, WANT, Verb
from harken.data.synthetic.phrasebook.links import CONTENT, FUNCTION, NO_WORDS, WEAK, Tokens, Words
from harken.data.synthetic.phrasebook.nominals import Nominals
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
        words = super().noun_phrase(phrase, negated, generic)
        if phrase.relative is None:
            return words
        subject_gap = isinstance(phrase.relative.subject, Trace)
        person = "person" in phrase.noun.tags or "infant" in phrase.noun.tags
        pronoun = "who" if subject_gap and person else "that", "qui" if subject_gap else "que"
        return words + self.word(*pronoun, FUNCTION) + self.clause(phrase.relative)

    def subject(self, subject: Subject) -> Words:
        """The subject, silent where it is a gap."""
        if isinstance(subject, Trace):
            return NO_WORDS
        if isinstance(subject, Pronoun):
            return self.word(subject.english, subject.french, FUNCTION)
        if isinstance(subject, Both):
            return self.phrase(subject.first) + self.word("and", "et", FUNCTION) + self.phrase(subject.second)
        return self.phrase(subject)

    def clause(self, clause: Clause, question: Key = ()) -> Words:
        """A statement; with a key for `question`, English is inverted and its auxiliary linked to est-ce que."""
        subject = self.subject(clause.subject)
        verb_key, negation_key, modal_key = self.key(), self.key(), self.key()
        auxiliary, main = _english_verb(clause, verb_key, modal_key, question)
        pronouns, objects = self._objects(clause, verb_key)
        middle, late = Words([], []), Words([], [])
        if clause.adverb is not None:
            adverb = self.word(clause.adverb.english, clause.adverb.french)
            (middle if clause.adverb.early else late).english.extend(adverb.english)
            (middle if clause.adverb.short else late).french.extend(adverb.french)
        negation: Tokens = [(word, FUNCTION, negation_key) for word in clause.negation.split()]
        if clause.modal == "can" and clause.negation:
            negation = [("+not", FUNCTION, negation_key)]
        opening = auxiliary + subject.english if question else subject.english + auxiliary
        english = [*opening, *negation, *middle.english, *main, *pronouns.english]
        french = self._french_verb(clause, pronouns.french, middle.french, verb_key, negation_key, modal_key)
        verb = Words(english, subject.french + french + late.french)
        return verb + objects + Words(late.english, []) + self._surroundings(clause)

    def _objects(self, clause: Clause, verb_key: Key) -> tuple[Words, Words]:
        """Pronouns (English after the verb, French before it), then everything that follows the verb."""
        verb, item = clause.verb, clause.object
        pronouns, objects = Words([], []), Words([], [])
        particles: Tokens = [(particle, WEAK, verb_key) for particle in verb.particles]
        preposition: Tokens = [(verb.english_preposition, WEAK, verb_key)] if verb.english_preposition else []
        if verb.reflexive:
            pronouns.french.append((REFLEXIVE[clause.subject.person], WEAK, verb_key))
        if isinstance(item, Pronoun):
            pronoun = self.word(item.english_object, item.indirect if verb.indirect else item.direct, FUNCTION)
            pronouns += Words(preposition + pronoun.english + particles, pronoun.french)
        elif item is None or isinstance(item, Trace):
            objects += Words(particles + preposition, [])
        else:
            negated = clause.negation != "" and not verb.french_preposition and "generic" not in verb.options
            before: Tokens = [(verb.french_preposition, WEAK, verb_key)] if verb.french_preposition else []
            objects += Words(particles + preposition, before) + self.phrase(item, negated, "generic" in verb.options)
        recipient, key = clause.recipient, self.key()
        if isinstance(recipient, Pronoun):
            pronouns.french.append((recipient.indirect, FUNCTION, key))
            english: Tokens = [(recipient.english_object, FUNCTION, key)]
            if isinstance(item, NounPhrase) and "late" not in verb.options:  # gives him the book
                pronouns = Words(english, pronouns.french)
            else:
                objects += Words([("to", WEAK, key), *english], [])
        elif recipient is not None:
            objects += self.word("to", "à", FUNCTION) + self.phrase(recipient)
        return Words(pronouns.english, _in_order(pronouns.french)), objects

    def _french_verb(
        self, clause: Clause, clitics: Tokens, middle: Tokens, verb_key: Key, negation_key: Key, modal_key: Key
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
            return [*clitics, finite, *middle, *rest]
        negation = (NEGATIONS[clause.negation], FUNCTION, negation_key)
        return [("ne", WEAK, negation_key), *clitics, finite, negation, *middle, *rest]

    def _surroundings(self, clause: Clause) -> Words:
        """The predicate of `to be`, places and times, which follow the object."""
        words = NO_WORDS
        if clause.adjective is not None:
            words = self._predicate(clause)
        elif clause.feeling:
            words = self._degree(clause) + self.word(clause.feeling, FEELINGS[clause.feeling])
        elif clause.profession is not None:  # she is a nurse: elle est infirmière
            words = self.noun(clause.profession, clause.subject.plural)
            if not clause.subject.plural:
                words = Words([("a", WEAK, words.english[0][2])], []) + words
        for place in clause.places:
            words += self.place(place)
        if clause.whereabout is not None:
            words += self.word(clause.whereabout.english, clause.whereabout.french)
        return words if clause.time is None else words + self.time(clause.time)

    def _degree(self, clause: Clause) -> Words:
        return self.word(clause.degree, DEGREES[clause.degree], FUNCTION) if clause.degree else NO_WORDS

    def _predicate(self, clause: Clause) -> Words:
        """An adjective after `to be`, with its degree or comparison."""
        adjective = clause.adjective
        assert adjective is not None
        text = adjective.french.agree(clause.subject.feminine, clause.subject.plural)
        if clause.than is None:
            return self._degree(clause) + self.word(adjective.english, text)
        if adjective.comparative:
            words = self.word(adjective.comparative, text)
            words.french.insert(0, ("plus", WEAK, words.french[0][2]))
        else:
            words = self.word("more", "plus", FUNCTION) + self.word(adjective.english, text)
        return words + self.word("than", "que", FUNCTION) + self.phrase(clause.than)


def _english_verb(clause: Clause, verb_key: Key, modal_key: Key, question: Key) -> tuple[Tokens, Tokens]:
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
