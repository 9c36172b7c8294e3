"""Output layer and label-smoothed cross-entropy in one operator; `harken.nn.loss` has the reference and chooses."""
