"""Parameters and training FLOPs of a model, measured rather than derived by hand.

    parameters     counted on the model itself; `uninitialised` builds one without drawing its weights
    FLOPs          3 x those of a forward pass, as the backward pass has two products for each one of the forward pass

A model gives its `dry_run(length)`, a forward pass over one example of that length, whose products are counted by a
dispatch mode. Their number is a polynomial of degree 2 in the length (attention has the square), so three short passes
on the CPU determine it for any length. Memory and time depend on the machine: `harken.training.planning.measuring`.

The result is that of `torch.utils.flop_counter.FlopCounterMode`, as tests check. It is not used here because importing
it imports triton, and because it, and every operation on a meta tensor, imports `torch._dynamo`: together a second or
two, where the passes take some 50 ms. Kernels that would hide products from the count are turned off.

>>> from harken.models.build import build_model
>>> from harken.models.config import TransformerConfig
>>> config = TransformerConfig(layers=1, width=4, heads=2, feedforward=8, positions="none")
>>> measure(uninitialised(lambda: build_model(config, 10, 10)), length=5).parameters
{'embeddings': 40, 'encoder': 180, 'decoder': 268}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

if TYPE_CHECKING:
    from torch import Tensor, nn

BACKWARD = 2  # FLOPs of a backward pass, in forward passes
LENGTHS = (4, 8, 12)  # of the passes that determine the polynomials
SENTENCE = 24  # a typical number of tokens
PARTS = {  # attributes of models under the names that reports have for them
    **dict.fromkeys(("source_embedding", "target_embedding", "embedding", "inputs", "table"), "embeddings"),
    **dict.fromkeys(("output_weight", "output_bias", "narrow", "output", "emit", "answer", "bias", "crf"), "output"),
    **dict.fromkeys(("transform", "norm"), "output"),
    **dict.fromkeys(("stack", "first", "upper"), "layers"),
    **dict.fromkeys(("queries", "hidden", "out", "smoothing", "shift", "floor"), "head"),
    **dict.fromkeys(("ahead_mean", "ahead_deviation"), "head"),
    **dict.fromkeys(("speller", "project"), "characters"),
    "deviation": "output",
    "join": "decoder",
}

M = TypeVar("M", bound="nn.Module")


@dataclass(frozen=True, slots=True)
class Size:
    """The size of one model."""

    parameters: dict[str, int]  # by part; shared matrices are counted once
    flops: float  # of training on one term of the loss

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(self.parameters.values())

    @property
    def flops_per_target_token(self) -> int:
        """FLOPs of training on one term of the loss: a target token and its share of the source."""
        return round(self.flops)


def measure(
    model: nn.Module,
    length: int = SENTENCE,
    terms: float | None = None,
    run: Callable[[int], Tensor] | None = None,
    lengths: tuple[int, ...] = LENGTHS,
) -> Size:
    """The size of a model.

    Args:
        model: on any device; its weights are not changed, and they need not be initialised.
        length: steps of an example.
        terms: terms of the loss of such an example; where not given, one per step.
        run: a forward pass over an example of a given length; where not given, `model.dry_run`.
        lengths: of the passes for a longer example; at most what the model's positions allow.
    """
    run = run or model.dry_run  # type: ignore[assignment]
    assert run is not None
    counts = {at: _count(run, at) for at in (lengths if length > lengths[-1] else (length,))}
    flops = _extrapolate(counts, length)
    return Size(count_parameters(model), (1 + BACKWARD) * flops / (length if terms is None else terms))


def count_parameters(model: nn.Module) -> dict[str, int]:
    """Parameters by part; shared matrices are counted once."""
    parts: dict[str, int] = {}
    owners = {parameter: name for name, parameter in model.named_parameters(remove_duplicate=False)}  # the last is the
    for parameter, name in owners.items():  # module's, where a model has a name of its own for a shared matrix
        keys = [key for key in name.split(".") if key not in ("network", "reader", "members") and not key.isdigit()]
        part = PARTS.get(keys[0], keys[0])
        parts[part] = parts.get(part, 0) + parameter.numel()
    return parts


def uninitialised(build: Callable[[], M]) -> M:
    """A model whose weights were allocated but not drawn, which is fast and touches next to no memory."""
    import torch

    def leave(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor

    fills: dict[str, Any] = {name: leave for name in dir(torch.nn.init) if name.endswith("_") and name[0] != "_"}
    with torch.random.fork_rng(devices=[]), patch.multiple(torch.nn.init, **fills):
        return build()


def _count(run: Callable[[int], Tensor], length: int) -> int:
    """FLOPs of a forward pass."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        flops = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:  # to skip it, torch would import it
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            self.flops += _flops(func._schema.name.removeprefix("aten::"), args, result)
            return result

    with _visible_products(), Counter() as counter:
        run(length)
    return counter.flops


def _flops(name: str, args: Any, result: Any) -> int:
    """Two for each multiplication of a product; other operations count nothing, as in torch's counter."""
    if name in ("mm", "bmm", "mv"):
        return 2 * args[0].numel() * (args[1].shape[-1] if args[1].dim() > 1 else 1)
    if name in ("addmm", "addmm_", "baddbmm", "baddbmm_", "addmv"):
        return _flops("mm", args[1:], result)
    if name == "convolution":
        return 2 * result.numel() * args[1][0].numel()
    if name.startswith("_scaled_dot_product"):  # query (B, N, T, K), key (B, N, S, K), value (B, N, S, K')
        query, key, value = args[:3]
        return 2 * query[..., 0].numel() * key.shape[-2] * (key.shape[-1] + value.shape[-1])
    return 0


@contextmanager
def _visible_products() -> Iterator[None]:
    """Gradients on, the random state restored, no kernel with products inside: neither harken's nor oneDNN's."""
    import torch

    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(patch.dict(os.environ, {"HARKEN_KERNELS": "off"}))
        stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
        torch._C._set_mkldnn_enabled(False)
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # the passes are too small to share
        yield


def _extrapolate(known: dict[int, int], length: int) -> float:
    """The polynomial through all known values, at `length` (Lagrange).

    >>> _extrapolate({1: 1, 2: 4, 3: 9}, 10)
    100.0
    """
    total = 0.0
    for at, value in known.items():
        weight = 1.0
        for other in known:
            weight *= (length - other) / (at - other) if other != at else 1.0
        total += weight * value
    return total
