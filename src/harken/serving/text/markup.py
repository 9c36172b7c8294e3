"""HTML as blocks of atoms: inline tags become tags of words, everything else stays as it is written.

A page is a list of parts: strings that are copied, and blocks of atoms that are translated. Block elements (p, div, li,
td ...) end a block; inline ones (b, a, span ...) belong to the words inside them. Code, scripts, `translate="no"` and
elements without words are copied. Tags are kept letter by letter, whatever their attributes are, which lxml.html does
not do: it quotes attributes and adds or closes elements, and changes 8 of the 18 pages of the tests.

>>> page = parse_html('<p class=x>The <b>black</b> cat <code>x = 1</code>.</p>')
>>> [part if isinstance(part, str) else [(atom.text, atom.tags, atom.opaque) for atom in part] for part in page.parts]
... # doctest: +NORMALIZE_WHITESPACE
['<p class=x>', [('The', (), False), ('black', (0,), False), ('cat', (), False),
 ('<code>x = 1</code>.', (), True)], '</p>']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import Literal, NamedTuple

from harken.serving.text.atoms import Atom, Tags, atoms_of, has_letters
from harken.serving.text.rendering import TagText, escaped


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font g i ins label mark nobr q s small span strike strong sub "
    "sup time tt u var x"
)
VOID = _names("area base br col embed hr img input link meta param source track wbr")
INLINE_VOID = _names("img input wbr")
COPIED = _names("code kbd samp pre script style svg math template textarea noscript object iframe")
INLINE_COPIED = _names("code kbd samp svg math")
RAW_TEXT = ("script", "style")
MAX_DEPTH = 32  # open inline tags around a word; deeper ones are opaque pieces
START = re.compile("<[a-zA-Z]")
TAG = re.compile(r"""<([a-zA-Z][^\s/>]*+)(?:=\s*+(?:"[^"]*+"|'[^']*+')|[^>])*+>""")
UNQUOTED_TAG = re.compile(r"<([a-zA-Z][^\s/<>]*+)[^<>]*+>")
END_TAG = re.compile(r"</([a-zA-Z][^\s/>]*+)[^>]*+>")
LONG_REFERENCE = re.compile(r"&#(?:[xX][0-9a-fA-F]{20,}|[0-9]{20,});?")  # of no character; Python refuses such numbers
ATTRIBUTE = re.compile(r"""([^\s=/>"']++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>]*+))?""")


@dataclass(frozen=True)
class Rules:
    """Which elements belong to words, which end a block, and which are copied; by default those of HTML.

    Args:
        copied: elements that are not translated.
        splitting: XML: elements that end a block; all others belong to words.
    """

    copied: frozenset[str] = COPIED
    splitting: frozenset[str] | None = None

    def is_inline(self, tag: str) -> bool:
        """Whether an element stands among the words of a block."""
        if self.splitting is not None:
            return tag not in self.splitting
        return tag in INLINE or tag in INLINE_VOID or tag in INLINE_COPIED

    def is_void(self, tag: str) -> bool:
        """Whether an element has no end tag."""
        return self.splitting is None and tag in VOID


HTML = Rules()


@dataclass
class Page:
    """A parsed page."""

    parts: list[str | list[Atom]] = field(default_factory=list)
    tags: list[TagText] = field(default_factory=list)  # inline ones, by number


class Token(NamedTuple):
    """A tag, a text between tags, or anything else in angle brackets; `raw` of all tokens is the page."""

    kind: Literal["start", "end", "text", "other"]
    raw: str
    name: str = ""  # of a tag, in lower case


def tokens_of(text: str, rules: Rules = HTML) -> Iterator[Token]:
    """The tokens of a page in linear time; what is no tag is text.

    >>> [(token.kind, token.raw) for token in tokens_of("1 < 2<BR/><a b='>'>")]
    [('text', '1 < 2'), ('start', '<BR/>'), ('start', "<a b='>'>")]
    """
    start = position = 0  # of the text that is read, and where the next tag is searched for
    tag = TAG
    missing: set[str] = set()  # what ends a comment or a tag and is not found any more

    def end_of(mark: str) -> int:
        """Where the next `mark` ends; 0 where there is none."""
        start = -1 if mark in missing else text.find(mark, position)
        if start < 0:
            missing.add(mark)
        return start + len(mark) if start >= 0 else 0

    while (position := text.find("<", position)) >= 0:
        match, end, name = None, 0, ""
        if text.startswith("<!--", position):
            end = end_of("-->")
        elif text.startswith("<![CDATA[", position):
            end = end_of("]]>")
        elif text.startswith(("<!", "<?", "</"), position):
            end = end_of(">")
            match = END_TAG.match(text, position) if end else None
        elif match := tag.match(text, position):
            end = match.end()
        elif START.match(text, position):
            tag = UNQUOTED_TAG  # a quote is open until the end of the page, so that quotes mean nothing from here on
            match = tag.match(text, position)
            end = match.end() if match else 0
        if not end:
            position += 1
            continue
        if start < position:
            yield Token("text", text[start:position])
        raw = text[position:end]
        name = match[1].lower() if match else ""
        yield Token(("end" if raw[1] == "/" else "start") if match else "other", raw, name)
        start = position = end
        if name in RAW_TEXT and raw[1] != "/" and rules.splitting is None:  # its tags are text
            closing = re.compile(f"</{name}(?=[\\s/>])", re.IGNORECASE).search(text, end)
            position = closing.start() if closing else len(text)
    if start < len(text):
        yield Token("text", text[start:])


class _Parser:
    """Builds a page from tokens."""

    def __init__(self, rules: Rules) -> None:
        self.page, self._rules = Page(), rules
        self._atoms: list[Atom] = []
        self._open: list[tuple[str, int, int]] = []  # name, number and first atom of open inline tags
        self._tags: Tags = ()  # their numbers
        self._deep: Counter[str] = Counter()  # open inline tags past `MAX_DEPTH`, which are opaque pieces
        self._copied: list[str] = []  # names of open elements inside of which everything is copied
        self._copied_counts: Counter[str] = Counter()
        self._raw: list[str] = []
        self._space = False  # whether white space came last
        self._lead = ""  # white space before the first atom of a block

    def feed(self, token: Token) -> None:
        """Read one token."""
        if self._copied:
            self._copy_inside(token)
        elif token.kind == "start":
            self._start(token)
        elif token.kind == "end":
            self._end(token)
        elif token.kind == "text":
            self._text(unescape(LONG_REFERENCE.sub("\ufffd", token.raw)))
        else:
            self._break(token.raw)

    def _copy_inside(self, token: Token) -> None:
        """A token inside an element that is copied; its end tag ends that."""
        self._raw.append(token.raw)
        if token.kind == "start" and not self._is_empty(token):
            self._open_copied(token.name)
        elif token.kind == "end" and self._copied_counts[token.name]:
            while self._close_copied() != token.name:
                pass
            if not self._copied:
                text, self._raw = "".join(self._raw), []
                if self._rules.is_inline(token.name):
                    self._add_opaque(text)
                else:
                    self.page.parts.append(text)

    def _open_copied(self, name: str) -> None:
        self._copied.append(name)
        self._copied_counts[name] += 1

    def _close_copied(self) -> str:
        name = self._copied.pop()
        self._copied_counts[name] -= 1
        return name

    def _is_empty(self, token: Token) -> bool:
        return token.raw.endswith("/>") or self._rules.is_void(token.name)

    def _start(self, token: Token) -> None:
        name, raw, rules = token.name, token.raw, self._rules
        if self._is_empty(token):
            if rules.is_inline(name):
                self._add_opaque(raw)
            else:
                self._break(raw)
        elif name in rules.copied or _is_refused(raw):
            if not rules.is_inline(name):
                self._flush()
            self._open_copied(name)
            self._raw = [raw]
        elif not rules.is_inline(name):
            self._break(raw)
        elif len(self._open) >= MAX_DEPTH:
            self._deep[name] += 1
            self._add_opaque(raw)
        else:
            self.page.tags.append((raw, f"</{raw[1 : 1 + len(name)]}>"))
            self._open.append((name, len(self.page.tags) - 1, len(self._atoms)))
            self._tags = (*self._tags, len(self.page.tags) - 1)

    def _end(self, token: Token) -> None:
        if not self._rules.is_inline(token.name):
            self._break(token.raw)
            return
        if self._deep[token.name]:
            self._deep[token.name] -= 1
            self._add_opaque(token.raw)
            return
        index = next((i for i in reversed(range(len(self._open))) if self._open[i][0] == token.name), None)
        if index is None:
            return  # it was never opened
        _, number, first = self._open.pop(index)
        self._tags = tuple(number for _, number, _ in self._open)
        if first == len(self._atoms):  # nothing inside: an anchor or an icon
            self._add_opaque("".join(self.page.tags[number]))

    def _text(self, text: str) -> None:
        words = atoms_of(text, self._tags)
        if not words:
            if self._atoms or self._open:
                self._space = self._space or bool(text)
            else:
                self.page.parts.append(text)
            return
        if self._atoms:
            words[0] = words[0]._replace(space=self._space or text[0].isspace())
        else:
            self._lead = text[: len(text) - len(text.lstrip())] or self._lead
        self._atoms += words
        self._space = text[-1].isspace()

    def finish(self) -> Page:
        """The page; elements that were not closed end here."""
        self.page.parts += self._raw
        self._flush()
        return self.page

    def _break(self, raw: str) -> None:
        """End the block, and copy what ends it."""
        self._flush()
        self.page.parts.append(raw)

    def _add_opaque(self, raw: str) -> None:
        self._atoms.append(Atom(raw, self._tags, self._space or not self._atoms, opaque=True))
        self._space = False

    def _flush(self) -> None:
        """End the block."""
        atoms, self._atoms = merge_words(self._atoms), []
        if atoms:
            parts: list[str | list[Atom]] = [self._lead, atoms, " " if self._space else ""]
            self.page.parts += [part for part in parts if part]
        elif self._space:
            self.page.parts.append(" ")
        self._space, self._lead = False, ""
        self._open = [(name, number, 0) for name, number, _ in self._open]


def _is_refused(tag: str) -> bool:
    """Whether a start tag says that its element is not to be translated.

    >>> [_is_refused(tag) for tag in ("<p translate=no>", "<p CLASS='a notranslate'>", "<p title='translate=no'>")]
    [True, True, False]
    """
    if "translate" not in tag:  # as most
        return False
    values = {name.lower(): value.strip("\"'") for name, value in ATTRIBUTE.findall(tag)}
    return values.get("translate") == "no" or "notranslate" in values.get("class", "").split()


def merge_words(atoms: list[Atom], is_markup: bool = True) -> list[Atom]:
    """Parts of one word, as in <b>un</b>known or <b>word</b>, as one word with the tags of its longest part.

    Args:
        is_markup: opaque pieces that are no placeholders are written as they are, so that what is joined to them has
            to be escaped.
    """
    groups: list[list[Atom]] = []
    for atom in atoms:
        is_glued = groups and not atom.space and not atom.opaque
        if is_glued and (not groups[-1][0].opaque or not has_letters(atom.text)):
            groups[-1].append(atom)
        else:
            groups.append([atom])
    return [group[0] if len(group) == 1 else _merged(group, is_markup) for group in groups]


def _merged(group: list[Atom], is_markup: bool) -> Atom:
    first, last = group[0], group[-1]
    text = "".join(atom.text for atom in group[1:])
    if first.opaque:  # punctuation stays with its placeholder
        return first._replace(text=first.text + escaped(text, is_markup and not first.is_placeholder))
    longest = max(group, key=lambda atom: sum(map(str.isalpha, atom.text)))
    tail = last.tags if last is not longest and not has_letters(last.text) else None
    return longest._replace(text=first.text + text, space=first.space, tail_tags=tail)


def parse_html(text: str, rules: Rules = HTML) -> Page:
    """A page or a fragment as parts; broken HTML is read as far as it goes."""
    parser = _Parser(rules)
    for token in tokens_of(text, rules):
        parser.feed(token)
    return parser.finish()
