"""Commands that put models behind HTTP."""
