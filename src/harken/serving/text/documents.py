"""Texts and pages as documents of sentences, and their translation.

A document is a list of parts: strings that are copied, and sentences. All sentences of all documents of a request are
translated together, each different one once. A sentence with placeholders is first translated as it is; where the model
does not copy every placeholder, it is translated again without them, and they are put where the alignment says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harken.serving.text.atoms import PLACEHOLDER, Atom, atoms_of, has_letters
from harken.serving.text.markup import HTML, Rules, parse_html
from harken.serving.text.rendering import TagText, escaped, is_plain, model_text, render
from harken.serving.text.sentences import sentences_of

Aligned = tuple[str, np.ndarray | None]  # a translation, and its attention (target words, source words)
# Takes texts, whether attention is needed, and the number of hypotheses.
Translate = Callable[[list[str], bool, int], Awaitable[list[list[Aligned]]]]
Sentence = tuple[Atom, ...]


@dataclass
class Document:
    """A text to translate."""

    parts: list[str | Sentence]
    tags: list[TagText] = field(default_factory=list)
    is_markup: bool = False  # whether words are written with entities


def read_text(text: str, split: bool = True) -> Document:
    """A plain text: lines are kept, each is split into sentences unless it is not to be."""
    parts: list[str | Sentence] = []
    for line in re.split(r"([\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+)", text):
        atoms = atoms_of(line)
        if not atoms:
            parts.append(line)
            continue
        lead = len(line) - len(line.lstrip())
        parts += [line[:lead], *sentence_parts(atoms, split), line[len(line.rstrip()) :]]
    return Document([part for part in parts if part])


def read_html(text: str, rules: Rules = HTML, split: bool = True) -> Document:
    """A page or a fragment; its blocks are split into sentences unless they are not to be."""
    page = parse_html(text, rules)
    parts: list[str | Sentence] = []
    for part in page.parts:
        parts += [part] if isinstance(part, str) else sentence_parts(part, split)
    return Document(parts, page.tags, is_markup=True)


def sentence_parts(atoms: Sequence[Atom], split: bool = True) -> list[str | Sentence]:
    """A block as sentences with the spaces between them; as one sentence where it is not to be split."""
    if not split:
        return [tuple(atoms)]
    parts: list[str | Sentence] = []
    for sentence in sentences_of(atoms):
        if parts and sentence[0].space:
            parts.append(" ")
        parts.append(tuple(sentence))
    return parts


async def translate_documents(
    documents: Sequence[Document], translate: Translate, alternatives: int = 0
) -> list[list[str]]:
    """Every document translated: the best, then up to `alternatives` others that differ."""
    sentences = list(dict.fromkeys(part for one in documents for part in one.parts if not isinstance(part, str)))
    known: dict[Sentence, list[tuple[Sentence, Aligned]]] = {}
    nbest = 1 + alternatives
    translatable = [sentence for sentence in sentences if has_letters(model_text(sentence))]
    plain = [sentence for sentence in translatable if is_plain(sentence)]
    held = [sentence for sentence in translatable if any(atom.is_placeholder for atom in sentence)]
    others = [sentence for sentence in translatable if not is_plain(sentence) and sentence not in set(held)]
    shown = [tuple(_shown(sentence)) for sentence in held]
    await asyncio.gather(
        _translate(known, plain, plain, False, nbest, translate),
        _translate(known, others, others, True, nbest, translate),
        _translate(known, held, shown, True, nbest, translate),
    )
    lost = [sentence for sentence in held if not _survives(sentence, known[sentence][0][1][0])]
    await _translate(known, lost, lost, True, nbest, translate)
    return [_written(document, known, nbest) for document in documents]


def _shown(sentence: Sentence) -> list[Atom]:
    """With the placeholders for the model to see."""
    return [replace(atom, opaque=atom.opaque and not atom.is_placeholder) for atom in sentence]


def _survives(sentence: Sentence, text: str) -> bool:
    """Whether every placeholder of a sentence is in its translation, as often as it should."""
    wanted = PLACEHOLDER.findall(" ".join(atom.text for atom in sentence if atom.is_placeholder))
    return sorted(PLACEHOLDER.findall(text)) == sorted(wanted)


async def _translate(
    known: dict[Sentence, list[tuple[Sentence, Aligned]]],
    sentences: Sequence[Sentence],
    read: Sequence[Sentence],
    aligned: bool,
    nbest: int,
    translate: Translate,
) -> None:
    """Fill `known` with what becomes of sentences that are read as `read`."""
    if not sentences:
        return
    translations = await translate([model_text(sentence) for sentence in read], aligned, nbest)
    for sentence, shown, best in zip(sentences, read, translations, strict=True):
        known[sentence] = [(shown, one) for one in best]


def _written(document: Document, known: dict[Sentence, list[tuple[Sentence, Aligned]]], nbest: int) -> list[str]:
    texts: list[str] = []
    for rank in range(nbest):
        parts = []
        for part in document.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            best = known.get(part)
            if best is None:  # nothing to translate
                parts.append(_copied(part, document))
                continue
            read, (text, attention) = best[min(rank, len(best) - 1)]
            if is_plain(read) and not read[0].tags:
                parts.append(escaped(text, document.is_markup))
            else:
                parts.append(render(read, text, attention, document.tags, document.is_markup))
        whole = "".join(parts)
        if whole not in texts:
            texts.append(whole)
    return texts


def _copied(sentence: Sentence, document: Document) -> str:
    words = " ".join(atom.text for atom in sentence if not atom.opaque)
    identity = np.eye(len(words.split()))
    return render(sentence, words, identity, document.tags, document.is_markup)
