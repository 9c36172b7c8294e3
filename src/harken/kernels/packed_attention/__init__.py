"""Attention between sentences that are packed into one row of tokens."""
