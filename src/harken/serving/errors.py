"""What a request can end with beside a result; each dialect writes it in its own form."""

from __future__ import annotations

import math


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
