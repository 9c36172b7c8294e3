"""Whole sentences around clauses: questions, reported speech, conjunctions, `there is`.

>>> from harken.data.synthetic.phrasebook.links import make_pair
>>> from harken.data.synthetic.phrasebook.trees import NOUN, Clause, NounPhrase
>>> from harken.data.synthetic.phrasebook.verbs import VERB
>>> make_pair(*Sentences().yes_no(Clause(NounPhrase(NOUN["owl"]), VERB["sleep"]))).target
'est-ce que le hibou dort ?'
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.clauses import Key, Realiser
from harken.data.synthetic.phrasebook.english import Word
from harken.data.synthetic.phrasebook.links import CONTENT, FUNCTION, WEAK, Tokens
from harken.data.synthetic.phrasebook.nominals import Words
from harken.data.synthetic.phrasebook.nouns import Noun
from harken.data.synthetic.phrasebook.trees import Clause, Name, NounPhrase, Place

# English conjunction: English tokens, French tokens (`~` for those that are only possible links)
CONJUNCTIONS = {
    "and": ("and", "et"),
    "but": ("but", "mais"),
    "because": ("because", "parce ~que"),
    "when": ("when", "quand"),
    "if": ("if", "si"),
    "while": ("while", "pendant ~que"),
    "as soon as": ("~as soon ~as", "dès ~que"),
    "so": ("so", "donc"),
}
ADVERBIAL_QUESTIONS = {"why": "pourquoi", "where": "où", "when": "quand"}
THERE = {  # tense: English, French after il (n') y
    "present": ("is", "are", "a"),
    "past": ("was", "were", "avait"),
}


class Sentences(Realiser):
    """Sentence patterns over the clauses of `Realiser`."""

    def _ask(self, english: Tokens, french: Tokens) -> Words:
        key = self.key()
        return [*english, ("+?", FUNCTION, key)], [*french, ("?", FUNCTION, key)]

    def _inverted(self, clause: Clause) -> Words:
        key: Key = self.key()
        english, french = self.clause(clause, question=key)
        return english, [("est-ce", WEAK, key), ("que", WEAK, key), *french]

    def yes_no(self, clause: Clause) -> Words:
        """`does the cat sleep?`: est-ce que le chat dort ?"""
        return self._ask(*self._inverted(clause))

    def adverbial(self, word: str, clause: Clause) -> Words:
        """`why does the cat sleep?`: pourquoi est-ce que le chat dort ?"""
        key = self.key()
        english, french = self._inverted(clause)
        return self._ask(
            [(Word(word, "ADV"), CONTENT, key), *english], [(ADVERBIAL_QUESTIONS[word], CONTENT, key), *french]
        )

    def who(self, clause: Clause) -> Words:
        """`who reads the book?`, the subject of the clause being a Trace."""
        key = self.key()
        english, french = self.clause(clause)
        return self._ask([("who", FUNCTION, key), *english], [("qui", FUNCTION, key), *french])

    def what(self, clause: Clause, word: str = "what") -> Words:
        """`what does he read?`: qu'est-ce qu'il lit ? and `who does he see?`: qui est-ce qu'il voit ?"""
        key = self.key()
        english, french = self._inverted(clause)
        asked = "que" if word == "what" else "qui"
        return self._ask([(word, FUNCTION, key), *english], [(asked, FUNCTION, key), *french])

    def which(self, noun: Noun, plural: bool, clause: Clause) -> Words:
        """`which book does he read?`: quel livre est-ce qu'il lit ?"""
        key, noun_key = self.key(), self.key()
        english, french = self._inverted(clause)
        form = ("quel", "quelle", "quels", "quelles")[noun.feminine + 2 * plural]
        return self._ask(
            [("which", FUNCTION, key), (noun.english_plural if plural else noun.english, CONTENT, noun_key), *english],
            [(form, FUNCTION, key), (noun.french_plural if plural else noun.french, CONTENT, noun_key), *french],
        )

    def how_many(self, noun: Noun, clause: Clause) -> Words:
        """`how many books does he read?`: combien de livres est-ce qu'il lit ?"""
        key, noun_key = self.key(), self.key()
        english, french = self._inverted(clause)
        return self._ask(
            [("how", FUNCTION, key), ("many", FUNCTION, key), (noun.english_plural, CONTENT, noun_key), *english],
            [("combien", FUNCTION, key), ("de", WEAK, key), (noun.french_plural, CONTENT, noun_key), *french],
        )

    def where_is(self, phrase: NounPhrase | Name) -> Words:
        """`where is the key?`: où est la clé ?"""
        key, verb_key = self.key(), self.key()
        english, french = self.phrase(phrase)
        plural = phrase.plural
        return self._ask(
            [("where", CONTENT, key), ("are" if plural else "is", CONTENT, verb_key), *english],
            [("où", CONTENT, key), ("sont" if plural else "est", CONTENT, verb_key), *french],
        )

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
        if negated:
            french.insert(1, ("ne", WEAK, negation_key))
            french.append(("pas", FUNCTION, negation_key))
        more_english, more_french = self.phrase(phrase, negated)
        if negated:  # there is no cat: il n'y a pas de chat
            more_english[0] = ("no", FUNCTION, negation_key)
            more_french[0] = ("de", WEAK, negation_key)
        english += more_english
        french += more_french
        for place in places:
            more_english, more_french = self.place(place)
            english += more_english
            french += more_french
        return english, french

    def report(self, clause: Clause, reported: Words) -> Words:
        """`i think that ...`: je pense que ..."""
        english, french = self.clause(clause)
        key = self.key()
        return [*english, (Word("that", "SCONJ"), FUNCTION, key), *reported[0]], [
            *french,
            ("que", FUNCTION, key),
            *reported[1],
        ]

    def conjunction(self, word: str) -> Words:
        """The tokens of a conjunction."""
        key = self.key()
        sides: list[Tokens] = []
        for side in CONJUNCTIONS[word]:
            sides.append([(w[1:], WEAK, key) if w[0] == "~" else (w, FUNCTION, key) for w in side.split()])
        return sides[0], sides[1]

    def joined(self, first: Words, word: str, second: Words, comma: bool = False) -> Words:
        """`first and second`, `first, but second`."""
        english, french = self.conjunction(word)
        pause: Tokens = [("+,", WEAK, ())] if comma else []
        return [*first[0], *pause, *english, *second[0]], [*first[1], *pause, *french, *second[1]]

    def fronted(self, word: str, first: Words, second: Words) -> Words:
        """`when it rains, the cat sleeps`."""
        english, french = self.conjunction(word)
        pause: Tokens = [("+,", WEAK, ())]
        return [*english, *first[0], *pause, *second[0]], [*french, *first[1], *pause, *second[1]]

    def opened(self, opening: Words, sentence: Words) -> Words:
        """`yesterday, the cat slept`."""
        pause: Tokens = [("+,", WEAK, ())]
        return [*opening[0], *pause, *sentence[0]], [*opening[1], *pause, *sentence[1]]
