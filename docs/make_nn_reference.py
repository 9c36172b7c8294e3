"""Write docs/reference/nn.md from the docstrings of `harken.nn`: every public name with its shapes and an example.

python docs/make_nn_reference.py
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import harken.nn

PAGE = Path(__file__).parent / "reference" / "nn.md"
HEAD = """# Reference: `harken.nn`

```python
import torch
from harken.nn import LSTM

output, (h, c) = LSTM(3, 5, num_layers=2)(torch.randn(7, 2, 3), lengths=torch.tensor([7, 4]))
```

Every layer is a `torch.nn.Module`. `RNN`, `LSTM`, `GRU`, their cells, `MultiheadAttention`, `Transformer` and its parts
are drop-in replacements for those of `torch.nn`: arguments, defaults, shapes, initial weights from the same seed and
names in `state_dict` are the same. Written by `docs/make_nn_reference.py` from the docstrings.

Shape letters: B batch, T time (S source, T target), I inputs, D model width, H hidden, N heads, K head width, V
vocabulary, L layers.
"""
SECTIONS = {  # title -> how the module of a name starts
    "Recurrent layers and cells": ("harken.nn.recurrent", "harken.kernels.recurrent", "harken.export"),
    "Attention": ("harken.nn.attention",),
    "Transformer": ("harken.nn.transformer",),
    "Positions": ("harken.nn.positions",),
    "Convolution": ("harken.nn.convolution",),
    "Losses, masks, dropout and the rest": ("harken.nn.",),
}


def page() -> str:
    """The whole page."""
    left = {name: getattr(harken.nn, name) for name in sorted(harken.nn.__all__, key=str.lower)}
    parts = [HEAD]
    for title, homes in SECTIONS.items():
        names = [name for name, value in left.items() if value.__module__.startswith(homes)]
        links = ", ".join(f"[`{name}`](#{name.lower()})" for name in names)
        parts += [f"## {title}\n\n{links}\n", *(entry(name, left.pop(name)) for name in names)]
    assert not left, f"no section for {list(left)}"
    return "\n".join(parts)


def entry(name: str, value: Any) -> str:
    """One name: signature, what it is, what a call takes and returns, an example."""
    prose, example = split(inspect.getdoc(value) or "")
    lines = [f"### {name}\n", f"```text\n{signature(name, value)}\n```\n", prose]
    called = vars(value).get("forward") or getattr(value, "forward", None) if inspect.isclass(value) else None
    if called is not None and "torch.nn.modules" not in called.__module__:
        lines.append(f"**Call** `{call(called)}`: {split(inspect.getdoc(called) or '')[0]}")
    example = example or split(import_module(value.__module__).__doc__ or "")[1]
    lines.append(f"```pycon\n{example}\n```\n")
    return "\n\n".join(line.strip("\n") for line in lines if line.strip()) + "\n"


def signature(name: str, value: Any) -> str:
    """The arguments without their types, folded into lines."""
    arguments = list(inspect.signature(value).parameters.values())
    found = [argument(one) for one in arguments]
    named = [place for place, one in enumerate(arguments) if one.kind is one.KEYWORD_ONLY]
    if named and not any(one.kind is one.VAR_POSITIONAL for one in arguments):
        found.insert(named[0], "*")
    lines = [f"harken.nn.{name}("]
    for number, part in enumerate(found):
        text = part + (", " if number < len(found) - 1 else ")")
        if len(lines[-1]) + len(text) > 100:
            lines.append("    ")
        lines[-1] += text
    if not found:
        lines[-1] += ")"
    return "\n".join(line.rstrip() for line in lines)


def argument(one: inspect.Parameter) -> str:
    """`name=default`."""
    star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    default = "" if one.default is one.empty else f"={getattr(one.default, '__name__', None) or repr(one.default)}"
    return f"{star}{one.name}{default}"


def call(function: Any) -> str:
    """`(input, hx=None)`."""
    return f"({', '.join(argument(one) for one in list(inspect.signature(function).parameters.values())[1:])})"


def split(text: str) -> tuple[str, str]:
    """A docstring's prose and its examples."""
    prose: list[str] = []
    example: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>>"):
            inside = True
        elif not line.strip():
            inside = False
        (example if inside else prose).append(line)
    return paragraphs("\n".join(prose).strip()), "\n".join(example)


def paragraphs(text: str) -> str:
    """Lists of arguments, and anything indented or laid out in columns, keep their lines."""
    found = []
    for part in re.split(r"\n\s*\n", text):
        lines = part.splitlines()
        laid_out = any(line.startswith(" ") for line in lines) or any(re.search(r"\S {2,}\S", line) for line in lines)
        found.append(f"```text\n{part}\n```" if laid_out and len(lines) > 1 else part)
    return "\n\n".join(found)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
