"""Texts and pages as documents of sentences, and their translation.

A document is a list of parts: strings that are copied, and sentences. Every different sentence of all documents of a
request becomes one `Segment`, the text that a model reads. A sentence with placeholders is first translated as it is;
where the model does not copy every placeholder, it is translated again without them, and they are put where the
alignment says.

    read_text, read_html -> Document -> segments_of -> translate_segments -> write_documents

All steps but `translate_segments` take linear time and need no model, so that they can run in another process.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from harken.serving.errors import TooLarge
from harken.serving.text.atoms import PLACEHOLDER, Atom, atoms_of, has_letters
from harken.serving.text.markup import HTML, Rules, parse_html
from harken.serving.text.rendering import TagText, enclosed, escaped, is_plain, model_text, render
from harken.serving.text.sentences import MOST_CHARACTERS, cut_words, sentences_of

T = TypeVar("T")
Aligned = tuple[str, np.ndarray | None]  # a translation, and its attention (target words, source words)
# Takes texts, whether attention is needed, and the number of hypotheses.
Translate = Callable[[list[str], bool, int], Awaitable[list[list[Aligned]]]]
Sentence = tuple[Atom, ...]
LONGEST_COPY = 200  # characters of a placeholder that a model is shown
LONG = 500  # sentences whose documents are parsed and written in a thread
# Characters that are written: so many, and so many for each that is read. A tag is repeated for every sentence in it.
WRITTEN, WRITTEN_SHARE = 1_000_000, 20


@dataclass
class Document:
    """A text to translate.

    Args:
        tags: how tags begin and end, by number.
        is_markup: words are written with entities.
        keeps_order: opaque pieces of a sentence stay in their order, as some of them belong together.
    """

    parts: list[str | Sentence]
    tags: list[TagText] = field(default_factory=list)
    is_markup: bool = False
    keeps_order: bool = False


class Segment(NamedTuple):
    """A sentence for a model.

    Args:
        text: its words, with its placeholders.
        is_aligned: whether its translation needs the attention.
        placeholders: those that its translation must contain, sorted.
        bare: the text without placeholders, for a model that does not copy them.
    """

    text: str
    is_aligned: bool
    placeholders: tuple[str, ...] = ()
    bare: str = ""


class Translation(NamedTuple):
    """The hypotheses for a segment, the best first.

    Args:
        is_bare: they translate the text without placeholders.
    """

    hypotheses: list[Aligned]
    is_bare: bool = False


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
    """A block as sentences with the spaces between them; where it is not to be split, in as long ones as a model takes.

    A word that is longer than a model should read is cut.
    """
    if any(len(atom.text) > MOST_CHARACTERS for atom in atoms):
        atoms = cut_words(atoms)
    parts: list[str | Sentence] = []
    for sentence in sentences_of(atoms, split):
        if parts and sentence[0].space:
            parts.append(" ")
        parts.append(tuple(sentence))
    return parts


def segments_of(documents: Iterable[Document]) -> dict[Sentence, Segment]:
    """The sentences that a model has to translate, each different one once, but for those without letters."""
    sentences = dict.fromkeys(part for document in documents for part in document.parts if not isinstance(part, str))
    segments = ((sentence, _segment(sentence)) for sentence in sentences)
    return {sentence: segment for sentence, segment in segments if segment is not None}


def _segment(sentence: Sentence) -> Segment | None:
    bare = model_text(sentence)
    if not has_letters(bare):
        return None
    held = [atom.text for atom in sentence if _is_copyable(atom)]
    if not held:
        return Segment(bare, not is_plain(sentence))
    return Segment(model_text(_shown(sentence)), True, tuple(sorted(PLACEHOLDER.findall(" ".join(held)))), bare)


def _shown(sentence: Sentence) -> Sentence:
    """With the placeholders for the model to see."""
    if not any(map(_is_copyable, sentence)):
        return sentence
    return tuple(atom._replace(opaque=False) if _is_copyable(atom) else atom for atom in sentence)


def _is_copyable(atom: Atom) -> bool:
    """Whether an opaque piece is shown to a model, which may copy it; a very long address is not."""
    return atom.is_placeholder and len(atom.text) <= LONGEST_COPY


async def translate_segments(segments: Sequence[Segment], translate: Translate, nbest: int = 1) -> list[Translation]:
    """The translation of every segment."""
    known: dict[int, Translation] = {}

    async def run(indices: list[int], is_aligned: bool, is_bare: bool) -> None:
        if indices:
            texts = [segments[index].bare if is_bare else segments[index].text for index in indices]
            for index, best in zip(indices, await translate(texts, is_aligned, nbest), strict=True):
                known[index] = Translation(best, is_bare)

    everything = range(len(segments))
    await asyncio.gather(
        run([index for index in everything if not segments[index].is_aligned], False, False),
        run([index for index in everything if segments[index].is_aligned], True, False),
    )
    held = [index for index in everything if segments[index].placeholders]
    await run([index for index in held if not _survives(segments[index], known[index])], True, True)
    return [known[index] for index in everything]


def _survives(segment: Segment, translation: Translation) -> bool:
    """Whether the best hypothesis has every placeholder as often as the source."""
    return tuple(sorted(PLACEHOLDER.findall(translation.hypotheses[0][0]))) == segment.placeholders


async def translate_documents(
    documents: Sequence[Document], translate: Translate, alternatives: int = 0
) -> list[list[str]]:
    """Every document translated: the best, then up to `alternatives` others that differ."""
    nbest = 1 + alternatives
    is_long = sum(len(document.parts) for document in documents) > LONG
    segments = await in_thread_if(is_long, lambda: segments_of(documents))
    translations = await translate_segments(list(segments.values()), translate, nbest)
    known = dict(zip(segments, translations, strict=True))
    return await in_thread_if(is_long, lambda: write_documents(documents, known, nbest))


async def in_thread_if(condition: bool, work: Callable[[], T]) -> T:
    """The result of `work`, which runs in a thread where it may take long."""
    return await asyncio.to_thread(work) if condition else work()


def write_documents(
    documents: Sequence[Document], known: Mapping[Sentence, Translation], nbest: int = 1
) -> list[list[str]]:
    """Every document from the translations of its sentences: the best, then others that differ.

    Raises:
        TooLarge: tags would be repeated for so many sentences that the documents become many times longer.
    """
    left, written = WRITTEN + WRITTEN_SHARE * sum(map(_size, documents)), list[list[str]]()
    for document in documents:
        texts: dict[str, None] = {}
        for rank in range(nbest):
            parts: list[str] = []
            for part in document.parts:
                parts.append(part if isinstance(part, str) else _written(part, known.get(part), rank, document))
                left -= len(parts[-1])
                if left < 0:
                    raise TooLarge(
                        "tags around many sentences make the translation too long; send fewer sentences at once"
                    )
            texts["".join(parts)] = None
        written.append(list(texts))
    return written


def _size(document: Document) -> int:
    """The characters of a document with its tags, each once."""
    parts = sum(len(part) if isinstance(part, str) else sum(len(atom.text) for atom in part) for part in document.parts)
    return parts + sum(len(start) + len(end) for start, end in document.tags)


def _written(sentence: Sentence, translation: Translation | None, rank: int, document: Document) -> str:
    if translation is None:  # nothing to translate
        words = model_text(sentence)
        attention: np.ndarray | None = np.eye(len(words.split()))
        return render(sentence, words, attention, document.tags, document.is_markup, document.keeps_order)
    read = sentence if translation.is_bare else _shown(sentence)
    text, attention = translation.hypotheses[min(rank, len(translation.hypotheses) - 1)]
    if is_plain(read):
        return enclosed(escaped(text, document.is_markup), read[0].tags, document.tags)
    return render(read, text, attention, document.tags, document.is_markup, document.keeps_order)
