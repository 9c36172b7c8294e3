"""Networks of model folders: built without initial weights, and refused where they cannot belong to the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from harken.errors import UserError
from harken.training.folder import MODEL, RECIPE
from harken.training.weights import brief, lineage

DRAWN = {  # functions of torch.Tensor and torch.nn.init that draw the first weights of networks
    *("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_"),
    *("kaiming_normal_", "orthogonal_"),
}
SPARE = 1_000_000  # parameters that a network may have beyond what its weights allow: those of small models
# What torch and Python raise on sizes that no network can have. Other errors, such as an AttributeError, are defects of
# harken and stay what they are: they must not be taken for a damaged folder.
FAILURES = (ArithmeticError, MemoryError, RuntimeError, ValueError)


@contextmanager
def fitting_weights(folder: Path) -> Iterator[None]:
    """Open a model folder inside the block: what does not fit its weights is refused, before it exhausts the machine.

    A network that registers more parameters than the folder's weights, with those of an adapter's base, have bytes
    (four times their number) belongs to another recipe. It is noticed at the first parameter too many, which is
    allocated but not yet filled.

    Raises:
        UserError: the network is too large, or cannot be built from the recipe and the other files of the folder.
    """
    files = {*folder.rglob("*.safetensors"), *lineage(folder / MODEL)}
    allowed = SPARE + sum(path.stat().st_size for path in files if path.is_file())
    count = 0

    def register(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal count
        count += 0 if parameter is None else parameter.numel()
        if count > allowed:
            raise UserError(
                f"{folder / RECIPE} describes a network of more than {count:,} parameters, but {MODEL} beside it is "
                "too small to hold them; was one replaced? Copy the folder again"
            )

    hook = register_module_parameter_registration_hook(register)
    try:
        yield
    except UserError:
        raise
    except FAILURES as problem:
        if isinstance(problem, torch.OutOfMemoryError):
            raise
        raise UserError(
            f"{folder} does not hold together: no model can be made of {RECIPE} and the files beside it "
            f"({type(problem).__name__}: {brief(problem)}); copy the folder again or train anew"
        ) from problem
    finally:
        hook.remove()


class _NothingDrawn(TorchFunctionMode):
    """Zeros in the place of random numbers."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in DRAWN:
            with torch.no_grad():
                return (args[0] if args else kwargs["tensor"]).zero_()
        return func(*args, **kwargs)


def without_initialization() -> TorchFunctionMode:
    """A context in which networks are built without random weights, as those of a file will take their place.

    >>> with without_initialization():
    ...     layer = nn.Linear(2, 2)
    >>> layer.weight.abs().sum().item()
    0.0
    """
    return _NothingDrawn()
