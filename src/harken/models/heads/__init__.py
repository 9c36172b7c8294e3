"""Output heads over an encoder: labels, tags, numbers, characters, pen strokes, masked tokens."""
