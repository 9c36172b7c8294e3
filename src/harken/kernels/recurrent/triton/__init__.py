"""Recurrent layers on a GPU: one persistent Triton kernel for all steps."""
