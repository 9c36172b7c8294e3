"""The words, templates and shapes of the generated corpora, as TOML files beside this module.

>>> load_vocabulary("stories")["things"]
['apple', 'key', 'lamp', 'book']
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def load_vocabulary(name: str) -> dict[str, Any]:
    """Read the file `name`.toml; callers share the result and do not change it."""
    return tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
