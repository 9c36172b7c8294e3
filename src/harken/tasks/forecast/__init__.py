"""Forecasting: a window of the past to the steps that come."""
