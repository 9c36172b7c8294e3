"""Generated corpora."""
