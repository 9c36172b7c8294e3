"""Recurrent encoders, decoders and language models."""
