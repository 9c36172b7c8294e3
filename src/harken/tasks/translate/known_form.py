"""Sentences in a form that the model knows: capitals and end marks it was never trained on are removed, then restored.

A model trained on lower-case text has no id for `The`, and one trained without full stops none for `.`; read as unknown
tokens they spoil the whole translation. Only tokens without an id are touched, so a model that knows capitals and full
stops reads every sentence as it is written.

>>> from harken.data.tokenizers.word import WordTokenizer
>>> tokenizer = WordTokenizer.train(["the cat sleeps"], size=10)
>>> form = known_form("The Zebra sleeps.", tokenizer)
>>> form.text, form.unknown, form.restore("le ⁇ dort")
('the Zebra sleeps', [1], 'Le ⁇ dort.')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harken.data.text.placeholders import Placeholders, fill
from harken.data.tokenizers.base import Tokenizer

END_MARKS = ".!…"


@dataclass(frozen=True)
class KnownForm:
    """A sentence as the model reads it."""

    text: str
    ids: list[int]  # without EOS
    unknown: list[int] = field(default_factory=list)  # words, counted from 0, with a token that has no id
    capital: bool = False  # a capital at the start was removed
    end_mark: str = ""  # what was removed at the end
    spans: tuple[str, ...] = ()  # markup that symbols stand for (`harken.data.text.placeholders`)

    def restore(self, translation: str) -> str:
        """The translation with the capital, the end mark and the markup of the source."""
        return self.fill(self.end(translation))

    def fill(self, text: str) -> str:
        """A text or word with markup in the place of symbols."""
        return fill(text, self.text, self.spans)

    def end(self, translation: str) -> str:
        """The translation with the capital and the end mark of the source."""
        if not translation or not (self.capital or self.end_mark):
            return translation
        first = translation[0].upper() if self.capital else translation[0]
        return first + translation[1:] + self.end_mark


def known_forms(
    texts: Sequence[str], tokenizer: Tokenizer, placeholders: Placeholders | None = None
) -> list[KnownForm]:
    """`known_form` of many sentences, with symbols for their markup; without unknown tokens one costs one encoding."""
    if placeholders is not None and placeholders.kinds:
        masked = [placeholders.mask(text) for text in texts]
        forms = known_forms([text for text, _ in masked], tokenizer)
        return [replace(form, spans=spans) if spans else form for form, (_, spans) in zip(forms, masked, strict=True)]
    return [
        known_form(text, tokenizer) if not tokenizer.fallback_ids.isdisjoint(ids) else KnownForm(text, ids)
        for text, ids in zip(texts, tokenizer.encode_all(list(texts)), strict=True)
    ]


def known_form(text: str, tokenizer: Tokenizer) -> KnownForm:
    """The sentence with the fewest unknown tokens that lower case and a missing end mark can give."""
    words = text.split()
    end_mark = ""
    if words and _unknown(words[-1], tokenizer):
        bare = words[-1].rstrip(END_MARKS)
        cut = words[-1][len(bare) :]
        if cut and _unknown(words[-1], tokenizer) > _unknown(bare, tokenizer):
            end_mark, words[-1] = cut, bare
    read = [_known_case(word, tokenizer) for word in words]
    known = " ".join(read).rstrip()  # an end mark that stood alone leaves an empty last word
    ids = tokenizer.encode(known)
    places = tokenizer.word_of(ids, known)
    return KnownForm(
        known,
        ids,
        sorted({word for word, index in zip(places, ids, strict=True) if index in tokenizer.fallback_ids}),
        bool(words) and read[0][:1] != words[0][:1],
        end_mark,
    )


def _known_case(word: str, tokenizer: Tokenizer) -> str:
    lower = word.lower()
    return lower if lower != word and _unknown(lower, tokenizer) < _unknown(word, tokenizer) else word


def _unknown(word: str, tokenizer: Tokenizer) -> int:
    """The number of tokens of a word that have no id."""
    return sum(index in tokenizer.fallback_ids for index in tokenizer.encode(word))
