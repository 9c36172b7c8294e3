"""Whole networks, built from `harken.nn`."""
