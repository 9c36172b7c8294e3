"""Position information: added to the input, or inside self-attention."""
