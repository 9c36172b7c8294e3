"""The cost of a request in tokens: what admission, batches and the measured speed of workers count by.

One token is one source token that is translated with a beam of five into about as many target tokens. A client that
allows or demands longer outputs, a wider beam, longer n-best lists or more candidates pays for all that the search may
do.

    cost = max(source, steps) · max(1, hypotheses / 5) · count

>>> costs_of([{"text": "the black cat"}], {})
[4]
>>> costs_of([{"text": "the black cat"}], {"search": {"beam": 10, "max_length_extra": 100}})
[216]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

USUAL_BEAM = 5
LENGTHS = {"max_length_factor": 2.0, "max_length_extra": 10}  # the limit of an output, and the defaults of `[search]`


def costs_of(items: Sequence[Any], options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> list[int]:
    """The estimated tokens of every item of an operation.

    Args:
        options: of the operation, as they are sent to the worker; those of a search are flat or under "search".
        defaults: the model's own values of `[search]`.
    """
    chosen = {name: value for name, value in {**options, **options.get("search", {})}.items() if value is not None}
    search = {**(defaults or {}), **chosen}
    hypotheses = max(search.get(name, 1) for name in ("beam", "nbest", "diversity_groups"))
    if search.get("mbr"):
        hypotheses = max(hypotheses, search.get("mbr_candidates", 1))
    is_repeated = "search" in options or "length" in chosen  # alternatives, and texts of a language model
    width = max(1.0, hypotheses / USUAL_BEAM) * (search.get("count", 1) if is_repeated else 1)
    # The model's own limits of length cost nothing: its outputs are about as long as their sources.
    least = max(search.get("min_length", 0), chosen.get("length", 0), chosen.get("steps", 0))
    factor, extra = (search.get(name, value) for name, value in LENGTHS.items())
    is_limited = not chosen.keys().isdisjoint(("min_length", *LENGTHS))
    costs = []
    for source in map(size_of, items):
        steps = max(source, least, factor * source + extra if is_limited else 0)
        costs.append(math.ceil(steps * width))
    return costs


def size_of(item: Any) -> int:
    """The estimated tokens that an item gives a model to read: its texts, its values, or a thousandth of its bytes."""
    if isinstance(item, str):
        return estimate_tokens(item)
    if not isinstance(item, Mapping):
        return 1 + len(item)
    if isinstance(item.get("data"), bytes):
        return 1 + len(item["data"]) // 1000
    if "facts" in item:
        return sum(map(estimate_tokens, item["facts"]))
    read = item.get("text") or item.get("past") or item.get("signal") or ""
    further = (item[name] for name in ("target", "prefix") if isinstance(item.get(name), str))
    return size_of(read) + sum(estimate_tokens(text) - 1 for text in further)


def estimate_tokens(text: str) -> int:
    """Tokens of a text, without its tokenizer: words, or a quarter of its characters, and one for the end.

    >>> estimate_tokens("the black cat"), estimate_tokens("国破山河在" * 4), estimate_tokens("")
    (4, 21, 1)
    """
    wide = sum(character > "\u2e7f" for character in text) if not text.isascii() else 0
    return 1 + max(text.count(" ") + bool(text), (len(text) - wide) // 4 + wide)
