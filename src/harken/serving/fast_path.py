"""A fast path for the routes that are called most: translations, without FastAPI's part of a request.

FastAPI matches the route, opens exit stacks, solves dependencies, parses and validates a body; that takes longer than
all else that the HTTP side does for a short text. A route of the fast path is a function of the request alone. It
returns None for what it leaves to FastAPI's route of the same path, such as a body that is not valid, so errors and the
OpenAPI description come from one place. Both call the same functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from pydantic_core import to_json

from harken.serving.errors import ApiError, error_response

Endpoint = Callable[[Request], Awaitable[Response | None]]


class FastJSONResponse(JSONResponse):
    """A value as JSON, written by pydantic's encoder: several times faster than the standard library's."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return to_json(content)


class Route(NamedTuple):
    """The name of a request in metrics and logs."""

    path: str


class FastPath:
    """ASGI middleware before FastAPI's router.

    Args:
        endpoints: functions of POST requests by their path.
    """

    def __init__(self, app: Any, endpoints: Mapping[str, Endpoint]) -> None:
        self.app = app
        self._endpoints = {path: (endpoint, Route(path)) for path, endpoint in endpoints.items()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        fast = self._endpoints.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if fast is None:
            await self.app(scope, receive, send)
            return
        endpoint, scope["route"] = fast
        request = Request(scope, receive)
        try:
            response = await endpoint(request)
        except ApiError as error:
            response = error_response(scope["path"], error)
        if response is None:
            await self.app(scope, _again(await request.body(), receive), send)
        else:
            await response(scope, receive, send)


def _again(body: bytes, receive: Any) -> Any:
    """A `receive` that gives a body that was read already, then what comes after it."""
    given = False

    async def replayed() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
