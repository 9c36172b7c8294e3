"""Models behind HTTP: the native API, dialects of other services, and the studio."""
