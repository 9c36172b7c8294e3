"""Parameters of a request wherever they are: query string, form, or JSON body."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from starlette.datastructures import FormData, UploadFile

from harken.serving.errors import ApiError

STRING: dict[str, Any] = {"type": "string"}
TEXT = {"oneOf": [STRING, {"type": "array", "items": STRING}]}
FILE = {"type": "string", "format": "binary"}
MAX_PART = 1 << 40  # bytes of a field in a form: the server limits the body
JSON_OR_FORM = ("application/json", "application/x-www-form-urlencoded")


def request_body(required: tuple[str, ...], **fields: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI description of a body that `parameters_of` reads; one with a file is a multipart form."""
    kinds = ("multipart/form-data",) if FILE in fields.values() else JSON_OR_FORM
    schema = {"type": "object", "required": list(required), "properties": fields}
    return {"requestBody": {"required": bool(required), "content": {kind: {"schema": schema} for kind in kinds}}}


class Parameters:
    """The parameters of one request; values are strings, lists, numbers or files."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def text(self, name: str, default: str | None = None) -> str | None:
        """A string.

        Raises:
            ApiError: it is something else.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise ApiError(400, f"Invalid request: {name} is not a string")
        return value

    def texts(self, name: str) -> list[str] | None:
        """A list of strings; one string is a list of one.

        Raises:
            ApiError: it is something else.
        """
        value = self.values.get(name)
        if value is None:
            return None
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in values):
            raise ApiError(400, f"Invalid request: {name} is neither a string nor a list of strings")
        return values

    def is_off(self, name: str) -> bool:
        """Whether a switch is given as 0 or false."""
        return str(self.values.get(name, "")).lower() in ("0", "false")

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number from 0 on.

        Raises:
            ApiError: it is something else.
        """
        value = self.values.get(name, default)
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            raise ApiError(400, f"Invalid request: {name} is not a number") from None
        if not 0 <= number <= most:
            raise ApiError(400, f"Invalid request: {name} must be between 0 and {most}")
        return number

    def is_list(self, name: str) -> bool:
        """Whether a list was sent, and not one string."""
        return isinstance(self.values.get(name), list)

    def file(self, name: str) -> UploadFile | None:
        """An uploaded file."""
        value = self.values.get(name)
        return value if isinstance(value, UploadFile) else None


async def parameters_of(request: Request) -> Parameters:
    """Everything that a request says.

    Raises:
        ApiError: a JSON body that is none, or a form that cannot be read.
    """
    values = _grouped(request.query_params.multi_items())
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        try:
            form: FormData = await request.form(max_files=4, max_fields=2000, max_part_size=MAX_PART)
        except ApiError:
            raise
        except Exception:
            raise ApiError(400, "Invalid request: the form cannot be read") from None
        values |= _grouped(form.multi_items())
        return Parameters(values)
    body = await request.body()
    if kind == "application/json" or body.lstrip()[:1] == b"{":
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            raise ApiError(400, "Invalid JSON format") from None
        if not isinstance(content, dict):
            raise ApiError(400, "Invalid JSON format")
        values |= {name: value for name, value in content.items() if value is not None}
    return Parameters(values)


def _grouped(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """One value as it is, several of a name as a list."""
    groups: dict[str, list[Any]] = {}
    for name, value in items:
        groups.setdefault(name, []).append(value)
    return {name: group[0] if len(group) == 1 else group for name, group in groups.items()}
