"""Lower case that forgets nothing that matters: a mark before a word says that it had capitals.

    Popeye -> ⇧ popeye      NASA -> ⇪ nasa      a capital at the beginning of the text says nothing, and has no mark

So `The` and `the` share one vector, and vectors of lower-case words serve; a name can still be told by its capital.

>>> marked("What does NASA say of Popeye Doyle ?")
'what does ⇪ nasa say of ⇧ popeye ⇧ doyle ?'
"""

from __future__ import annotations

CAPITAL, CAPITALS = "⇧", "⇪"
CASE_MARKS = frozenset((CAPITAL, CAPITALS))


def marked(text: str) -> str:
    """The text in lower case with its marks, words apart by single spaces."""
    words: list[str] = []
    for word in text.split():
        letters = [character for character in word if character.isalpha()]
        if len(letters) > 1 and all(letter.isupper() for letter in letters):
            words.append(CAPITALS)
        elif words and letters and letters[0].isupper():
            words.append(CAPITAL)
        words.append(word.lower())
    return " ".join(words)
