"""Time-series forecasting."""
