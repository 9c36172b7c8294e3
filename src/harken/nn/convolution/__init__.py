"""Convolutions over time: gated (ConvS2S) and dilated (ByteNet)."""
