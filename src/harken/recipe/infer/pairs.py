"""Recipes for sentence pairs in two aligned files, translation memories or archives of OPUS, and their languages."""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, permutations, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

from harken.data.io.files import COMPRESSIONS, DAMAGED, MAX_LINE_BYTES, decode_lines, read_lines
from harken.data.io.formats import SUGGESTION
from harken.data.io.records import numbered_records
from harken.data.io.translation_memories import read_units
from harken.data.text.languages import THREE_LETTERS, code_in_name, detect, language_name
from harken.errors import UserError
from harken.recipe.infer.columns import Table
from harken.recipe.infer.inferred import Conversion, Inferred
from harken.recipe.infer.questions import Undecided
from harken.recipe.infer.refusals import refuse

LANGUAGE_FILE = re.compile(
    r"(.+?)\.((?!gz|xz|zst|zip)[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?|source|target)(\.gz|\.xz|\.bz2|\.zst)?"
)
SIDES = {"src", "tgt", "trg"}
NO_LANGUAGES = {"md", "ts", "py", "sh", "js", "gz", "xz", "7z", "db"}  # of two letters
PAIR_IN_NAME = re.compile(r"(?:^|[._ -])([a-z]{2,3})[-_]([a-z]{2,3})(?=$|[._ -])")
SAMPLE = 2000  # units or lines that are looked at


def language_keys(names: Sequence[str], path: Path, texts: Sequence[Sequence[str]]) -> dict[str, str]:
    """`source_language` and `target_language` by the names of two columns, the name of the file, or the texts.

    >>> language_keys(["0", "1"], Path("news.de-en.tsv"), [["1"], ["2"]])
    {'source_language': 'de', 'target_language': 'en'}
    """
    codes = [code_in_name(name) for name in names]
    detected: list[str | None] = [None, None]
    if None in codes:
        detected = [detect(side) for side in texts]
        named = [code_in_name(code) for code in (PAIR_IN_NAME.findall(path.name.lower()) or [("", "")])[-1]]
        if None not in named and codes == [None, None]:
            codes = named[::-1] if detected == named[::-1] else named
    codes = [code or other for code, other in zip(codes, detected, strict=True)]
    if codes[0] == codes[1]:
        return {}  # a paraphrase, or too little text
    return {f"{side}_language": code for side, code in zip(("source", "target"), codes, strict=True) if code}


def format_languages(keys: Mapping[str, str]) -> str:
    """The languages of a recipe's pairs in words; empty where they are not known.

    >>> format_languages({"source_language": "en", "target_language": "ja"})
    ', English to Japanese'
    """
    sides = [language_name(keys[side]) if side in keys else "?" for side in ("source_language", "target_language")]
    return "" if sides == ["?", "?"] else f", {' to '.join(sides)}"


def language_files(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Files NAME.LANG by NAME and LANG, where two or more languages have the same name.

    >>> language_files(["Books.de-en.de", "Books.de-en.en", "Books.de-en.xml", "README", "film.pos", "film.neg"])
    {'Books.de-en': {'en': 'Books.de-en.en', 'de': 'Books.de-en.de'}}
    """
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        match = LANGUAGE_FILE.fullmatch(name)
        if match and match[2] not in NO_LANGUAGES and (len(match[2]) != 3 or match[2] in THREE_LETTERS.keys() | SIDES):
            groups.setdefault(match[1], {})[match[2]] = name
    in_order = {stem: sorted(files, key=lambda code: (code != "en", code)) for stem, files in groups.items()}
    return {stem: {code: groups[stem][code] for code in codes} for stem, codes in in_order.items() if len(codes) > 1}


def choose_pair(path: Path, languages: Sequence[str], pair: str | None, what: str) -> tuple[str, str]:
    """Two of several languages: the first two, or those of `pair`.

    Raises:
        Undecided: there are more than two, and none were chosen.
        UserError: the pair that was chosen is not there.
    """
    if pair is not None:
        chosen = next(((a, b) for a, b in permutations(languages, 2) if f"{a}-{b}" == pair), None)
        if chosen is None:
            raise UserError(f"{path} has {what} in {', '.join(languages)}, not {pair}; give two of these, source first")
        return chosen
    if len(languages) > 2:
        choices = [{"pair": "-".join(two)} for two in permutations(languages, 2)]
        raise Undecided(f"{path} has {what} in {', '.join(languages)}", "Which languages, source first?", choices)
    return languages[0], languages[1]


def infer_aligned(source: Path, target: Path, names: Sequence[str]) -> Inferred:
    """Two files whose lines are translations of each other; `names` are their endings."""
    sides = [list(islice(read_lines(path), SAMPLE)) for path in (source, target)]
    keys = language_keys(names, source, sides)
    rows = [list(row) for row in zip(*sides, strict=False)]
    data = {"source": str(source), "target": str(target), "format": "text"} | keys
    reason = f"lines of {source.name} and their translations in {target.name}{format_languages(keys)}"
    return Inferred("translate", reason, data, sample=_sample(source, names, rows))


def infer_language_folder(folder: Path, languages: Sequence[str], pair: str | None) -> Inferred:
    """Files train.LANG, with those for validation and testing beside them."""
    source, target = choose_pair(folder, languages, pair, "train files")
    sides = [_beginning(folder, f"train.{language}") for language in (source, target)]
    keys = language_keys([source, target], folder, sides)
    known = {f"{side}_language": code for side, code in (("source", source), ("target", target))}
    own = {key: code for key, code in keys.items() if code != known[key].lower()}
    rows = [list(row) for row in zip(*sides, strict=False)]
    data = {"dir": str(folder), "pair": f"{source}-{target}", **own}
    reason = f"files train.LANG, {source}-{target}{format_languages(keys)}"
    return Inferred("translate", reason, data, sample=_sample(folder, (source, target), rows))


def _beginning(folder: Path, name: str) -> list[str]:
    paths = [folder / f"{name}{ending}" for ending in ("", *COMPRESSIONS)]
    path = next(path for path in paths if path.is_file())
    return list(islice(read_lines(path), SAMPLE))


def infer_memory(path: Path, pair: str | None) -> Inferred:
    """A translation memory: TMX or XLIFF."""
    units = list(islice(read_units(path), SAMPLE))
    counts = Counter(language for unit in units for language, text in unit.items() if text)
    if len(counts) < 2:
        raise UserError(
            f"{path} holds no unit with texts in two languages; check that it is a translation memory (TMX, XLIFF) "
            "with translations in it"
        )
    source, target = choose_pair(path, _in_order(units, counts), pair, "units")

    def pairs() -> Iterator[tuple[str, str]]:
        for unit in read_units(path):
            if unit.get(source) and unit.get(target):
                yield unit[source], unit[target]

    return _converted_pairs(path, (source, target), pairs, "units of a translation memory")


def _in_order(units: Sequence[Mapping[str, str]], counts: Mapping[str, int]) -> list[str]:
    """Languages as the units have them: the source first."""
    return list(dict.fromkeys(language for unit in units for language in unit if language in counts))


def infer_archive(path: Path, pair: str | None) -> Inferred | None:
    """A zip of OPUS with two aligned files; None where it holds a single file, which is read as it is.

    Raises:
        UserError: it holds something else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and "__MACOSX" not in name]
    except (OSError, *DAMAGED) as problem:
        raise UserError(f"{path} is no zip archive ({problem}); download it again") from None
    groups = language_files(names)
    if len(names) == 1 or not groups:
        return None if len(names) == 1 else refuse(path, "an archive", "unzip {0} -d {1} && harken train {1}")
    files = next(iter(groups.values()))
    source, target = choose_pair(path, [*files], pair, "files")

    def pairs() -> Iterator[tuple[str, str]]:
        names = files[source], files[target]
        with zipfile.ZipFile(path) as archive, archive.open(names[0]) as left, archive.open(names[1]) as right:
            streams = cast(BinaryIO, left), cast(BinaryIO, right)
            sides = [decode_lines(stream, f"{path}, {name}") for stream, name in zip(streams, names, strict=True)]
            for number, row in enumerate(zip_longest(*sides), start=1):
                if None in row:
                    short = names[row.index(None)]
                    raise UserError(f"{path}: {short} ends before line {number} of the other file; download it again")
                yield row[0], row[1]

    return _converted_pairs(path, (source, target), pairs, "aligned files of an archive")


def infer_suggestions(path: Path, pair: str | None) -> Inferred | None:
    """Better translations that `harken serve --suggestions` collected; None where the file holds something else.

    The pairs are copied, as the server goes on writing the file.
    """

    def records() -> Iterator[Mapping[str, Any]]:
        return (record for _, record in numbered_records(path, MAX_LINE_BYTES) if record)

    if not (first := next(records(), None)) or first.keys() != {*SUGGESTION, "source", "target"}:
        return None
    known = list(dict.fromkeys(f"{record['source']}-{record['target']}" for record in records()))
    if pair is None and len(known) > 1:
        choices = [{"pair": pair_name} for pair_name in known]
        raise Undecided(f"{path} has suggestions for {', '.join(known)}", "Which languages, source first?", choices)
    if pair is not None and pair not in known:
        raise UserError(f"{path} has suggestions for {', '.join(known)}, not {pair}; give one of these")
    source, target = (pair or known[0]).split("-", 1)

    def pairs() -> Iterator[tuple[str, str]]:
        for record in records():
            if (record["source"], record["target"]) == (source, target):
                yield " ".join(record["q"].split()), " ".join(record["s"].split())

    return _converted_pairs(path, (source, target), pairs, "suggested translations")


def _converted_pairs(
    path: Path, names: tuple[str, str], pairs: Callable[[], Iterator[tuple[str, str]]], what: str
) -> Inferred:
    """Pairs that are written as JSONL beside the recipe."""
    rows = [list(row) for row in islice(pairs(), SAMPLE)]
    keys = language_keys(names, path, list(zip(*rows, strict=True)) or [[], []])
    columns = {"source_column": names[0], "target_column": names[1]}

    def lines() -> Iterator[str]:
        for row in pairs():
            yield json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)

    data: dict[str, Any] = {"format": "jsonl", **columns, **keys}
    reason = f"{what}, {names[0]} to {names[1]}"
    conversion = Conversion(".jsonl", lines)
    return Inferred("translate", reason, data, {}, {"source": conversion}, _sample(path, names, rows))


def _sample(path: Path, names: Sequence[str], rows: list[list[str]]) -> Table:
    return Table(str(path), list(names), rows, is_cut=len(rows) == SAMPLE)
