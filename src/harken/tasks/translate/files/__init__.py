"""Many lines: windows, threads, lines that are too long, and output that can be resumed."""
