"""Time series and signals."""
