"""The loop that trains any task: it knows batches, a loss and metrics, and nothing of translation."""
