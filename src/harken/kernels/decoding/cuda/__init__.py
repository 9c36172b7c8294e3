"""Triton kernels of a Transformer's decoder step on a GPU, used by `harken.search.graphs`.

step.py        the step of all layers, of the kernels here and torch's matrix products
attention.py   one query a row attends to its prefix, found through an ancestry table, or to its source
linear.py      norm + product + bias + activation + residual for a few rows
norm.py        embedding, residual and norm for many rows
choosing.py    log-sum-exp and the best tokens of each row of logits
"""
