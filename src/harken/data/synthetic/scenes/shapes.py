"""The rasteriser: a shape is a rule that says which points of the plane lie in it, a pixel the share of its points.

    circle     x^2 + y^2 <= 1
    polygon    a ray to the right of the point crosses an odd number of edges

Every shape fills a circle of radius 1 around the origin; `coverage` turns, scales and moves it. A pixel is sampled at
FINE x FINE points, which smooths the edges.

>>> coverage("square", (2.0, 2.0), radius=2 ** 0.5, angle=0.0, size=4).round(2)
array([[0., 0., 0., 0.],
       [0., 1., 1., 0.],
       [0., 1., 1., 0.],
       [0., 0., 0., 0.]], dtype=float32)
"""

from __future__ import annotations

import math

import numpy as np

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
