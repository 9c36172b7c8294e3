"""Transformer encoders, decoders and language models."""
