"""Triton kernels of a decoder step on a GPU, used by `harken.search.graphs`.

step.py        the step of all layers, of the kernels here and torch's matrix products
recurrent.py   the step of a recurrent decoder for a few rows
attention.py   one query a row attends to its prefix, found through an ancestry table, or to its source
projected.py   norm, product and cross-attention for a few rows
linear.py      norm + product + bias + activation + residual for a few rows
norm.py        embedding, residual and norm for many rows
choosing.py    log-sum-exp and the best tokens of each row of logits
"""
