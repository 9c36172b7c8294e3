"""Regression: a text or a signal to one real number."""
