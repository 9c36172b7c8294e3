"""Handwriting: pen strokes, point by point, from a text or from nothing."""
