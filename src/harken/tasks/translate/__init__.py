"""Translation: sentence pairs to a translator (S17, S19, S27)."""
