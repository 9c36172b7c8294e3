"""Recurrent layers: the cells with their equations, stacking and directions, tracing, and conversion to torch and
ONNX.
"""
