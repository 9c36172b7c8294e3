"""Pen strokes: drawings as points, a font of single strokes and the hands that write it, and readers of files."""
