"""Tagging: a label for every word of a sentence, or for every frame of a signal."""
