"""Regression (S12): a text or a signal to one real number."""
