"""A translated sentence with its tags and opaque pieces, placed by word alignments.

Every target word takes the tags of the source word it is aligned to. A tag whose words no target word is aligned to is
put on the target word with the most attention on them, so no tag is lost. An opaque piece stands before the first
target word that is aligned to the source word after it, or after the last one aligned to the word before it.

>>> import numpy as np
>>> atoms = [Atom("the"), Atom("black", (0,)), Atom("cat"), Atom("{x}", opaque=True), Atom("sleeps")]
>>> links = np.eye(4)[[0, 2, 1, 3]]    # le chat noir dort
>>> render(atoms, "le chat noir dort", links, [("<b>", "</b>")])
'le chat <b>noir</b> {x} dort'
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from harken.data.text.scripts import spaces_before, split_words
from harken.serving.text.atoms import Atom, Tags

TAIL = ".,;:!?…。、，！？)]}»”\"'"
TagText = tuple[str, str]  # how a tag begins and ends


def model_text(atoms: Sequence[Atom]) -> str:
    """The words of a sentence that the model reads."""
    return " ".join(atom.text for atom in atoms if not atom.opaque)


def is_plain(atoms: Sequence[Atom]) -> bool:
    """Whether a translation needs no alignment: no opaque pieces, and the same tags around all words."""
    return not any(atom.opaque or atom.tail_tags is not None or atom.tags != atoms[0].tags for atom in atoms)


def render(
    atoms: Sequence[Atom],
    text: str,
    attention: np.ndarray | None,
    tags: Sequence[TagText],
    is_markup: bool = False,
    keeps_order: bool = False,
) -> str:
    """The translation of a sentence as it is written.

    Args:
        atoms: the source.
        text: the translation of `model_text(atoms)`.
        attention: (words of `split_words(text)`, source words); None: the words are aligned by their order.
        tags: by number.
        is_markup: write & and < of words as entities.
        keeps_order: opaque pieces stay in their order.
    """
    source = [atom for atom in atoms if not atom.opaque]
    words = split_words(text)  # in scripts without spaces every letter, so that a tag is around its own
    spaces = spaces_before(words, text)
    weights = _weights(attention, len(words), len(source))
    links = weights.argmax(1) if len(source) else np.zeros(len(words), dtype=int)
    stacks = [source[link].tags if source else () for link in links]
    tails = [source[link].tail_tags if source else None for link in links]
    if words:
        _restore_lost(stacks, source, weights)
    writer = _Writer(tags)
    positions = _positions(atoms, links, len(words), keeps_order)
    for index in range(len(words) + 1):
        space = index == len(words) or spaces[index]
        for atom, following in positions.get(index, ()):
            writer.write(escaped(atom.text, is_markup and atom.is_placeholder), atom.tags, atom.space)
            space = following is None or following.space
        if index == len(words):
            break
        word = words[index]
        core = word.rstrip(TAIL) if tails[index] is not None else word
        writer.write(escaped(core or word, is_markup), stacks[index], space)
        if core and len(core) < len(word):
            writer.write(escaped(word[len(core) :], is_markup), tails[index] or (), space=False)
    return writer.finish()


def _restore_lost(stacks: list[Tags], source: Sequence[Atom], weights: np.ndarray) -> None:
    """Put every tag whose words no target word is aligned to on the target word with the most attention on them."""
    covered: dict[int, list[int]] = {}  # the words of every tag
    for index, atom in enumerate(source):
        for number in atom.tags:
            covered.setdefault(number, []).append(index)
    for number in sorted(covered.keys() - {number for stack in stacks for number in stack}):
        target = int(weights[:, covered[number]].sum(1).argmax())
        stacks[target] = source[covered[number][0]].tags


def _weights(attention: np.ndarray | None, targets: int, sources: int) -> np.ndarray:
    if attention is not None and attention.shape == (targets, sources):
        return attention
    places = (np.arange(targets)[:, None] + 0.5) / max(targets, 1) - (np.arange(sources)[None] + 0.5) / max(sources, 1)
    return -np.abs(places)


def _positions(
    atoms: Sequence[Atom], links: np.ndarray, count: int, keeps_order: bool
) -> dict[int, list[tuple[Atom, Atom | None]]]:
    """Before which target word every opaque piece stands, with the atom that follows it; `count`: at the end."""
    positions: dict[int, list[tuple[Atom, Atom | None]]] = {}
    before = 0  # source words so far
    latest = 0  # position of the last piece
    total = sum(not atom.opaque for atom in atoms)
    for atom, following in zip(atoms, [*atoms[1:], None], strict=True):
        if not atom.opaque:
            before += 1
            continue
        after = np.flatnonzero(links == before) if before < total else np.array([], dtype=int)
        ahead = np.flatnonzero(links == before - 1) if before else np.array([], dtype=int)
        if before == total:
            position = count
        elif not before:
            position = 0
        elif len(after):
            position = int(after[0])
        elif len(ahead):
            position = int(ahead[-1]) + 1
        else:
            position = round(count * before / max(total, 1))
        latest = max(position, latest) if keeps_order else position
        positions.setdefault(latest, []).append((atom, following))
    return positions


def enclosed(text: str, numbers: Tags, tags: Sequence[TagText]) -> str:
    """A text inside of tags."""
    return "".join([*(tags[number][0] for number in numbers), text, *(tags[number][1] for number in numbers[::-1])])


def escaped(text: str, is_markup: bool) -> str:
    """A text as it is written into a page, or as it is."""
    return escape(text, quote=False) if is_markup else text


class _Writer:
    """Writes pieces, opening and closing tags where their stacks change."""

    def __init__(self, tags: Sequence[TagText]) -> None:
        self._tags, self._parts = tags, list[str]()
        self._open: Tags = ()

    def write(self, text: str, tags: Tags, space: bool) -> None:
        same = 0
        while same < min(len(tags), len(self._open)) and tags[same] == self._open[same]:
            same += 1
        self._close(same)
        if self._parts and space:
            self._parts.append(" ")
        self._parts += [self._tags[number][0] for number in tags[same:]]
        self._open = tags
        self._parts.append(text)

    def _close(self, keep: int) -> None:
        self._parts += [self._tags[number][1] for number in reversed(self._open[keep:])]
        self._open = self._open[:keep]

    def finish(self) -> str:
        self._close(0)
        return "".join(self._parts)
