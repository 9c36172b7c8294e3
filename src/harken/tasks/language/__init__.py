"""Language models: running text to a model that continues it (S9), trained on streams (S34)."""
