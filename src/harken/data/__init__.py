"""Text to ids to batches: corpora, tokenizers, batching, and the corpora that ship."""
