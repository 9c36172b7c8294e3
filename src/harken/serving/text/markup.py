"""HTML as blocks of atoms: inline tags become tags of words, everything else stays as it is written.

A page is a list of parts: strings that are copied, and blocks of atoms that are translated. Block elements (p, div, li,
td ...) end a block; inline ones (b, a, span ...) belong to the words inside them. Code, scripts, `translate="no"` and
elements without words are copied. Tags are kept letter by letter, whatever their attributes are.

>>> page = parse_html('<p class=x>The <b>black</b> cat <code>x = 1</code>.</p>')
>>> [part if isinstance(part, str) else [(atom.text, atom.tags, atom.opaque) for atom in part] for part in page.parts]
... # doctest: +NORMALIZE_WHITESPACE
['<p class=x>', [('The', (), False), ('black', (0,), False), ('cat', (), False),
 ('<code>x = 1</code>.', (), True)], '</p>']
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

from harken.serving.text.atoms import Atom, Tags, atoms_of, has_letters
from harken.serving.text.rendering import TagText

INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "g", "i"),
        *("ins", "label", "mark", "nobr", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt"),
        *("u", "var", "x"),
    )
)
VOID = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track"),
        "wbr",
    )
)
INLINE_VOID = frozenset(("img", "input", "wbr"))
COPIED = frozenset(
    (
        *("code", "kbd", "samp", "pre", "script", "style", "svg", "math", "template", "textarea", "noscript"),
        *("object", "iframe"),
    )
)
INLINE_COPIED = frozenset(("code", "kbd", "samp", "svg", "math"))


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


class _Parser(HTMLParser):
    def __init__(self, rules: Rules) -> None:
        super().__init__(convert_charrefs=True)
        self.page, self._rules = Page(), rules
        self._end_text = ""  # of the end tag that is read, letter by letter
        self._atoms: list[Atom] = []
        self._open: list[tuple[str, int, int]] = []  # name, number and first atom of open inline tags
        self._copied: list[str] = []  # names of open elements inside of which everything is copied
        self._raw: list[str] = []
        self._space = False  # whether white space came last
        self._lead = ""  # white space before the first atom of a block

    def parse_endtag(self, i: int) -> int:
        self._end_text = self.rawdata[i : self.rawdata.find(">", i) + 1]
        return super().parse_endtag(i)

    @property
    def _tags(self) -> Tags:
        return tuple(number for _, number, _ in self._open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw, named = self.get_starttag_text() or "", dict(attrs)
        if self._copied:
            self._raw.append(raw)
            if not self._rules.is_void(tag):
                self._copied.append(tag)
            return
        refused = named.get("translate") == "no" or "notranslate" in (named.get("class") or "").split()
        rules = self._rules
        if (tag in rules.copied or refused) and not rules.is_void(tag):
            if not rules.is_inline(tag):
                self._flush()
            self._copied, self._raw = [tag], [raw]
        elif rules.is_inline(tag) and not rules.is_void(tag):
            self.page.tags.append((raw, f"</{raw[1 : 1 + len(tag)]}>"))
            self._open.append((tag, len(self.page.tags) - 1, len(self._atoms)))
        elif self._rules.is_inline(tag):
            self._add_opaque(raw)
        else:
            self._flush()
            self._copy(raw)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw = self.get_starttag_text() or ""
        if self._copied:
            self._raw.append(raw)
        elif self._rules.is_inline(tag):
            self._add_opaque(raw)
        else:
            self._flush()
            self._copy(raw)

    def handle_endtag(self, tag: str) -> None:
        raw = self._end_text
        if self._copied:
            if tag in self._copied:
                while self._copied.pop() != tag:
                    pass
            self._raw.append(raw)
            if not self._copied:
                text, self._raw = "".join(self._raw), []
                if self._rules.is_inline(tag):
                    self._add_opaque(text)
                else:
                    self._copy(text)
            return
        if not self._rules.is_inline(tag):
            self._flush()
            self._copy(raw)
            return
        names = [name for name, _, _ in self._open]
        if tag not in names:
            return  # it was never opened
        index = len(names) - 1 - names[::-1].index(tag)
        _, number, first = self._open[index]
        del self._open[index]
        if first == len(self._atoms):  # nothing inside: an anchor or an icon
            self._add_opaque("".join(self.page.tags[number]))

    def handle_data(self, data: str) -> None:
        if self._copied:
            raw_text = self._copied[-1] in ("script", "style")
            self._raw.append(data if raw_text else _escape(data))
            return
        found = atoms_of(data, self._tags)
        if not found:
            if self._atoms or self._open:
                self._space = self._space or bool(data)
            else:
                self._copy(data)
            return
        if self._atoms:
            found[0] = replace(found[0], space=self._space or data[0].isspace())
        else:
            self._lead = data[: len(data) - len(data.lstrip())] or self._lead
        self._atoms += found
        self._space = data[-1].isspace()

    def handle_comment(self, data: str) -> None:
        self._add_copied(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._add_copied(f"<!{decl}>")

    def unknown_decl(self, data: str) -> None:
        self._add_copied(f"<![{data}]>")

    def handle_pi(self, data: str) -> None:
        self._add_copied(f"<?{data}>")

    def finish(self) -> Page:
        self.close()
        if self._raw:
            self._copy("".join(self._raw))
        self._flush()
        return self.page

    def _add_copied(self, raw: str) -> None:
        if self._copied:
            self._raw.append(raw)
        else:
            self._flush()
            self._copy(raw)

    def _add_opaque(self, raw: str) -> None:
        self._atoms.append(Atom(raw, self._tags, self._space or not self._atoms, opaque=True))
        self._space = False

    def _copy(self, raw: str) -> None:
        self.page.parts.append(raw)

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


def merge_words(atoms: list[Atom]) -> list[Atom]:
    """Parts of one word, as in <b>un</b>known or <b>word</b>, as one word with the tags of its longest part."""
    groups: list[list[Atom]] = []
    for atom in atoms:
        glued = groups and not atom.space and not atom.opaque
        if glued and groups[-1][-1].opaque and not has_letters(atom.text):  # punctuation stays with its placeholder
            held = groups[-1][-1]
            more = atom.text if held.is_placeholder else _escape(atom.text)
            groups[-1][-1] = replace(held, text=held.text + more)
        elif glued and not groups[-1][-1].opaque:
            groups[-1].append(atom)
        else:
            groups.append([atom])
    found = []
    for group in groups:
        longest = max(group, key=lambda atom: sum(map(str.isalpha, atom.text)))
        tail = group[-1].tags if group[-1] is not longest and not has_letters(group[-1].text) else None
        text = "".join(atom.text for atom in group)
        found.append(replace(longest, text=text, space=group[0].space, tail_tags=tail) if len(group) > 1 else longest)
    return found


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def parse_html(text: str, rules: Rules = HTML) -> Page:
    """A page or a fragment as parts; broken HTML is read as far as it goes."""
    parser = _Parser(rules)
    parser.feed(text)
    return parser.finish()
