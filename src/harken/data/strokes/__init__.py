"""Pen strokes: drawings as points, readers of files, and batches."""
