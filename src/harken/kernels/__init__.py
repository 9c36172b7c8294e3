"""Fast implementations of what `harken.nn` defines; each names its reference and is tested against it."""
