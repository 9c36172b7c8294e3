"""Attention: scores, masked softmax, multi-head attention and pooling."""
