"""Glossaries of source and target terms, and phrases that a translation must contain.

A glossary is a text file with one term a line, `source TAB target`; empty lines and lines that begin with # are
skipped. Where the words of a source term stand in a sentence, they are translated by its target
(`harken.tasks.translate.decoding.substitution`). A term in lower case matches whatever its case in the sentence is, one
with capitals only itself; where the sentence has it with a capital, the target may have one too. Longer terms are
matched first, and words are used once.

>>> terms = [Term("black cat", "chat noir"), Term("cat", "minou"), Term("NATO", "OTAN")]
>>> find_terms("The Black cat sees a cat, nato.", terms)
[Match(first=1, last=3, forms=['chat noir', 'Chat noir']), Match(first=5, last=6, forms=['minou'])]
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harken.data.io.files import read_lines, require_file
from harken.data.text.scripts import SPACED_LETTER, UNSPACED_LETTER, is_unspaced
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.marks import inner_tokenizer
from harken.data.tokenizers.plain import PlainWordTokenizer
from harken.data.tokenizers.tokens import UNK
from harken.data.tokenizers.word import WordTokenizer
from harken.errors import UserError

LETTER = SPACED_LETTER  # every letter of other scripts is a word
WORD = re.compile(rf"{UNSPACED_LETTER}|{LETTER}+(?:-{LETTER}+)*|[^\w\s]")  # words and punctuation marks, for counting


class Term(NamedTuple):
    """A source phrase and what it has to become."""

    source: str
    target: str


class Match(NamedTuple):
    """A term in a sentence: its words (`WORD`), the first and past the last, and the allowed forms of its target."""

    first: int
    last: int
    forms: list[str]


def read_glossary(path: str | Path | Mapping[str, str]) -> list[Term]:
    """The terms of a file, or of a dict from source to target terms.

    Raises:
        UserError: no such file, or a term with an empty side.

    >>> read_glossary({"letter": "message"})
    [Term(source='letter', target='message')]
    """
    if isinstance(path, Mapping):
        terms = [Term(source.strip(), target.strip()) for source, target in path.items()]
        for term in terms:
            if not all(term):
                raise UserError(f"the glossary has the term {term.source!r}: {term.target!r}; fill both sides")
        return terms
    terms = []
    for number, line in enumerate(read_lines(require_file(Path(path))), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        source, _, target = (part.strip() for part in line.partition("\t"))
        if not source or not target:
            raise UserError(f"{path}, line {number}: a glossary line is a source term, a tab and a target term")
        terms.append(Term(source, target))
    return terms


def find_terms(sentence: str, terms: Iterable[Term]) -> list[Match]:
    """The terms of a glossary that are in a sentence, longest first."""
    matches, used = [], [False] * len(sentence)
    starts = [word.start() for word in WORD.finditer(sentence)]
    for term in sorted(terms, key=lambda term: -len(term.source)):
        flags = re.IGNORECASE if term.source == term.source.lower() else 0
        words = r"\s+".join(re.escape(word) for word in term.source.split())
        before, after = (is_unspaced(term.source[at]) for at in (0, -1))
        bounded = f"{'' if before else f'(?<!{LETTER})'}{words}{'' if after else f'(?!{LETTER})'}"
        for match in re.finditer(bounded, sentence, flags):
            if any(used[match.start() : match.end()]):
                continue
            used[match.start() : match.end()] = [True] * (match.end() - match.start())
            allowed = forms(term.target, capital=match.group()[0].isupper() and not term.source[0].isupper())
            matches.append(Match(bisect_left(starts, match.start()), bisect_left(starts, match.end()), allowed))
    return matches


def forms(phrase: str, capital: bool = True) -> list[str]:
    """A phrase as it is, and with a capital.

    >>> forms("chat noir"), forms("OTAN")
    (['chat noir', 'Chat noir'], ['OTAN'])
    """
    return list(dict.fromkeys([phrase, phrase[:1].upper() + phrase[1:]] if capital else [phrase]))


def phrase_ids(alternatives: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The forms of a phrase as ids.

    Raises:
        UserError: the vocabulary cannot write any of them.
    """
    rows = [row for row in inner_tokenizer(tokenizer).encode_all(list(alternatives)) if row and UNK not in row]
    if not rows:
        raise UserError(f"the model's vocabulary cannot write {alternatives[0]!r}; leave that phrase out")
    return rows


def joining_tokens(tokenizer: Tokenizer) -> np.ndarray | None:
    """(V,): True for the tokens that continue a word; None where every token is a word."""
    if isinstance(tokenizer, WordTokenizer | PlainWordTokenizer):
        return None
    pieces = tokenizer.pieces(range(tokenizer.size))
    return np.array([piece[:1].isalnum() and not is_unspaced(piece[0]) for piece in pieces])  # ▁ is no letter
