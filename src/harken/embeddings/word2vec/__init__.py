"""word2vec (Mikolov et al., 2013): reference, training on CPU and GPU."""
