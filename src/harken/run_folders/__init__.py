"""Run folders looked at from outside: their state, their curves, and what differs between them."""
