"""Compiled decoding on a CPU: encoder, decoder and search of Transformer encoder-decoders in one loop (`backend.py`)."""
