"""Upper bounds of the numbers in a recipe, checked before anything is built.

Every number has one: by its key where memory or time give a natural bound, else the default. A value past it is a
typing error or a damaged file, and would hang or exhaust the machine instead of giving an error.

>>> check_limits({"model": {"layers": 10**23}}, "my.toml")
Traceback (most recent call last):
harken.errors.UserError: model.layers is 100000000000000000000000 in my.toml, but must be at most 1,000
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harken.errors import UserError

DEFAULT = 10**12  # steps, bytes, tokens: more than any run uses
LIMITS = {
    "layers": 1_000,
    "encoder_layers": 1_000,
    "decoder_layers": 1_000,
    "depth": 1_000,
    "heads": 1_024,
    "experts": 4_096,
    "width": 131_072,
    "embedding": 131_072,
    "feedforward": 1_048_576,
    "channels": 131_072,
    "kernel": 10_001,
    "kernels": 10_001,
    "max_length": 10_000_000,
    "mixtures": 10_000,
    "beam": 10_000,
    "length_penalty": 100,  # lengths to a higher power overflow
    "workers": 4_096,
    "threads": 4_096,
    "batch_tokens": 10**9,
    "image_size": 16_384,
    "horizon": 1_000_000,
    "seed": 2**63 - 1,
}
DEPTH = 20  # tables inside tables


def check_limits(values: Any, origin: str, key: str = "", name: str = "", depth: int = 0) -> None:
    """Refuse numbers past their bound, and tables nested too deeply, anywhere in a recipe.

    Raises:
        UserError: with the key, what was found and the bound.
    """
    if depth > DEPTH:
        raise UserError(f"{key[:80]} in {origin} is nested more than {DEPTH} tables deep; a recipe has two or three")
    if isinstance(values, Mapping):
        for inner, value in values.items():
            check_limits(value, origin, f"{key}.{inner}" if key else str(inner), str(inner), depth + 1)
    elif isinstance(values, (list, tuple)):
        for place, value in enumerate(values):
            check_limits(value, origin, f"{key}[{place}]", name, depth + 1)
    elif isinstance(values, (int, float)) and not isinstance(values, bool):
        limit = LIMITS.get(name, DEFAULT)
        if abs(values) > limit and abs(values) != float("inf"):
            shown = str(values) if abs(values) < 10**30 else f"a number of {len(str(int(abs(values))))} digits"
            raise UserError(f"{key[:80]} is {shown} in {origin}, but must be at most {limit:,}")
