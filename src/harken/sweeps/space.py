"""The axes of a sweep and the settings that they span.

>>> axes = [parse_axis("model.cell=lstm,gru"), parse_axis("train.learning_rate=1e-3..1e-2:log")]
>>> axes[0].values, axes[1].low, axes[1].high, axes[1].is_log
(('lstm', 'gru'), 0.001, 0.01, True)
>>> grid([axes[0], parse_axis("model.width=64,128")])[1]
{'model.cell': 'lstm', 'model.width': '128'}
>>> [sorted(setting) for setting in draw(axes, count=2, seed=1)]
[['model.cell', 'train.learning_rate'], ['model.cell', 'train.learning_rate']]
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from harken.errors import UserError

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(:log)?")
DIGITS = 3  # of a number that is drawn
DRAWS = 1000  # attempts to draw a setting that was not drawn before
MAX_SETTINGS = 10_000
LONGEST = 100  # characters of a name

Setting = dict[str, str]  # key of the recipe -> its value as `--set` takes it


@dataclass(frozen=True)
class Axis:
    """A key of the recipe with its values: a list, or a range of numbers."""

    key: str
    values: tuple[str, ...] = ()  # of a list
    low: float = math.nan  # of a range
    high: float = math.nan
    is_log: bool = False
    is_integer: bool = False

    @property
    def is_range(self) -> bool:
        """Whether it can only be drawn from."""
        return not self.values

    def draw(self, source: random.Random) -> str:
        """A value at random: of a range uniform, or log-uniform, to three digits."""
        if not self.is_range:
            return source.choice(self.values)
        if self.is_log:
            value = math.exp(source.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = source.uniform(self.low, self.high)
        return str(round(value)) if self.is_integer else f"{float(f'{value:.{DIGITS}g}'):g}"


def parse_axis(text: str) -> Axis:
    """`key=a,b,c` or `key=low..high[:log]`; one value alone is a list of one.

    Raises:
        UserError: no `=`, an empty value, or an impossible range.
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise UserError(f"--set {text} must have the form section.key=value, such as train.learning_rate=1e-3,3e-3")
    if match := RANGE.fullmatch(values):
        return _range(key, text, match[1], match[2], bool(match[3]))
    listed = split_values(values)
    if not all(listed):
        raise UserError(f"--set {text} has an empty value; write values with commas between, such as {key}=a,b")
    if len(set(listed)) < len(listed):
        raise UserError(f"--set {text} has a value twice; --seeds N repeats every setting with other seeds")
    return Axis(key, tuple(listed))


def _range(key: str, text: str, low: str, high: str, is_log: bool) -> Axis:
    axis = Axis(key, (), float(low), float(high), is_log, all(re.fullmatch(r"[+-]?\d+", end) for end in (low, high)))
    if not axis.low < axis.high:
        raise UserError(f"--set {text} is an empty range; write the lower end first")
    if is_log and axis.low <= 0:
        raise UserError(f"--set {text} begins at {low}, which has no logarithm; begin above 0, or leave :log out")
    return axis


def split_values(text: str) -> list[str]:
    """Values at commas that are in no brackets and no quotes.

    >>> split_values('[8, 8],[16, 16]'), split_values('"a,b",c')
    (['[8, 8]', '[16, 16]'], ['"a,b"', 'c'])
    """
    values, start, depth, quote = [], 0, 0, ""
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            values.append(text[start:index].strip())
            start = index + 1
    return [*values, text[start:].strip()]


def axes_of(grid: Mapping[str, Any]) -> list[str]:
    """A grid of Python values as `--set` takes it.

    >>> axes_of({"model.cell": ["lstm", "gru"], "model.width": 64, "train.learning_rate": "1e-3..1e-2:log"})
    ['model.cell="lstm","gru"', 'model.width=64', 'train.learning_rate=1e-3..1e-2:log']
    """
    return [
        f"{key}={','.join(map(_toml, value)) if isinstance(value, list | tuple) else _toml(value)}"
        for key, value in grid.items()
    ]


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return value if RANGE.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if value is not None else "none"


def grid(axes: Sequence[Axis]) -> list[Setting]:
    """All combinations of the values of lists, the first value of every axis first.

    Raises:
        UserError: too many.
    """
    count = math.prod(len(axis.values) for axis in axes)
    if count > MAX_SETTINGS:
        raise UserError(f"the grid has {count:,} settings; leave values out, or draw some of them with --trials N")
    return [dict(zip((axis.key for axis in axes), row, strict=True)) for row in product(*(a.values for a in axes))]


def draw(axes: Sequence[Axis], count: int, seed: int) -> list[Setting]:
    """Settings at random, each once; a larger `count` begins with the same ones."""
    source, drawn = random.Random(seed), dict[str, Setting]()
    for _ in range(DRAWS + count):
        if len(drawn) == count:
            break
        setting = {axis.key: axis.draw(source) for axis in axes}
        drawn.setdefault(json.dumps(setting), setting)
    return list(drawn.values())


def name_of(setting: Setting) -> str:
    """A setting in a few words, also the name of its folder; keys without their tables where that is clear.

    >>> name_of({"model.cell": "gru", "train.learning_rate": "0.001"})
    'cell=gru,learning_rate=0.001'
    >>> name_of({"model.width": "8", "model.decoder.width": "16"}), name_of({})
    ('model.width=8,model.decoder.width=16', 'recipe')
    """
    ends = [key.rpartition(".")[2] for key in setting]
    short = ends if len(set(ends)) == len(ends) else list(setting)
    text = ",".join(f"{key}={value}" for key, value in zip(short, setting.values(), strict=True)) or "recipe"
    name = re.sub(r"[^\w.+=,-]+", "-", text.replace('"', "")).strip("-.")
    if name == text.replace('"', "") and len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
