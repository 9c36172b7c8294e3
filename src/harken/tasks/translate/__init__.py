"""Translation: sentence pairs to a translator."""
