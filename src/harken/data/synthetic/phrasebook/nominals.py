"""Noun phrases in both languages: determiners, adjectives, owners, and the words around them.

`Words` is what every part gives: English tokens and French tokens, linked by shared keys (see `links`).

>>> from harken.data.synthetic.phrasebook.links import make_pair
>>> from harken.data.synthetic.phrasebook.trees import ADJECTIVE, NOUN, NounPhrase
>>> make_pair(*Nominals().noun_phrase(NounPhrase(NOUN["friend"], "my", False, (ADJECTIVE["old"],)))).target
'mon vieil ami'
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.french import starts_with_vowel
from harken.data.synthetic.phrasebook.links import CONTENT, FUNCTION, WEAK, Tokens
from harken.data.synthetic.phrasebook.modifiers import NUMBERS, Preposition, Time
from harken.data.synthetic.phrasebook.trees import Name, NounPhrase, Place, Pronoun

Words = tuple[Tokens, Tokens]

# English determiner: French masculine, feminine, plural, and masculine or feminine before a vowel.
DETERMINERS = {
    "the": ("le", "la", "les", "le", "la"),
    "a": ("un", "une", "des", "un", "une"),
    "some": ("", "", "des", "", ""),
    "this": ("ce", "cette", "ces", "cet", "cette"),
    "these": ("", "", "ces", "", ""),
    "my": ("mon", "ma", "mes", "mon", "mon"),
    "your": ("votre", "votre", "vos", "votre", "votre"),
    "his": ("son", "sa", "ses", "son", "son"),
    "her": ("son", "sa", "ses", "son", "son"),
    "our": ("notre", "notre", "nos", "notre", "notre"),
    "their": ("leur", "leur", "leurs", "leur", "leur"),
    "every": ("chaque", "chaque", "", "chaque", "chaque"),
    "several": ("", "", "plusieurs", "", ""),
    **{english: ("", "", french, "", "") for english, french in NUMBERS.items()},
}
INDEFINITE = ("a", "some", "any", "")  # become `de` after a negation


class Nominals:
    """Realises noun phrases and prepositional phrases; hands out the keys that link tokens."""

    def __init__(self) -> None:
        self.last_key = 0

    def key(self) -> tuple[int]:
        """A fresh key for one meaning."""
        self.last_key += 1
        return (self.last_key,)

    def phrase(self, phrase: NounPhrase | Name | Pronoun, negated: bool = False, generic: bool = False) -> Words:
        """Any phrase that can stand after a preposition."""
        if isinstance(phrase, NounPhrase):
            return self.noun_phrase(phrase, negated, generic)
        key = self.key()
        if isinstance(phrase, Name):
            return [(phrase.text, CONTENT, key)], [(phrase.text, CONTENT, key)]
        return [(phrase.english_object, FUNCTION, key)], [(phrase.stressed, FUNCTION, key)]

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
        return english, french

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
        return [*owner_english, ("+'s", FUNCTION, key), *english], [*french, ("de", FUNCTION, key), *owner_french]

    def place(self, place: Place) -> Words:
        """A prepositional phrase."""
        english, french = self.preposition(place.preposition)
        more_english, more_french = self.phrase(place.phrase)
        return english + more_english, french + more_french

    def preposition(self, preposition: Preposition) -> Words:
        """The tokens of a preposition; those marked with `~` are only possible links."""
        key = self.key()
        english: Tokens = [(w[1:], WEAK, key) if w[0] == "~" else (w, FUNCTION, key) for w in preposition.english]
        french: Tokens = [(w[1:], WEAK, key) if w[0] == "~" else (w, FUNCTION, key) for w in preposition.french]
        return english, french

    def time(self, time: Time) -> Words:
        """A time expression, with the links of its entry."""
        english, french = time.english.split(), time.french.split()
        english_keys: list[list[int]] = [[] for _ in english]
        french_keys: list[list[int]] = [[] for _ in french]
        sure_english, sure_french = set(), set()
        for link in time.links.split():
            sure = "-" in link
            i, j = (int(number) for number in link.split("-" if sure else "?"))
            key = self.key()[0]
            english_keys[i].append(key)
            french_keys[j].append(key)
            if sure:
                sure_english.add(i)
                sure_french.add(j)
        return (
            [(w, CONTENT if i in sure_english else WEAK, tuple(english_keys[i])) for i, w in enumerate(english)],
            [(w, CONTENT if j in sure_french else WEAK, tuple(french_keys[j])) for j, w in enumerate(french)],
        )
