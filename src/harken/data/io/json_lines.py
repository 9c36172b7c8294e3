"""One JSON object a line, refused with its place where it is none.

>>> as_object('{"text": "a cat"}', "a.jsonl, line 1", "text")
{'text': 'a cat'}
"""

from __future__ import annotations

import json
from typing import Any

from harken.errors import UserError


def as_object(line: str, where: str, key: str) -> dict[str, Any]:
    """The object on a line.

    Args:
        where: file and line, for the message.
        key: one that is wanted, for the message.

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
