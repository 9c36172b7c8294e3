"""Classification of texts and of signals (S10, S13): many-to-one."""
