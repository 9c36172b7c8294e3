"""Language models: running text to a model that continues it, trained on streams."""
