"""One implementation of an operation, and the rule for when it is used: the protocol of all fast paths.

The backends of an operation are listed from the most preferred to the reference, which runs every call. Each has a
rule: the reason for which it does not run a call, or None where it can and was measured to be faster than those after
it. The modules that list backends say where a rule was measured.

>>> even = Backend("even", lambda number: "the number is odd" if number % 2 else None, lambda number: number // 2)
>>> halves = [even, reference("halves", lambda number: number / 2)]
>>> [choose(halves, number).run(number) for number in (4, 5)], even.why_not(5)
([2, 2.5], 'the number is odd')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from harken.kernels.settings import kernels_enabled

Result = TypeVar("Result", covariant=True)
AnyBackend = TypeVar("AnyBackend", bound="Backend[Any]")


@dataclass(eq=False)
class Backend(Generic[Result]):
    """One implementation of an operation.

    Args:
        name: its name in messages and tests.
        rule: see above; it is given what decides about a call, for most operations their arguments.
        run: runs a call.
        is_kernel: whether `HARKEN_KERNELS=off` leaves it out.
    """

    name: str
    rule: Callable[..., str | None]
    run: Callable[..., Result]
    is_kernel: bool = True

    def why_not(self, *call: Any) -> str | None:
        """The reason for which it does not run a call; None: it does."""
        reason = self.rule(*call)
        if reason is None and self.is_kernel and not kernels_enabled():
            return "HARKEN_KERNELS=off is set"
        return reason

    def supports(self, *call: Any) -> bool:
        """Whether it runs a call."""
        return self.why_not(*call) is None


def always(*call: Any) -> str | None:
    """The rule of a reference."""
    return None


def reference(name: str, run: Callable[..., Result]) -> Backend[Result]:
    """The last backend of a list, which runs every call."""
    return Backend(name, always, run, is_kernel=False)


def choose(backends: Iterable[AnyBackend], *call: Any) -> AnyBackend:
    """The first backend that supports a call."""
    for backend in backends:  # a generator would cost as much as all rules of a small call
        if backend.why_not(*call) is None:
            return backend
    raise RuntimeError("internal error: no backend is a reference, which runs every call")
