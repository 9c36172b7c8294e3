"""Commands that show what a model does: attention, gates, gradients, the beam, experiments."""
