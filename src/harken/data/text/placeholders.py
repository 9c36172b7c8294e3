"""Markup that is the same in both languages, replaced by numbered symbols that a model learns to copy.

A program's names in documentation (:func:`open`, ``None``), variables (%s, {name}), tags and addresses are no words of
a language: a model spells them badly and need not spell them at all. Each different span of a sentence is replaced by a
symbol, a character for private use, before the text is encoded, and put back after it was decoded. A kind of markup is
replaced where the training data copy it more often than they translate it.

>>> placeholders = Placeholders(frozenset({":func:", "``"}))
>>> masked, spans = placeholders.mask("call :func:`open` or ``None``, never :func:`open`")
>>> masked == f"call {SYMBOLS[0]} or {SYMBOLS[1]}, never {SYMBOLS[0]}", spans
(True, (':func:`open`', '``None``'))
>>> fill(f"appelez {SYMBOLS[0]} ou {SYMBOLS[1]}, jamais {SYMBOLS[0]}", masked, spans)
'appelez :func:`open` ou ``None``, jamais :func:`open`'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

URL = r"(?:https?://|ftp://|www\.)[^\s<>\"'、。]+[^\s<>\"'.,;:!?)\]、。]"
EMAIL = r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}"  # bounded, so that no text takes quadratic time
BRACES = r"\$?\{\{?[^{}\s]*\}?\}"
PRINTF = r"%(?:\([\w.]{1,64}\)|\d{1,3}\$)?[-+#0]{0,5}\d{0,6}(?:\.\d{1,6})?[sdifgeuxXcr@](?![\w%])|%%"
QUOTED = r"`[^`]{1,200}`"
PATTERNS = {  # kind of markup -> pattern, the first that matches
    "role": r"(?::[\w+.-]{1,32}){1,3}:" + QUOTED,  # its kind is its name, as :func:
    "``": r"``[^`]{1,200}``",
    "`_": QUOTED + "__?",
    "`": QUOTED,
    "**": r"\*\*[^\s*][^*]{0,200}\*\*",
    "*": r"\*[^\s*][^*]{0,200}\*",
    "url": URL,
    "email": EMAIL,
    "{}": BRACES,
    "<>": r"</?[A-Za-z][^<>]{0,200}>",
    "%": PRINTF,
}
NAMES = {f"kind{number}": kind for number, kind in enumerate(PATTERNS)}
SPAN = re.compile("|".join(f"(?P<{name}>{PATTERNS[kind]})" for name, kind in NAMES.items()))
SYMBOLS = tuple(map(chr, range(0xE000, 0xE010)))  # of Unicode's private use area; more spans of a text stay as they are
SYMBOL = re.compile(f"[{SYMBOLS[0]}-{SYMBOLS[-1]}]")
SAMPLE = 20_000  # pairs in which kinds of markup are counted
ENOUGH = 5  # spans of a kind
FEWEST = 0.01  # pairs with markup, of all; symbols for fewer are not learned


@dataclass(frozen=True)
class Placeholders:
    """The kinds of markup that are replaced, and the number of symbols that the tokenizers know."""

    kinds: frozenset[str] = frozenset()
    count: int = len(SYMBOLS)

    @classmethod
    def of(cls, kinds: Any, *tokenizers: Any) -> Placeholders:
        """The placeholders of a recipe's `data.markup` with these tokenizers; "auto" is of a model without any."""
        if kinds == "auto" or not kinds:
            return cls()
        known = (
            all(tokenizer.fallback_ids.isdisjoint(tokenizer.encode(symbol)) for tokenizer in tokenizers)
            for symbol in SYMBOLS
        )
        return cls(frozenset(kinds), sum(takewhile(bool, known)))

    def mask(self, text: str) -> tuple[str, tuple[str, ...]]:
        """A text with symbols in the place of its spans, and each different span in the order of the symbols."""
        if not self.kinds or SYMBOL.search(text):
            return text, ()
        symbols: dict[str, str] = {}

        def symbol(match: re.Match[str]) -> str:
            span = match.group()
            if span not in symbols and (len(symbols) == self.count or kind_of(match) not in self.kinds):
                return span
            return symbols.setdefault(span, SYMBOLS[len(symbols) % len(SYMBOLS)])

        return SPAN.sub(symbol, text), tuple(symbols)

    def mask_pair(self, source: str, target: str, as_read: bool = False) -> tuple[str, str]:
        """Both sides with symbols for the spans that both have; a span of one side alone stays as it is.

        Args:
            as_read: the source as it is read without its target, with symbols for all of its spans.
        """
        if not self.kinds or not (spans := self.mask(source)[1]) or SYMBOL.search(target):
            return source, target
        there = {match.group() for match in SPAN.finditer(target)}
        symbols = dict(zip((span for span in spans if as_read or span in there), SYMBOLS, strict=False))

        def symbol(match: re.Match[str]) -> str:
            return symbols.get(match.group(), match.group())

        return SPAN.sub(symbol, source), SPAN.sub(symbol, target)

    def mask_columns(self, columns: Sequence[Sequence[str]], as_read: bool = False) -> Sequence[Sequence[str]]:
        """`mask_pair` of the two sides of many pairs."""
        if not self.kinds:
            return columns
        pairs = [self.mask_pair(*sides, as_read) for sides in zip(columns[0], columns[1], strict=True)]
        return [source for source, _ in pairs], [target for _, target in pairs]


def kind_of(match: re.Match[str]) -> str:
    """The kind of a span; one with a text beside its address, `text <address>`, is another kind than one without."""
    kind, span = NAMES[str(match.lastgroup)], match.group()
    if kind == "role":
        kind = span[: span.index("`")]
    return f"{kind}<>" if span.endswith(">`") else kind


def fill(text: str, masked: str, spans: Sequence[str]) -> str:
    """A translation with the spans of its source, which was `masked`, in the place of symbols.

    A symbol that the source has less often becomes the first span that was not used before; without one it is removed.
    What is written for the beginning of a text does not depend on the rest.
    """
    if not spans or not SYMBOL.search(text):
        return text
    left = Counter(SYMBOL.findall(masked))
    parts = [""]
    for part in re.split(f"({SYMBOL.pattern})", text):
        if not SYMBOL.fullmatch(part):
            is_doubled = part[:1] == " " and len(parts) > 1 and parts[-1] == "" and text[:1] != " "
            parts.append(part[1:] if is_doubled else part)
            continue
        symbol = part if left[part] > 0 else next((symbol for symbol in left if left[symbol] > 0), None)
        if symbol is None:
            parts.append("")
        else:
            left[symbol] -= 1
            parts.append(spans[SYMBOLS.index(symbol)])
    return "".join(parts)


def misplaced(text: str, masked: str) -> int:
    """The number of symbols that a translation lacks or has too much."""
    read, written = Counter(SYMBOL.findall(masked)), Counter(SYMBOL.findall(text))
    return (read - written).total() + (written - read).total()


def copied_kinds(pairs: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The kinds of markup that pairs copy more often than not, sorted; none where few pairs have any."""
    total, copied, marked, count = Counter[str](), Counter[str](), 0, 0
    for source, target, *_ in pairs:
        count += 1
        spans = [(kind_of(match), match.group()) for match in SPAN.finditer(source)]
        if not spans:
            continue
        marked += 1
        left = Counter(match.group() for match in SPAN.finditer(target))
        for kind, span in spans:
            total[kind] += 1
            copied[kind] += left[span] > 0
            left[span] -= 1
    if marked < max(ENOUGH, FEWEST * count):
        return ()
    return tuple(sorted(kind for kind in total if total[kind] >= ENOUGH and 2 * copied[kind] > total[kind]))
