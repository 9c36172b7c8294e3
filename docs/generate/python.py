"""The Python API as pages of directives for mkdocstrings, which reads signatures and docstrings from the sources."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import harken
import harken.nn

HEADER = """# Python API

```python
import harken

model = harken.load("runs/demo")
print(model.translate("My brother works in a hospital.").text)
```

[Using harken from Python](../how-to/python.md) explains these names with examples. The layers are on
[a page of their own](nn.md).
"""
NN_HEADER = """# Layers: `harken.nn`

```python
import torch
from harken.nn import LSTM

output, (h, c) = LSTM(3, 5, num_layers=2)(torch.randn(7, 2, 3), lengths=torch.tensor([7, 4]))
```

Every layer is a `torch.nn.Module`. `RNN`, `LSTM`, `GRU`, their cells, `MultiheadAttention`, `Transformer` and its parts
are drop-in replacements for those of `torch.nn`: arguments, defaults, shapes, initial weights from the same seed and
names in `state_dict` are the same.

Shape letters: B batch, T time (S source, T target), I inputs, D model width, H hidden, N heads, K head width, V
vocabulary, L layers.
"""
REGISTERING = """### Registering parts

{} take a name and return a decorator, as in
`@harken.register_cell("minimal")`. [Extending](../how-to/extend.md) has examples of each.
"""
SECTIONS = {  # title -> how the module of a name starts
    "Recurrent layers and cells": ("harken.nn.recurrent", "harken.kernels.recurrent", "harken.export"),
    "Attention": ("harken.nn.attention",),
    "Transformer": ("harken.nn.transformer",),
    "Positions": ("harken.nn.positions",),
    "Convolution": ("harken.nn.convolution",),
    "Losses, masks, dropout and the rest": ("harken.nn.",),
}


def directives(names: Iterable[str], package: str) -> list[str]:
    """An entry for each name."""
    return [f"::: {package}.{name}\n" for name in names]


def module_example(value: Any) -> str:
    """The example of the module, for a name whose docstring has none."""
    if ">>>" in (inspect.getdoc(value) or ""):
        return ""
    text = inspect.getdoc(import_module(value.__module__)) or ""
    examples = [part for part in text.split("\n\n") if part.startswith(">>>")]
    return "\n".join(["```pycon", *examples, "```", ""])


def python() -> str:
    """The page of `harken`: functions, then the classes that they return."""
    names = [name for name in harken.__all__ if name not in ("nn", "__version__")]
    values = {name: getattr(harken, name) for name in names}
    functions = [name for name, value in values.items() if inspect.isfunction(value)]  # `register_cell` ... are methods
    registering = [name for name, value in values.items() if inspect.ismethod(value)]
    classes = [name for name, value in values.items() if inspect.isclass(value)]
    parts = [
        HEADER,
        "## Functions\n",
        *directives(functions, "harken"),
        REGISTERING.format(", ".join(f"`{name}`" for name in registering)),
    ]
    parts += ["## Classes\n", *directives(classes, "harken")]
    return "\n".join(parts)


def nn() -> str:
    """The page of `harken.nn`, by subject."""
    left = {name: getattr(harken.nn, name) for name in sorted(harken.nn.__all__, key=str.lower)}
    parts = [NN_HEADER]
    for title, homes in SECTIONS.items():
        names = [name for name, value in left.items() if value.__module__.startswith(homes)]
        parts.append(f"## {title}\n")
        for name in names:
            value = left.pop(name)
            home = value.__module__ if value.__module__.startswith("harken.export") else "harken.nn"  # imported late
            parts += [*directives([name], home), module_example(value)]
    assert not left, f"no section for {list(left)}"
    return "\n".join(parts)
