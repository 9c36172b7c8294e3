"""The loop of a recurrent decoder as a CUDA graph with fused steps."""
