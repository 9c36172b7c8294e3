"""Noun phrases in both languages: determiners, adjectives, owners, and the words around them.

>>> from harken.data.synthetic.phrasebook.lexicon import ADJECTIVE, NOUN
>>> from harken.data.synthetic.phrasebook.links import make_pair
>>> make_pair(*Nominals().noun_phrase(NounPhrase(NOUN["friend"], "my", False, (ADJECTIVE["old"],)))).target
'mon vieil ami'
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.french import starts_with_vowel
from harken.data.synthetic.phrasebook.lexicon import NUMBERS, VOCABULARY, Noun, Preposition, Time
from harken.data.synthetic.phrasebook.links import CONTENT, FUNCTION, WEAK, Tokens, Words
from harken.data.synthetic.phrasebook.trees import Name, NounPhrase, Place, Pronoun

# English determiner: French masculine, feminine, plural, and masculine or feminine before a vowel.
DETERMINERS = {english: forms.split() for english, forms in VOCABULARY["determiners"].items()}
DETERMINERS |= {english: ["-", "-", french, "-", "-"] for english, french in NUMBERS.items()}
INDEFINITE = ("a", "some", "any", "")  # become `de` after a negation


class Nominals:
    """Realises noun phrases and prepositional phrases; hands out the keys that link tokens."""

    def __init__(self) -> None:
        self.last_key = 0

    def key(self) -> tuple[int]:
        """A fresh key for one meaning."""
        self.last_key += 1
        return (self.last_key,)

    def word(self, english: str, french: str, level: int = CONTENT) -> Words:
        """A word and its translation under a fresh key."""
        key = self.key()
        return Words([(english, level, key)], [(french, level, key)])

    def noun(self, noun: Noun, plural: bool) -> Words:
        """A noun without anything around it."""
        return self.word(noun.english_plural, noun.french_plural) if plural else self.word(noun.english, noun.french)

    def phrase(self, phrase: NounPhrase | Name | Pronoun, negated: bool = False, generic: bool = False) -> Words:
        """Any phrase that can stand after a preposition."""
        if isinstance(phrase, NounPhrase):
            return self.noun_phrase(phrase, negated, generic)
        if isinstance(phrase, Name):
            return self.word(phrase.text, phrase.text)
        return self.word(phrase.english_object, phrase.stressed, FUNCTION)

    def noun_phrase(self, phrase: NounPhrase, negated: bool = False, generic: bool = False) -> Words:
        """Determiner, adjectives, noun and owner, each in its language's order."""
        noun, plural = phrase.noun, phrase.plural
        noun_key = self.key()
        english: Tokens = []
        before: Tokens = []
        after: Tokens = []
        noun_vowel = noun.vowel
        for adjective in phrase.adjectives:
            key = self.key()
            english.append((adjective.english, CONTENT, key))
            forms = adjective.french
            if adjective.before:
                bare = not plural and not noun.feminine and noun_vowel
                text = forms.before_vowel if bare else forms.agree(noun.feminine, plural)
                before.append((text, CONTENT, key))
            else:
                after.append((forms.agree(noun.feminine, plural), CONTENT, key))
        english.append((noun.english_plural if plural else noun.english, CONTENT, noun_key))
        french = [*before, (noun.french_plural if plural else noun.french, CONTENT, noun_key), *after]
        if phrase.owner is not None:
            english, french = self._owned(phrase.owner, english, french, noun_key, phrase)
        else:
            determiner = phrase.determiner
            if negated and determiner in INDEFINITE:
                key = self.key() if determiner else noun_key
                french.insert(0, ("de", FUNCTION if determiner else WEAK, key))
                if determiner:
                    english.insert(0, ("any" if plural else "a", FUNCTION, key))
            else:
                self._determine(phrase, english, french, noun_key, bool(before), generic)
        return Words(english, french)

    def _determine(
        self, phrase: NounPhrase, english: Tokens, french: Tokens, noun_key: tuple[int], before: bool, generic: bool
    ) -> None:
        """Put the determiner in front of both sides."""
        determiner, plural, feminine = phrase.determiner, phrase.plural, phrase.feminine
        if determiner == "":  # water: de l'eau; likes water: aime l'eau
            article = "les" if plural else "la" if feminine else "le"
            french.insert(0, (article, WEAK, noun_key))
            if not generic:
                french.insert(0, ("de", WEAK, noun_key))
            return
        key = self.key()
        if determiner == "many":
            english.insert(0, ("many", FUNCTION, key))
            french[:0] = [("beaucoup", FUNCTION, key), ("de", WEAK, key)]
            return
        if determiner == "all":
            article_key = self.key()
            english[:0] = [("all", FUNCTION, key), ("the", FUNCTION, article_key)]
            french[:0] = [("toutes" if feminine else "tous", FUNCTION, key), ("les", FUNCTION, article_key)]
            return
        english.insert(0, (determiner, FUNCTION, key))
        if determiner == "some" and before:
            french.insert(0, ("de", FUNCTION, key))  # de belles maisons
            return
        vowel = starts_with_vowel(french[0][0])
        forms = DETERMINERS[determiner]
        french.insert(0, (forms[2] if plural else forms[feminine + (3 if vowel else 0)], FUNCTION, key))

    def _owned(
        self, owner: NounPhrase | Name, english: Tokens, french: Tokens, noun_key: tuple[int], phrase: NounPhrase
    ) -> Words:
        """`the boy's cat`: le chat du garçon."""
        owner_english, owner_french = self.phrase(owner)
        key = self.key()
        article = "les" if phrase.plural else "la" if phrase.feminine else "le"
        french.insert(0, (article, WEAK, (*noun_key, *key)))
        return Words(
            [*owner_english, ("+'s", FUNCTION, key), *english], [*french, ("de", FUNCTION, key), *owner_french]
        )

    def place(self, place: Place) -> Words:
        """A prepositional phrase."""
        return self.connective(place.preposition) + self.phrase(place.phrase)

    def connective(self, entry: Preposition) -> Words:
        """The tokens of a preposition or conjunction; those marked with `~` are only possible links."""
        key = self.key()

        def tokens(words: tuple[str, ...]) -> Tokens:
            return [(word[1:], WEAK, key) if word[0] == "~" else (word, FUNCTION, key) for word in words]

        return Words(tokens(entry.english), tokens(entry.french))

    def time(self, time: Time) -> Words:
        """A time expression, with the links of its entry."""
        english, french = time.english.split(), time.french.split()
        keys: tuple[list[list[int]], list[list[int]]] = [[] for _ in english], [[] for _ in french]
        sure: tuple[set[int], set[int]] = set(), set()
        for link in time.links.split():
            is_sure = "-" in link
            key = self.key()[0]
            for side, number in enumerate(link.split("-" if is_sure else "?")):
                keys[side][int(number)].append(key)
                if is_sure:
                    sure[side].add(int(number))
        sides = (
            [(w, CONTENT if i in sure[side] else WEAK, tuple(keys[side][i])) for i, w in enumerate(words)]
            for side, words in enumerate((english, french))
        )
        return Words(*sides)
