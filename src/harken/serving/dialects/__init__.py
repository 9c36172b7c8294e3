"""The APIs that clients speak: routes that turn their requests into operations of the engine."""
