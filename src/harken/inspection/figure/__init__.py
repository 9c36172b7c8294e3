"""Figures: one description (`spec`), one matplotlib renderer (`paper`), one for terminals, one HTML page."""

from harken.inspection.figure.spec import (
    Band,
    Bars,
    Figure,
    Group,
    Heat,
    Images,
    Lines,
    Mark,
    Panel,
    Raster,
    Series,
    Strips,
    Strokes,
    Tokens,
)

__all__ = [
    "Band",
    "Bars",
    "Figure",
    "Group",
    "Heat",
    "Images",
    "Lines",
    "Mark",
    "Panel",
    "Raster",
    "Series",
    "Strips",
    "Strokes",
    "Tokens",
]
