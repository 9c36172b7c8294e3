"""Captioning: a picture to a sentence, with one map of attention for each word."""
