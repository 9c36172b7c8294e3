"""Compiled training loops of word2vec and GloVe."""
