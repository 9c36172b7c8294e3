"""Checks for kernels with a backward pass of their own: whether they can run, and be differentiated twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def takes_torch_steps() -> bool:
    """Whether torch.compile or a transform of torch.func records the call, so that each step has to be torch's own."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def takes_torch_operators() -> bool:
    """The same, or torch.jit.trace records it, which knows torch's loops, but no function of Python."""
    return takes_torch_steps() or torch.jit.is_tracing()


def first_order(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For a backward pass that cannot be differentiated: refuse it with `create_graph=True`.

    Torch's `once_differentiable` refuses only where the gradient that comes in requires one itself, and gives a wrong
    second derivative without an error where it is a constant, as that of a sum is.
    """

    def decorate(backward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(backward)
        def checked(ctx: Any, *gradients: Any) -> Any:
            if torch.is_grad_enabled() and not torch.compiler.is_compiling():
                raise RuntimeError(
                    f"{what} has no second derivatives (create_graph=True): set HARKEN_KERNELS=off, or call the "
                    "reference"
                )
            return backward(ctx, *gradients)

        return checked

    return decorate
