"""Glossaries of clients: pairs of terms, each glossary a JSON file in the server's state folder."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from harken.data.text.scripts import SPACED_LETTER, UNSPACED_LETTER
from harken.errors import UserError
from harken.files import atomic_write

MAX_ENTRIES, MAX_GLOSSARIES = 10_000, 1000
LONGEST_TERM = 1000  # characters
WORD = re.compile(rf"{UNSPACED_LETTER}|{SPACED_LETTER}+|[^\w\s]")  # or a mark


@dataclass(frozen=True)
class Glossary:
    """One glossary of one client."""

    glossary_id: str
    owner: str
    name: str
    source_lang: str
    target_lang: str
    creation_time: str
    entries: list[list[str]]  # source and target terms

    @property
    def terms(self) -> list[tuple[str, str]]:
        """The entries as pairs."""
        return [(source, target) for source, target in self.entries]


class Glossaries:
    """The glossaries in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Glossary] = {}
        for path in sorted(folder.glob("*.json")):
            try:
                glossary = Glossary(**json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError):
                continue  # no glossary of this server
            self._known[glossary.glossary_id] = glossary

    def create(self, owner: str, name: str, source: str, target: str, entries: list[list[str]]) -> Glossary:
        """Store a glossary.

        Raises:
            UserError: there are too many.
        """
        if len(self.of(owner)) >= MAX_GLOSSARIES:
            raise UserError(f"there are {MAX_GLOSSARIES} glossaries; delete one first")
        glossary = Glossary(
            str(uuid.uuid4()),
            owner,
            name,
            source,
            target,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            entries,
        )
        content = json.dumps(asdict(glossary), ensure_ascii=False) + "\n"
        atomic_write(self._folder / f"{glossary.glossary_id}.json", content)
        self._known[glossary.glossary_id] = glossary
        return glossary

    def of(self, owner: str) -> list[Glossary]:
        """All glossaries of a client."""
        return [glossary for glossary in self._known.values() if glossary.owner == owner]

    def find(self, owner: str, glossary_id: str) -> Glossary | None:
        """One glossary of a client."""
        glossary = self._known.get(glossary_id)
        return glossary if glossary is not None and glossary.owner == owner else None

    def delete(self, glossary: Glossary) -> None:
        """Remove a glossary."""
        self._known.pop(glossary.glossary_id, None)
        (self._folder / f"{glossary.glossary_id}.json").unlink(missing_ok=True)


def parse_entries(text: str, form: str) -> list[list[str]]:
    """Entries from tab- or comma-separated lines.

    >>> parse_entries("cat\\tchat\\ndog\\tchien", "tsv")
    [['cat', 'chat'], ['dog', 'chien']]

    Raises:
        UserError: another format, a line without two terms, a term twice, or too many.
    """
    if form not in ("tsv", "csv"):
        raise UserError(f"entries_format is {form!r}; it may be tsv or csv")
    try:
        if form == "csv":
            rows = [row for row in csv.reader(io.StringIO(text)) if row]
        else:
            rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    except csv.Error as error:
        raise UserError(f"the entries are no CSV ({error})") from None
    entries: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        terms = [part.strip() for part in row[:2]]
        if len(terms) != 2 or not all(terms) or max(map(len, terms)) > LONGEST_TERM:
            raise UserError(f"entry {number} is not a source term and a target term")
        if terms[0] in entries:
            raise UserError(f"entry {number} has a source term that is there already")
        entries[terms[0]] = terms[1]
    if not entries or len(entries) > MAX_ENTRIES:
        raise UserError(f"a glossary has 1 to {MAX_ENTRIES:,} entries")
    return [[source, target] for source, target in entries.items()]


class TermIndex:
    """Terms by their words, to find those that may be in a text in a time that does not depend on their number.

    So not all terms of a glossary travel to the worker, which matches them letter by letter.

    >>> TermIndex([("black cat", "chat noir"), ("dog", "chien"), ("cats", "chats")]).terms_in("The Black  cat!")
    [['black cat', 'chat noir']]
    >>> TermIndex([("猫", "cat"), ("犬", "dog")]).terms_in("黒い猫は")
    [['猫', 'cat']]
    """

    def __init__(self, terms: Iterable[tuple[str, str]]) -> None:
        self._terms: dict[tuple[str, ...], list[list[str]]] = {}
        self._counts: dict[str, set[int]] = {}  # the numbers of words of the terms that begin with a word
        for source, target in terms:
            words = tuple(WORD.findall(source.lower())) or ("",)
            self._terms.setdefault(words, []).append([source, target])
            self._counts.setdefault(words[0], set()).add(len(words))

    def terms_in(self, text: str) -> list[list[str]]:
        """The terms whose words are in a text."""
        words = WORD.findall(text.lower())
        keys = {
            tuple(words[start : start + count])
            for start, word in enumerate(words)
            for count in self._counts.get(word, ())
        }
        return [term for key in sorted(keys) for term in self._terms.get(key, ())]
