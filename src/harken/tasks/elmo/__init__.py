"""ELMo: a language model in both directions, whose layers are vectors of words in context."""
