"""Masked-token pre-training of an encoder, to start other jobs from."""
