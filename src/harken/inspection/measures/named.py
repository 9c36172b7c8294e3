"""Layers by their number, by their name, or one after the other.

>>> from collections import namedtuple
>>> layers = NamedLayers([namedtuple("Layer", "name")("encoder"), namedtuple("Layer", "name")("decoder")])
>>> layers[0].name, layers["decoder"].name, len(layers)
('encoder', 'decoder', 2)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Layer = TypeVar("Layer")


@dataclass(frozen=True)
class NamedLayers(Generic[Layer]):
    """What was found in each layer; every one has a `name`."""

    layers: list[Layer]

    def __getitem__(self, which: int | str) -> Layer:
        if isinstance(which, int):
            return self.layers[which]
        for layer in self.layers:
            known: Any = layer
            if known.name == which:
                return layer
        names = ", ".join(str(layer.name) for layer in self.layers)  # type: ignore[attr-defined]
        raise KeyError(f"there is no layer {which!r}; there are {names}")

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)
