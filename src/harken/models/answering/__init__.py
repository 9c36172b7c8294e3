"""Question answering over facts."""
