"""Requests to batches, batches to workers, results back to requests."""
