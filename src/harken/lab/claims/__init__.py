"""One module per claim that the lab measures."""
