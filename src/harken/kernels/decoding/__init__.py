"""Compiled decoding on a CPU: encoder, decoder and search of Transformers without Python per token (`backend.py`)."""
