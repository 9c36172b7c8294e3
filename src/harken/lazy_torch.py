"""torch, imported when it is first used: for modules that also serve models which run without it.

>>> torch.tensor([1, 2]).tolist()
[1, 2]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("torch"), name)
            setattr(self, name, value)  # the next look-up does not come here
            return value

    torch = _Torch()


def is_loaded() -> bool:
    """Whether torch is imported."""
    return "torch" in sys.modules


_without_torch = local()


def num_threads() -> int:
    """The threads of torch's operators in this thread; where it is not imported, one, or those of `limited_threads`."""
    return torch.get_num_threads() if is_loaded() else getattr(_without_torch, "threads", 1)


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Inside, `num_threads` is this number in this thread."""
    if is_loaded():
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)
        return
    _without_torch.threads = count
    try:
        yield
    finally:
        _without_torch.threads = 1


def as_array(value: Any) -> Any:
    """A tensor on the CPU as an array of the same memory; an array as it is."""
    return value if isinstance(value, np.ndarray) else value.detach().numpy()


P = ParamSpec("P")
R = TypeVar("R")


def no_grad(function: Callable[P, R]) -> Callable[P, R]:
    """A function that runs without gradients, as `torch.no_grad()` decorates it."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.no_grad():
            return function(*args, **kwargs)

    return run
