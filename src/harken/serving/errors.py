"""The errors that a request can end with, and how each dialect writes them."""

from __future__ import annotations

import math

from fastapi.responses import JSONResponse, Response

LIBRETRANSLATE = ("/translate", "/detect", "/translate_file", "/suggest")


class ApiError(Exception):
    """A request that fails, with its HTTP status.

    Args:
        status: 400 a bad request, 403 a bad key, 413 too large, 429 too many, 500 an internal error, 503 or 504 late.
        message: one sentence for the client.
        retry_after: seconds after which the client may try again.
    """

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.retry_after = None if retry_after is None else max(1, math.ceil(retry_after))

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` where it is known."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class MissingKey(ApiError):
    """The server needs a key, and there is none."""

    def __init__(self) -> None:
        super().__init__(401, "an API key is needed")


class WrongKey(ApiError):
    """The server does not know the key."""

    def __init__(self) -> None:
        super().__init__(403, "the API key is not valid")


class QuotaExceeded(ApiError):
    """The characters of a key are used up."""

    def __init__(self) -> None:
        super().__init__(403, "the characters of this API key are used up")


class TextLimitExceeded(ApiError):
    """A request has more texts or characters than the server takes at a time."""

    def __init__(self, message: str) -> None:
        super().__init__(413, message)


class QueueFull(ApiError):
    """There is no room for a request now."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(429, "the server is busy; try again later", retry_after)


class DeadlinePassed(ApiError):
    """A request waited longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(504, f"no result within {seconds:g} seconds; send less text, or try again later", 1)


class WorkerFailed(ApiError):
    """The worker process died while it worked on a request, and again when it was tried anew."""

    def __init__(self) -> None:
        super().__init__(500, "the worker process died while it worked on this request")


def error_response(path: str, error: ApiError) -> Response:
    """An error as the dialect of a path writes it."""
    status, message = error.status, error.message
    if path.startswith(("/v2/", "/v3/")):  # DeepL
        if isinstance(error, MissingKey | WrongKey):
            status, message = 403, "Authorization failed. Please supply a valid DeepL-Auth-Key."
        elif isinstance(error, QuotaExceeded):
            status, message = 456, "Quota Exceeded"
        return JSONResponse({"message": message}, 503 if status == 504 else status, error.headers)
    if path in LIBRETRANSLATE and isinstance(error, TextLimitExceeded):
        status = 400  # as LibreTranslate answers texts that are too long
    elif path in LIBRETRANSLATE and isinstance(error, MissingKey):
        status, message = 400, "Please contact the server operator to get an API key"
    elif path in LIBRETRANSLATE and isinstance(error, WrongKey):
        message = "Invalid API key"
    return JSONResponse({"error": message}, status, error.headers)
