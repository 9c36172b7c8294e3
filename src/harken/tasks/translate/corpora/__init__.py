"""Pairs of sentences made or chosen by a translator: distillation and cleaning."""
