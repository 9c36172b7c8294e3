"""Decisions before the first update: the batch size that fits, and defaults fitted to the measured speed."""
