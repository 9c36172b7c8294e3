"""Inspection: what a model attends to, as a picture in the terminal, in a browser, in a notebook and on paper."""

from harken.inspection.alignment import AlignmentMap
from harken.inspection.grid import AttentionGrid

__all__ = ["AlignmentMap", "AttentionGrid"]
