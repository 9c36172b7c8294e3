"""Recurrent layers on a CPU: numba gates and packed oneDNN products."""
