"""Words that a translation must contain: phrases, and glossaries of source and target terms.

A glossary is a text file with one term a line, `source TAB target`; empty lines and lines that begin with # are
skipped. Where the words of a source term stand in a sentence, its target has to appear in the translation. A term in
lower case matches whatever its case in the sentence is, one with capitals only itself; where the sentence has it with
a capital, the target may have one too. Longer terms are matched first, and words are used once.

>>> terms = [Term("black cat", "chat noir"), Term("cat", "minou"), Term("NATO", "OTAN")]
>>> matches("The Black cat sees a cat, nato.", terms)
[['chat noir', 'Chat noir'], ['minou']]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from harken.data.io.files import read_lines, require_file
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.plain import PlainWordTokenizer
from harken.data.tokenizers.subword import SPACE
from harken.data.tokenizers.tokens import UNK
from harken.data.tokenizers.word import WordTokenizer
from harken.errors import UserError


class Term(NamedTuple):
    """A source phrase and what it has to become."""

    source: str
    target: str


def read_glossary(path: str | Path) -> list[Term]:
    """The terms of a file.

    Raises:
        UserError: no such file, or a line without a tab or with an empty side.
    """
    terms = []
    for number, line in enumerate(read_lines(require_file(Path(path))), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        source, _, target = (part.strip() for part in line.partition("\t"))
        if not source or not target:
            raise UserError(f"{path}, line {number}: a glossary line is a source term, a tab and a target term")
        terms.append(Term(source, target))
    return terms


def matches(sentence: str, terms: Iterable[Term]) -> list[list[str]]:
    """For each term that is found in a sentence, the forms of its target that are allowed."""
    spans, used = [], [False] * len(sentence)
    for term in sorted(terms, key=lambda term: -len(term.source)):
        flags = re.IGNORECASE if term.source == term.source.lower() else 0
        words = r"\s+".join(re.escape(word) for word in term.source.split())
        for match in re.finditer(rf"(?<!\w){words}(?!\w)", sentence, flags):
            if any(used[match.start() : match.end()]):
                continue
            used[match.start() : match.end()] = [True] * (match.end() - match.start())
            spans.append(forms(term.target, capital=match.group()[0].isupper() and not term.source[0].isupper()))
            break
    return spans


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
    rows = [row for row in tokenizer.encode_all(list(alternatives)) if row and UNK not in row]
    if not rows:
        raise UserError(f"the model's vocabulary cannot write {alternatives[0]!r}; leave that phrase out")
    return rows


def joining_tokens(tokenizer: Tokenizer) -> Tensor | None:
    """(V,): True for the tokens that continue a word; None where every token is a word."""
    if isinstance(tokenizer, WordTokenizer | PlainWordTokenizer):
        return None
    pieces = tokenizer.pieces(range(tokenizer.size))
    return torch.tensor([bool(piece) and not piece.startswith(SPACE) and piece[0].isalnum() for piece in pieces])
