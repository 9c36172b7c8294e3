"""One scene: a few things that do not touch, on a background with a gradient and some noise, and its captions.

    caption   phrase                                     a small red circle
              phrase relation phrase                     a small red circle left of a large blue square
              phrase relation phrase and relation phrase a star left of a ... square and above a ... cross

Any thing may come first and the others follow in any order, so a scene of N things has N! right captions. The first of
them is the usual one: what is large first, then from left to right.

A shape is a rule that says which points of the plane lie in it, and fills a circle of radius 1 around the origin; a
pixel is drawn by the share of its FINE x FINE points that lie in the turned, scaled and moved shape:

    circle     x^2 + y^2 <= 1
    polygon    a ray to the right of the point crosses an odd number of edges

>>> coverage("square", (2.0, 2.0), radius=2 ** 0.5, angle=0.0, size=4).round(2)
array([[0., 0., 0., 0.],
       [0., 1., 1., 0.],
       [0., 1., 1., 0.],
       [0., 0., 0., 0.]], dtype=float32)

>>> things = [Thing("small", "red", "circle", 10, 30, 6, 0.0), Thing("large", "blue", "square", 40, 34, 12, 0.0)]
>>> captions_of(things)
['a large blue square right of a small red circle', 'a small red circle left of a large blue square']

>>> scene = draw_things(np.random.default_rng(1), count=2, size=64)
>>> sorted(thing.phrase for thing in scene)
['large green cross', 'small yellow star']
>>> example = picture_of(scene, np.random.default_rng(1), size=64)
>>> example.image.shape, len(example.references), [region.noun for region in example.regions]
((64, 64, 3), 2, ['star', 'cross'])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from harken.data.images.captioned import Captioned, Region

FINE = 3  # samples along each side of a pixel


def _around(*radii: float, corners: int, first: float) -> np.ndarray:
    """Corners (N, 2) on circles whose radii alternate, the first at an angle; y points down."""
    angles = math.radians(first) + np.arange(corners) * 2 * math.pi / corners
    reach = np.resize(np.array(radii), corners)
    return np.stack((reach * np.cos(angles), reach * np.sin(angles)), 1)


ARM = 0.36  # half the width of a cross's arm
POLYGONS: dict[str, np.ndarray] = {
    "square": _around(1.0, corners=4, first=45),
    "triangle": _around(1.0, corners=3, first=-90),
    "star": _around(1.0, 0.42, corners=10, first=-90),
    "cross": np.array(
        [(ARM, ARM), (ARM, 0.95), (-ARM, 0.95), (-ARM, ARM), (-0.95, ARM), (-0.95, -ARM),
         (-ARM, -ARM), (-ARM, -0.95), (ARM, -0.95), (ARM, -ARM), (0.95, -ARM), (0.95, ARM)]
    ),
}  # fmt: skip
SHAPES = ("circle", *POLYGONS)


def inside(shape: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A mask of the points that lie in the shape of radius 1."""
    if shape == "circle":
        return np.asarray(x**2 + y**2 <= 1)
    corners = POLYGONS[shape]
    odd = np.zeros(np.broadcast(x, y).shape, dtype=bool)
    for (x1, y1), (x2, y2) in zip(corners, np.roll(corners, 1, axis=0), strict=True):
        if y1 != y2:  # a level edge is crossed by no ray
            odd ^= ((y1 > y) != (y2 > y)) & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
    return odd


def coverage(shape: str, centre: tuple[float, float], radius: float, angle: float, size: int) -> np.ndarray:
    """The share of every pixel (size, size) that the shape covers; centre (x, y) and radius in pixels."""
    covered = np.zeros((size, size), np.float32)
    left, top = (max(0, math.floor(coordinate - radius)) for coordinate in centre)
    right, bottom = (min(size, math.ceil(coordinate + radius)) for coordinate in centre)
    across = (left + (np.arange((right - left) * FINE) + 0.5) / FINE - centre[0]) / radius
    down = (top + (np.arange((bottom - top) * FINE) + 0.5) / FINE - centre[1]) / radius
    x, y = across[None, :], down[:, None]
    turned = math.cos(angle) * x + math.sin(angle) * y, math.cos(angle) * y - math.sin(angle) * x
    points = inside(shape, *turned).reshape(bottom - top, FINE, right - left, FINE)
    covered[top:bottom, left:right] = points.mean((1, 3))
    return covered


COLOURS = {
    "red": (214, 40, 44),
    "green": (44, 160, 60),
    "blue": (48, 84, 214),
    "yellow": (240, 210, 40),
    "purple": (146, 60, 176),
    "orange": (244, 130, 30),
}
SIZES = {"small": (0.095, 0.12), "large": (0.165, 0.205)}  # radius, as a share of the picture's side
TURN = math.radians(12)  # how far a thing may be turned
JITTER = 14  # how far a channel of a colour may be off
GAP = 0.02  # between the circles around two things, as a share of the side
SEEN = 0.3  # a pixel covered to this share belongs to the thing's box
TRIES = 60  # places drawn for one thing before the scene is begun anew


@dataclass(frozen=True)
class Thing:
    """One shape in a scene; places in pixels."""

    size: str
    colour: str
    shape: str
    x: float
    y: float
    radius: float
    angle: float

    @property
    def phrase(self) -> str:
        """`small red circle`."""
        return f"{self.size} {self.colour} {self.shape}"


def draw_things(random: np.random.Generator, count: int, size: int) -> list[Thing]:
    """Things no two of which look alike, touch, or lie on a slant to each other."""
    while True:
        things: list[Thing] = []
        for _ in range(count):
            thing = _try_thing(random, things, size)
            if thing is None:
                break
            things.append(thing)
        if len(things) == count:
            return things


def _try_thing(random: np.random.Generator, things: Sequence[Thing], size: int) -> Thing | None:
    for _ in range(TRIES):
        kind, colour, shape = (_one_of(random, names) for names in (SIZES, COLOURS, SHAPES))
        radius = float(random.uniform(*SIZES[kind])) * size
        x, y = random.uniform(radius + 1, size - radius - 1, 2)
        thing = Thing(kind, colour, shape, float(x), float(y), radius, float(random.uniform(-TURN, TURN)))
        if all(_fit(thing, other, size) for other in things):
            return thing
    return None


def _one_of(random: np.random.Generator, names: Iterable[str]) -> str:
    known = list(names)
    return known[int(random.integers(len(known)))]


def _fit(thing: Thing, other: Thing, size: int) -> bool:
    apart = math.hypot(thing.x - other.x, thing.y - other.y) >= thing.radius + other.radius + GAP * size
    return apart and thing.phrase != other.phrase and relation(thing, other) is not None


def picture_of(things: Sequence[Thing], random: np.random.Generator, size: int) -> Captioned:
    """The things as pixels, with the usual caption, all others that are right, and the box of each thing."""
    base = random.uniform(70, 215) + random.uniform(-8, 8, 3)  # a grey that leans to some colour
    slope = random.uniform(-16, 16, 2)
    ramp = np.linspace(-1, 1, size)
    light = slope[0] * ramp[None, :] + slope[1] * ramp[:, None]  # (Y, X)
    canvas = (base + light[:, :, None]).astype(np.float32)  # (Y, X, 3)
    regions = []
    for thing in things:
        covered = coverage(thing.shape, (thing.x, thing.y), thing.radius, thing.angle, size)
        colour = np.array(COLOURS[thing.colour]) + random.uniform(-JITTER, JITTER, 3)
        canvas += covered[:, :, None] * (colour.astype(np.float32) - canvas)
        rows, columns = (np.flatnonzero(covered.max(axis) >= SEEN) for axis in (1, 0))
        box = (columns[0] / size, rows[0] / size, (columns[-1] + 1) / size, (rows[-1] + 1) / size)
        regions.append(Region(thing.phrase, tuple(map(float, box))))  # type: ignore[arg-type]
    canvas += random.normal(0, 4, canvas.shape)
    image = np.clip(np.rint(canvas), 0, 255).astype(np.uint8)
    usual, *others = captions_of(things)
    return Captioned(image, [usual], tuple(regions), also=tuple(others))


CLEAR = 1.4  # one distance has to be so many times the other for a relation to be beyond doubt


def relation(first: Thing, second: Thing) -> str | None:
    """The direction of the first, seen from the second; None where it lies on a slant and either word would do."""
    right, down = first.x - second.x, first.y - second.y
    if abs(right) >= CLEAR * abs(down):
        return "left of" if right < 0 else "right of"
    if abs(down) >= CLEAR * abs(right):
        return "above" if down < 0 else "below"
    return None


def captions_of(things: Sequence[Thing]) -> list[str]:
    """Every right caption of things of which each pair is in a clear relation."""
    usual = sorted(things, key=lambda thing: (thing.size != "large", thing.x))
    return [_caption(order) for order in permutations(usual)]


def _caption(things: Sequence[Thing]) -> str:
    first, *others = things
    relations = " and ".join(f"{relation(first, other)} a {other.phrase}" for other in others)
    return f"a {first.phrase} {relations}".strip()
