"""Classification of texts and of signals: many-to-one."""
