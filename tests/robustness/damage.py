"""Ways to damage a model folder, drawn at random from a seed."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w
import torch
from safetensors import safe_open
from safetensors.torch import save_file

EXTREMES: list[Any] = [
    *(0, -1, 1, 2, 3, 7, 10**6, 10**11, 10**23, 1.5, -0.0, float("nan"), float("inf")),
    *("", "x", "none", "../..", "a" * 5000, "\x1b[31m", True, False, [], [1], [[]], {}, {"a": {}}),
]


def damage(folder: Path, random_state: random.Random) -> str:
    """Damage one file of the folder; says what was done."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("checkpoint"))
    files = [path for path in files if path.name not in ("card.md", "metrics.jsonl")]
    path = random_state.choice(files)
    kinds: list[Callable[[Path, random.Random], str]] = [cut, flip, append, overwrite, remove, make_folder]
    if path.suffix == ".safetensors":
        kinds += [change_tensors] * 8
    elif path.suffix == ".toml":
        kinds += [change_toml] * 14
    elif path.suffix == ".json":
        kinds += [change_json] * 10
    return f"{path.name}: {random_state.choice(kinds)(path, random_state)}"


def cut(path: Path, random_state: random.Random) -> str:
    content = path.read_bytes()
    size = random_state.randrange(len(content)) if content else 0
    path.write_bytes(content[:size])
    return f"cut to {size} of {len(content)} bytes"


def flip(path: Path, random_state: random.Random) -> str:
    content = bytearray(path.read_bytes())
    places = [random_state.randrange(len(content)) for _ in range(random_state.choice((1, 1, 5)))] if content else []
    for place in places:
        content[place] ^= 1 << random_state.randrange(8)
    path.write_bytes(bytes(content))
    return f"bits flipped in bytes {places}"


def append(path: Path, random_state: random.Random) -> str:
    junk = random_state.choice([b"\0" * 9, b"}", b"\xff\xfe", b"\n[extra]\nx = 1\n", b"\x1b]0;x\x07"])
    path.write_bytes(path.read_bytes() + junk)
    return f"{junk!r} appended"


def overwrite(path: Path, random_state: random.Random) -> str:
    junk = random_state.choice(
        [
            *(b"", b"\0" * 100, b"null", b"[]", b"{}", b"3", b'"text"', b"\xff" * 50, b"[" * 20_000, b'{"a":' * 20_000),
            *(b"\xef\xbb\xbf{}", b'["\\ud800"]', b"a = " + b"[" * 5000, b"NaN", random_state.randbytes(64)),
        ]
    )
    path.write_bytes(junk)
    return f"replaced by {junk[:20]!r}"


def remove(path: Path, random_state: random.Random) -> str:
    path.unlink()
    return "removed"


def make_folder(path: Path, random_state: random.Random) -> str:
    path.unlink()
    path.mkdir()
    return "replaced by a folder"


def change_tensors(path: Path, random_state: random.Random) -> str:
    with safe_open(path, "pt") as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    name = random_state.choice(sorted(tensors))
    kind = random_state.choice(["nan", "inf", "drop", "rename", "reshape", "grow", "retype", "extra", "all nan"])
    value = tensors[name]
    if kind in ("nan", "inf") and value.numel() and value.is_floating_point():
        value.view(-1)[random_state.randrange(value.numel())] = float(kind)
    elif kind == "all nan":
        tensors = {one: torch.full_like(found, float("nan")) for one, found in tensors.items()}
    elif kind == "drop":
        del tensors[name]
    elif kind == "rename":
        tensors[name + "\x1b[2J"] = tensors.pop(name)
    elif kind == "reshape":
        tensors[name] = value.reshape(1, *value.shape)
    elif kind == "grow":
        tensors[name] = torch.zeros([size + 1 for size in value.shape] or [2])  # a scalar becomes a vector
    elif kind == "retype":
        tensors[name] = value.to(random_state.choice([torch.float64, torch.int8, torch.bool, torch.bfloat16]))
    else:
        tensors["extra.weight"] = torch.zeros(3)
    save_file({one: found.contiguous() for one, found in tensors.items()}, path)
    return f"{kind} in tensor {name}"


def change_toml(path: Path, random_state: random.Random) -> str:
    values = tomllib.loads(path.read_text())
    said = change_value(values, random_state)
    try:
        path.write_text(tomli_w.dumps(values), encoding="utf-8")
    except (TypeError, ValueError, UnicodeError):
        path.write_text("not = toml = at all")
        said = "replaced by no TOML"
    return said


def change_json(path: Path, random_state: random.Random) -> str:
    values = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(values, (dict, list)) or not values:
        values = {"value": values}
    said = change_value(values, random_state)
    path.write_text(json.dumps(values), encoding="utf-8")
    return said


def change_value(values: Any, random_state: random.Random, key: str = "") -> str:
    """Change one value somewhere in a tree of tables and lists."""
    places = list(values) if isinstance(values, dict) else list(range(len(values)))
    place = random_state.choice(places)
    inner = values[place]
    if isinstance(inner, (dict, list)) and inner and random_state.random() < 0.9:
        return change_value(inner, random_state, f"{key}.{place}")
    if random_state.random() < 0.15:
        del values[place]
        return f"{key}.{place} removed"
    new = random_state.choice([*EXTREMES, "\ud800"])
    values[place] = new
    return f"{key}.{place} is {str(new)[:40]!r}"
