"""Training, validation and test parts: one rule for every job.

Every row has a group key: its source sentence, document, speaker, picture ... Rows of one group are never on two sides.
A group is placed by a hash of (seed, key), a number u in [0, 1) that depends on nothing else:

    a share s             groups with u < s
    a count n             the groups with the smallest u, until n rows are reached (to the nearest group)
    "5%, at most 1000"    (0.05, 1000): groups with u < 0.05, and of these no more than 1000 rows

Several parts follow each other along u, in the order in which they are asked for: test before validation, so that
another `valid_size` changes no test row. What this means when a file grows:

    a share     no row changes its part
    a count     a new row may take the place of the last held-out group, which goes to the part after it
    both        no training row ever becomes a held-out row, so a model is never tested on what it was trained on

The one exception is a group that grows beyond the count, which then no longer fits and stays in training. Strata
(classes) are divided each on its own by `stratified_groups`, in the same order of u. Running text
and time series are not drawn but cut by position (`cut_by_position`), because neighbours belong together.

>>> parts = split_groups(["go", "run", "go", "stop"], {"valid": 1}, seed=1)
>>> parts == split_groups(["go", "run", "go", "stop"], {"valid": 1}, seed=1), sorted(parts)
(True, ['train', 'valid'])
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from harken.errors import UserError

Size = int | float | tuple[float, int]  # rows, a share, or a share of at most so many rows
TRAIN = "train"
DUPLICATES = "also in the validation or test data"  # why a training row is left out
SCALE = 1 << 64
BLOCK_ROWS = 1 << 20  # of an array on the disk that are in memory at once
Row = TypeVar("Row")


def size_of(given: int | float | None, default: tuple[float, int] = (0.05, 1000)) -> Size:
    """The size that a recipe gives (rows, a share, or nothing) as a `Size`."""
    return default if given is None else given


def held_out_sizes(config: Any, given: Iterable[str], default: tuple[float, int] = (0.05, 1000)) -> dict[str, Size]:
    """The parts that are split off from training by `valid_size` and `test_size` of a `[data]` table.

    Args:
        given: names of the parts that have files of their own. Where one is a test, none is split off.
    """
    sizes: dict[str, Size] = {}
    if not set(given) - {"valid"} and config.test_size:
        sizes["test"] = config.test_size
    if "valid" not in given:
        sizes["valid"] = size_of(config.valid_size, default)
    return sizes


def normalise(text: str) -> str:
    """The form in which two texts are compared: Unicode NFC, no difference of case or of white space.

    >>> normalise("  The  Cafe\\u0301 ") == normalise("the café")
    True
    """
    words = " ".join(text.split())
    if words.isascii():
        return words.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", words).casefold())


def content_key(value: Any) -> str:
    """A key for rows that are known by their content alone: arrays, or tuples of arrays and texts."""
    return hashlib.blake2b(encode_row(value), digest_size=16).hexdigest()


def split_groups(
    keys: Sequence[str], sizes: Mapping[str, Size], seed: int, weights: Sequence[int] | None = None
) -> dict[str, list[int]]:
    """The rows of every part of `sizes` and of `train`, each in ascending order.

    Args:
        keys: the group of every row, normalised by the caller where it is text.
        sizes: parts to hold out, in order; see the module's description.
        weights: how much every row counts towards a size, by default 1. Rows of weight 0 (phrases of a sentence)
            follow their group.

    Raises:
        UserError: a part would be empty.
    """
    positions = np.array([group_position(seed, key) for key in keys], dtype=np.uint64)
    part_of = {group: name for name, groups in split_positions(positions, sizes, weights).items() for group in groups}
    parts: dict[str, list[int]] = {name: [] for name in (*sizes, TRAIN)}
    for row, position in enumerate(positions.tolist()):
        parts[part_of.get(position, TRAIN)].append(row)
    if not parts[TRAIN]:
        raise _nothing_left(sizes, len(keys), len(set(keys)), TRAIN)
    return parts


def stratified_groups(
    keys: Sequence[str], strata: Sequence[str], sizes: Mapping[str, Size], seed: int
) -> dict[str, list[int]]:
    """The rows of every part as by `split_groups`, with the same share of every stratum in each, and of each stratum at
    least a group in training.

    A stratum's groups with the smallest u are held out: as many as its share, rounded so that the parts have their
    sizes. A group belongs to the stratum of its first row. When a stratum grows, rows may change their part.

    Raises:
        UserError: a part would be empty.

    >>> rows, classes = [f"row {number}" for number in range(24)], ["often"] * 20 + ["rare"] * 4
    >>> parts = stratified_groups(rows, classes, {"test": 0.25}, seed=1)
    >>> Counter(classes[row] for row in parts["test"]) == {"often": 5, "rare": 1}
    True
    """
    owners: dict[str, str] = {}
    for key, stratum in zip(keys, strata, strict=True):
        owners.setdefault(key, stratum)
    members: dict[str, list[str]] = {stratum: [] for stratum in sorted(set(owners.values()))}
    for key in sorted(owners, key=lambda key: group_position(seed, key)):
        members[owners[key]].append(key)
    part_of: dict[str, str] = {}
    for name, size in sizes.items():
        share, most = size if isinstance(size, tuple) else (1.0, size) if isinstance(size, int) else (size, len(keys))
        share, carried = min(share, most / len(keys)), 0.0
        for groups in members.values():
            rest = [key for key in groups if key not in part_of]
            exact = share * len(groups) + carried
            count = max(0, min(math.floor(exact + 0.5), len(rest) - 1))
            carried = min(1.0, exact - count)
            part_of |= dict.fromkeys(rest[:count], name)
    parts: dict[str, list[int]] = {name: [] for name in (*sizes, TRAIN)}
    for row, key in enumerate(keys):
        parts[part_of.get(key, TRAIN)].append(row)
    if empty := next((name for name in parts if not parts[name]), None):
        raise _nothing_left(sizes, len(keys), len(owners), empty)
    return parts


def split_positions(
    positions: np.ndarray, sizes: Mapping[str, Size], weights: Sequence[int] | None = None
) -> dict[str, list[int]]:
    """The groups of every part of `sizes`, each by its position.

    Groups are known by `group_position` alone, so that millions of rows need 8 bytes each, and only those with small
    positions are looked at: they hold the parts.

    Args:
        positions: of every row, in an array that may lie on the disk.
        weights: of every row, by default 1.

    Raises:
        UserError: a part would be empty.

    >>> rows = np.array([group_position(1, key) for key in ("go", "run", "go", "stop")], dtype=np.uint64)
    >>> [len(groups) for groups in split_positions(rows, {"valid": 1}).values()]
    [1]
    """
    shares = [size[0] if isinstance(size, tuple) else size for size in sizes.values() if not isinstance(size, int)]
    limit = sum(shares) or 1 / 64
    while True:
        limit = 1.0 if limit >= 0.5 else limit
        parts = _take_below(positions, sizes, limit, weights)
        if parts is not None:
            break
        limit *= 4
    held = sum(map(len, parts.values()))
    empty = [name for name, groups in parts.items() if not groups]
    if not empty and held and not _any_above(positions, {position for groups in parts.values() for position in groups}):
        empty = [TRAIN]
    if empty:
        groups = len(np.unique(positions))
        raise _nothing_left(sizes, len(positions), groups, empty[0])
    return parts


def _take_below(
    positions: np.ndarray, sizes: Mapping[str, Size], limit: float, weights: Sequence[int] | None
) -> dict[str, list[int]] | None:
    """The parts, where the groups below `limit` suffice to know them."""
    bound = np.uint64(min(int(limit * SCALE), SCALE - 1))
    weight: Counter[int] = Counter()
    for first in range(0, len(positions), BLOCK_ROWS):
        block = positions[first : first + BLOCK_ROWS]
        chosen = block < bound if limit < 1 else np.ones(len(block), dtype=bool)
        own = None if weights is None else np.array(weights[first : first + BLOCK_ROWS])[chosen]
        groups, places = np.unique(block[chosen], return_inverse=True)
        counts = np.bincount(places, own, minlength=len(groups)).astype(np.int64)
        weight.update(dict(zip(groups.tolist(), counts.tolist(), strict=True)))
    order = sorted(group for group, count in weight.items() if count)
    parts: dict[str, list[int]] = {}
    start = 0.0
    for name, size in sizes.items():
        taken, start = _take(order, weight, size, start, is_complete=limit == 1)
        if limit < 1 and (start > limit or not taken):
            return None
        held = set(taken)
        order = [group for group in order if group not in held]
        parts[name] = taken
    return parts


def _any_above(positions: np.ndarray, held: set[int]) -> bool:
    """Whether some row is in no held-out group."""
    groups = np.array(sorted(held), dtype=np.uint64)
    return any(
        not np.isin(positions[start : start + BLOCK_ROWS], groups).all()
        for start in range(0, len(positions), BLOCK_ROWS)
    )


def _nothing_left(sizes: Mapping[str, Size], rows: int, groups: int, name: str) -> UserError:
    asked = " and ".join(f"data.{part}_size = {_written(size)}" for part, size in sizes.items())
    return UserError(
        f"{asked} of {rows:,} examples in {groups:,} groups leaves none for {name}; change the size, "
        "give more examples, or name files for each part"
    )


def _take(
    order: Sequence[int], weight: Mapping[int, int], size: Size, start: float, is_complete: bool
) -> tuple[list[int], float]:
    """Groups of the next part, and where on [0, 1) the part after it begins; none where `order` is too short to say."""
    share, count = size if isinstance(size, tuple) else (None, size) if isinstance(size, int) else (size, None)
    stop = 1.0 if share is None else min(1.0, start + share)
    taken: list[int] = []
    held = 0
    for position in order:
        if position >= stop * SCALE:
            break
        if count is not None:
            if weight[position] > count:
                continue
            if held + weight[position] - count > count - held:
                return taken, position / SCALE
        taken.append(position)
        held += weight[position]
    if not taken and order and (count is None or count) and (is_complete or share is not None):
        return [order[0]], order[0] / SCALE  # few groups, or all larger than the count: one of them
    return taken, stop


def group_position(seed: int, key: str) -> int:
    """The position of a group on [0, 2^64)."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _written(size: Size) -> str:
    return f"{size[0]:g} (at most {size[1]:,})" if isinstance(size, tuple) else f"{size:g}"


def without_held_out(
    train: Sequence[Row], held_out: Iterable[Iterable[Row]], key: Callable[[Row], str]
) -> tuple[list[Row], dict[str, int]]:
    """Training rows whose key no held-out row has, and how many were left out, by reason; given files may overlap.

    Raises:
        UserError: none is left.

    >>> without_held_out(["Go", "Run"], [["go"]], normalise)
    (['Run'], {'also in the validation or test data': 1})
    """
    known = {key(row) for part in held_out for row in part}
    remaining = [row for row in train if key(row) not in known] if known else list(train)
    if train and not remaining:
        raise all_held_out()
    return remaining, {DUPLICATES: len(train) - len(remaining)} if len(remaining) < len(train) else {}


def all_held_out() -> UserError:
    """The error where every training row is held out."""
    return UserError("every training example is also in the validation or test data; give other files")


def cut_by_position(lengths: Sequence[int] | np.ndarray, shares: Sequence[float]) -> list[int]:
    """The ends of the parts of a running text: training first, then the held-out shares, at the ends of rows.

    Neighbouring rows stay in one part. When rows are appended, boundaries move towards the end, so that held-out rows
    may become training rows but never the reverse.

    >>> cut_by_position([1, 1, 1, 1], (0.25, 0.25))
    [2, 3, 4]
    """
    reached = np.cumsum(lengths)
    total = int(reached[-1]) if len(reached) else 0
    starts = 1 - np.cumsum(shares[::-1])[::-1]
    ends = [int(np.searchsorted(reached, share * total + 1e-9, side="right")) for share in starts]
    return [end if share else len(reached) for end, share in zip(ends, _tails(shares), strict=True)] + [len(reached)]


def _tails(shares: Sequence[float]) -> list[float]:
    """The part after each boundary; nothing: the boundary is the end itself, whatever rounding says."""
    return [sum(shares[start:]) for start in range(len(shares))]


class Parts:
    """A corpus with rows in `train`, `valid` and named `tests`."""

    name: str
    train: Any
    valid: Any
    tests: Any

    def parts(self) -> dict[str, Any]:
        """Every part by its name."""
        return {TRAIN: self.train, "valid": self.valid, **self.tests}

    def digests(self) -> dict[str, str]:
        """A digest of every part, to be stored with a run and compared later (`changed_parts`)."""
        return {name: digest(rows) for name, rows in self.parts().items()}


def digest(rows: Iterable[Any]) -> str:
    """The number of rows and a hash of their contents that does not depend on their order.

    >>> digest(["a", "b"]) == digest(["b", "a"]), digest(["a", "b"]) == digest(["a", "b", "b"])
    (True, False)
    """
    if hasattr(rows, "digest"):  # streamed rows know theirs
        return str(rows.digest())
    count = total = 0
    for row in rows:
        total += row_digest(encode_row(row))
        count += 1
    return format_digest(count, total)


DIGEST_SPACE = 1 << 128


def row_digest(encoded: bytes) -> int:
    """The bytes that one row adds to a digest; `encoded` is `encode_row` of it."""
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=16).digest())


def format_digest(count: int, total: int) -> str:
    """A digest from the number of rows and the sum of what each adds."""
    return f"{count}:{total % DIGEST_SPACE:032x}"


def changed_parts(stored: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Names of the parts whose digests differ.

    >>> changed_parts({"train": "1:a", "test": "1:b"}, {"train": "1:a", "test": "2:c"})
    ['test']
    """
    return [name for name in {**stored, **current} if stored.get(name) != current.get(name)]


@cache
def field_names(kind: type) -> tuple[str, ...]:
    """The names of the fields of a dataclass, cached: corpora have millions of rows of one class."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def encode_row(value: Any) -> bytes:
    """Bytes that differ where values differ."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, np.ndarray):
        return f"a{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if names := field_names(value.__class__):
        value = [getattr(value, name) for name in names]
    if isinstance(value, (frozenset, set)):
        value = sorted(value)
    if isinstance(value, (tuple, list)):
        inside = [encode_row(item) for item in value]
        return b"t" + b"".join([len(item).to_bytes(8) + item for item in inside])
    return b"r" + repr(value).encode("utf-8", "surrogatepass")
