"""Penfont: lines of handwriting in a font of single strokes, written by generated hands."""
