"""digests.json: the SHA-256 of every file that the weights of a model folder depend on.

    {"harken": "1.0.0",
     "files": {"source.json": "8c31...", "target.json": "02fe...", "recipe.toml [model]": "91ab...", ...}}

Weights and checkpoints hold digests of their own (`harken.training.weights`), and data.json its fingerprint. Of
recipe.toml the tables are recorded that decide what the weights compute. A user may edit the others: `[data]` and
`[train]`, which a resumed run compares with what it was started with, and the settings of use and of training alone.
Folders of earlier versions have no digests.json and are not checked; card.md and metrics.jsonl are for readers.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import atomic_write, read_limited
from harken.training.folder import RECIPE

DIGESTS = "digests.json"
LARGEST = 1_000_000  # bytes of digests.json
EDITABLE_TABLES = frozenset({"data", "train", "search", "sampling", "embeddings", "augment", "masking", "adapt"})
EDITABLE_KEYS = frozenset({"alignment_layer", "alignment_heads", "alignment_shift"})  # choose what is shown


def write_digests(folder: Path, names: Iterable[str]) -> None:
    """Record the files of a folder that have one of these names, and its recipe."""
    import harken

    files = {name: _digest((folder / name).read_bytes()) for name in sorted(names) if (folder / name).is_file()}
    content = {"harken": harken.__version__, "files": files | recipe_digests((folder / RECIPE).read_bytes())}
    atomic_write(folder / DIGESTS, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def require_unchanged(folder: Path) -> None:
    """Check every file of a model folder that digests.json lists.

    Raises:
        UserError: a file or a table of the recipe changed since it was recorded, or digests.json is damaged.
    """
    try:
        files = dict[str, str](json.loads(read_limited(folder / DIGESTS, LARGEST))["files"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise UserError(
            f"{folder / DIGESTS} is damaged, so changes of the folder cannot be noticed; copy it again, or delete it "
            "to go on without"
        ) from None
    try:
        current = recipe_digests((folder / RECIPE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return  # the reader of the recipe names the line
    for name, recorded in files.items():
        is_table = name.startswith(f"{RECIPE} ")
        try:
            digest = current.get(name) if is_table else _digest((folder / Path(name).name).read_bytes())
        except OSError:
            digest = None
        if digest != recorded:
            state = "is missing" if digest is None else "changed since the model was trained"
            raise UserError(
                f"{folder / name} {state} (its SHA-256 in {DIGESTS} is another), so the weights do not belong to it; "
                f"{'undo the change' if is_table else 'restore the file'} or copy the folder again"
            )


def recipe_digests(content: bytes) -> dict[str, str]:
    """The digest of each table of a recipe that decides what the weights compute.

    >>> list(recipe_digests(b"task = 'tag'\\n[model]\\nwidth = 8\\n[train]\\nmax_steps = 3"))
    ['recipe.toml task', 'recipe.toml [model]']
    """
    checked = {name: value for name, value in tomllib.loads(content.decode()).items() if name not in EDITABLE_TABLES}
    names = {name: f"[{name}]" if isinstance(value, dict) else name for name, value in checked.items()}
    return {f"{RECIPE} {names[name]}": _digest(_canonical(value)) for name, value in checked.items()}


def _canonical(value: Any) -> bytes:
    if isinstance(value, dict):
        value = {key: inner for key, inner in value.items() if key not in EDITABLE_KEYS}
    return json.dumps(value, sort_keys=True, default=str).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
