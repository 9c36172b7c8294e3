"""Whole sentences around clauses: questions, reported speech, conjunctions, `there is`.

>>> from harken.data.synthetic.phrasebook.lexicon import NOUN, VERB
>>> from harken.data.synthetic.phrasebook.links import make_pair
>>> make_pair(*Sentences().yes_no(Clause(NounPhrase(NOUN["owl"]), VERB["sleep"]))).target
'est-ce que le hibou dort ?'
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.clauses import Key, Realiser
from harken.data.synthetic.phrasebook.english import Word
from harken.data.synthetic.phrasebook.lexicon import CONJUNCTION, Noun
from harken.data.synthetic.phrasebook.links import CONTENT, FUNCTION, NO_WORDS, WEAK, Tokens, Words
from harken.data.synthetic.phrasebook.trees import Clause, Name, NounPhrase, Place

PAUSE = Words([("+,", WEAK, ())], [("+,", WEAK, ())])
ADVERBIAL_QUESTIONS = {"why": "pourquoi", "where": "où", "when": "quand"}
THERE = {  # tense: English, French after il (n') y
    "present": ("is", "are", "a"),
    "past": ("was", "were", "avait"),
}


class Sentences(Realiser):
    """Sentence patterns over the clauses of `Realiser`."""

    def _ask(self, *parts: Words) -> Words:
        return sum(parts, NO_WORDS) + self.word("+?", "?", FUNCTION)

    def _inverted(self, clause: Clause) -> Words:
        key: Key = self.key()
        return Words([], [("est-ce", WEAK, key), ("que", WEAK, key)]) + self.clause(clause, question=key)

    def yes_no(self, clause: Clause) -> Words:
        """`does the cat sleep?`: est-ce que le chat dort ?"""
        return self._ask(self._inverted(clause))

    def adverbial(self, word: str, clause: Clause) -> Words:
        """`why does the cat sleep?`: pourquoi est-ce que le chat dort ?"""
        return self._ask(self.word(Word(word, "ADV"), ADVERBIAL_QUESTIONS[word]), self._inverted(clause))

    def who(self, clause: Clause) -> Words:
        """`who reads the book?`, the subject of the clause being a Trace."""
        return self._ask(self.word("who", "qui", FUNCTION), self.clause(clause))

    def what(self, clause: Clause, word: str = "what") -> Words:
        """`what does he read?`: qu'est-ce qu'il lit ? and `who does he see?`: qui est-ce qu'il voit ?"""
        return self._ask(self.word(word, "que" if word == "what" else "qui", FUNCTION), self._inverted(clause))

    def which(self, noun: Noun, plural: bool, clause: Clause) -> Words:
        """`which book does he read?`: quel livre est-ce qu'il lit ?"""
        form = ("quel", "quelle", "quels", "quelles")[noun.feminine + 2 * plural]
        return self._ask(self.word("which", form, FUNCTION), self.noun(noun, plural), self._inverted(clause))

    def how_many(self, noun: Noun, clause: Clause) -> Words:
        """`how many books does he read?`: combien de livres est-ce qu'il lit ?"""
        key = self.key()
        asked = Words(
            [("how", FUNCTION, key), ("many", FUNCTION, key)], [("combien", FUNCTION, key), ("de", WEAK, key)]
        )
        return self._ask(asked, self.noun(noun, True), self._inverted(clause))

    def where_is(self, phrase: NounPhrase | Name) -> Words:
        """`where is the key?`: où est la clé ?"""
        verb = self.word("are", "sont") if phrase.plural else self.word("is", "est")
        return self._ask(self.word("where", "où"), verb, self.phrase(phrase))

    def there_is(
        self, phrase: NounPhrase, places: tuple[Place, ...], tense: str = "present", negated: bool = False
    ) -> Words:
        """`there is a cat in the garden`: il y a un chat dans le jardin."""
        there, verb_key, negation_key = self.key(), self.key(), self.key()
        singular, plural, french_verb = THERE[tense]
        english: Tokens = [
            (Word("there", "PRON"), FUNCTION, there),
            (plural if phrase.plural else singular, CONTENT, verb_key),
        ]
        french: Tokens = [("il", WEAK, there), ("y", FUNCTION, there), (french_verb, CONTENT, verb_key)]
        item = self.phrase(phrase, negated)
        if negated:  # there is no cat: il n'y a pas de chat
            french.insert(1, ("ne", WEAK, negation_key))
            french.append(("pas", FUNCTION, negation_key))
            item.english[0] = ("no", FUNCTION, negation_key)
            item.french[0] = ("de", WEAK, negation_key)
        return sum(map(self.place, places), Words(english, french) + item)

    def report(self, clause: Clause, reported: Words) -> Words:
        """`i think that ...`: je pense que ..."""
        return self.clause(clause) + self.word(Word("that", "SCONJ"), "que", FUNCTION) + reported

    def joined(self, first: Words, word: str, second: Words, comma: bool = False) -> Words:
        """`first and second`, `first, but second`."""
        return first + (PAUSE if comma else NO_WORDS) + self.connective(CONJUNCTION[word]) + second

    def fronted(self, word: str, first: Words, second: Words) -> Words:
        """`when it rains, the cat sleeps`."""
        return self.connective(CONJUNCTION[word]) + self.opened(first, second)

    def opened(self, opening: Words, sentence: Words) -> Words:
        """`yesterday, the cat slept`."""
        return opening + PAUSE + sentence
