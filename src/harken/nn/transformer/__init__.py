"""Transformer blocks, stacks of them, and mixtures of experts."""
