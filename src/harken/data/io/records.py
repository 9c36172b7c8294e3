"""JSON objects as the rows of a table: JSON Lines, and JSON in the forms that programs write tables in.

    [{"text": ..., "label": ...}, ...]             a list of objects
    {"data": [{...}, ...]}                         the same inside an object, under any key
    {"text": [...], "label": [...]}                an object of lists
    {"text": {"0": ...}, "label": {"0": ...}}      pandas' `to_json`
    {"columns": [...], "data": [[...], ...]}       pandas' `to_json(orient="split")`

>>> list(rows_of_json({"data": [{"a": 1}], "version": 2}, "x.json"))
[{'a': 1}]
>>> list(rows_of_json({"a": [1, 2], "b": ["x", "y"]}, "x.json"))
[{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}]
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.io.encodings import buffered, chunks_of
from harken.data.io.files import decode_lines, ending, open_text, readable
from harken.errors import UserError

HEAD_BYTES = 1 << 20
LINES = (".jsonl", ".ndjson")
ENDINGS = (*LINES, ".json")
Record = dict[str, Any]


def is_json(path: str | Path) -> bool:
    """Whether the name of a file says JSON or JSON Lines."""
    return ending(path) in ENDINGS


def as_object(line: str, where: str, key: str) -> Record:
    """The object on a line.

    Args:
        where: file and line, for the message.
        key: one that is required, for the message.

    Raises:
        UserError: no JSON, or no object.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON ({error}); write one object a line") from None
    if not isinstance(record, dict):
        raise UserError(f'{where} is not a JSON object; write {{"{key}": ..., ...}}')
    return record


def numbered_records(
    path: str | Path, max_line_bytes: int, encoding: str = "utf-8", key: str = "text"
) -> Iterator[tuple[int, Record | None]]:
    """The objects of a file with their numbers from 1: of the line in JSON Lines, where a blank line is None.

    Raises:
        UserError: the file cannot be read, or is no table in JSON.
    """
    with open_text(path, encoding) as stream:
        with readable(str(path), 0):
            head = stream.read(HEAD_BYTES)
        if ending(path) in LINES or _is_lines(head):
            lines = decode_lines(buffered(chain([head], chunks_of(stream)), stream), str(path), max_line_bytes)
            for number, line in enumerate(lines, start=1):
                yield number, as_object(line, f"{path}, line {number}", key) if line.strip() else None
            return
        with readable(str(path), 0):
            content = head + stream.read()
    if content.strip():
        yield from enumerate(rows_of_json(_parse(content, str(path)), str(path)), start=1)


def is_json_lines(path: str | Path) -> bool:
    """Whether a file has a JSON object on every line."""
    if ending(path) in LINES:
        return True
    with open_text(path) as stream, readable(str(path), 0):
        return _is_lines(stream.read(HEAD_BYTES))


def _is_lines(head: bytes) -> bool:
    """Whether the first line is a whole object and others follow."""
    line, _, rest = head.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")
    try:
        return bool(rest.strip()) and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _parse(content: bytes, where: str) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON ({error}); write a list of objects, or one object a line") from None


def rows_of_json(value: Any, where: str) -> Iterator[Record]:
    """The rows of a table that is one JSON value.

    Raises:
        UserError: it is none of the forms above.
    """
    if isinstance(value, dict):
        value = _rows_of_object(value)
    if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
        raise UserError(f'{where} is no table in JSON; write a list of objects: [{{"text": ..., "label": ...}}, ...]')
    yield from value


def _rows_of_object(value: Record) -> Any:
    names, cells = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(cells, list) and all(isinstance(row, list) for row in cells):
        return [dict(zip(map(str, names), row, strict=False)) for row in cells]
    tables = [inner for inner in value.values() if _is_list_of_objects(inner)]
    if len(tables) == 1:
        return tables[0]
    columns = {name: list(column.values()) if isinstance(column, dict) else column for name, column in value.items()}
    if columns and all(isinstance(column, list) for column in columns.values()):
        if len({len(column) for column in columns.values()}) > 1:
            return None
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [value]  # a table of one row


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(record, dict) for record in value)
