"""Fast twins of what `harken.nn` defines; each names its definition and is tested against it."""
