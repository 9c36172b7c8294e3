"""Measurements of a running model: attention weights, gates, gradients, Jacobians, singular values."""
