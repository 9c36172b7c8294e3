"""Corpora and vector files."""
