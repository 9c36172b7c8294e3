"""Distances in a dependency tree, for relative positions by syntax rather than by order.

d_ij = depth_i - depth_j                        where i is an ancestor of j or j of i
d_ij = sign(i - j) (depth_i + depth_j)          otherwise: the path over the root

depth is the number of arcs to the root. After Wang et al. (2019), who add d to the distance by order. Attention takes
the matrix as `distances=`, with one table of vectors by distance as in `relative.py`:

>>> heads = torch.tensor([[1, 2, -1, 2]])  # "the dog sleeps soundly": dog governs the, sleeps the other two
>>> dependency_distances(heads)[0].tolist()
[[0, 1, 2, -3], [-1, 0, 1, -2], [-2, -1, 0, -1], [3, 2, 1, 0]]
>>> from harken.nn import RelativePositions, SelfAttention
>>> layer = SelfAttention(8, heads=2, positions=RelativePositions(4, clip=3))
>>> layer(torch.randn(1, 4, 8), distances=dependency_distances(heads)).shape
torch.Size([1, 4, 8])
"""

from __future__ import annotations

import torch
from torch import Tensor


def ancestors(heads: Tensor) -> Tensor:
    """(B, T) -> (B, T, T), True where word j is word i or an ancestor of it.

    Raises:
        ValueError: a word is its own ancestor, so this is no tree.
    """
    length = heads.shape[1]
    if bool((heads >= length).any()):
        raise ValueError(f"a word's head is number {int(heads.max())}, but the last word is number {length - 1}")
    itself = torch.eye(length, dtype=torch.bool, device=heads.device).expand(len(heads), -1, -1)
    above, ancestors = heads, itself
    for _ in range(length):
        there = above >= 0
        if not bool(there.any()):
            return ancestors
        ancestors = ancestors | (there[..., None] & itself[0][above.clamp(min=0)])
        above = torch.where(there, heads.gather(1, above.clamp(min=0)), -1)
    if bool((above >= 0).any()):
        raise ValueError("the heads go round in a circle; each sentence needs a root, whose head is -1")
    return ancestors


def dependency_distances(heads: Tensor) -> Tensor:
    """Heads (B, T), -1 for a root and for padding -> signed distances (B, T, T)."""
    over = ancestors(heads)
    depth = over.sum(-1) - 1
    position = torch.arange(heads.shape[1], device=heads.device)
    order = torch.sign(position[:, None] - position)  # of i - j
    apart = order * (depth[:, :, None] + depth[:, None, :])
    return torch.where(over | over.transpose(1, 2), depth[:, :, None] - depth[:, None, :], apart)


def piece_distances(heads: Tensor, words: Tensor) -> Tensor:
    """Heads (B, W) of words and the word (B, S) of every subword -> distances (B, S, S) between subwords.

    Subwords of one word have distance 0, as a word has to itself.

    >>> piece_distances(torch.tensor([[1, -1]]), torch.tensor([[0, 0, 1]]))[0].tolist()
    [[0, 0, 1], [0, 0, 1], [-1, -1, 0]]
    """
    between = dependency_distances(heads)  # (B, W, W)
    count, pieces = words.shape
    rows = between.gather(1, words[:, :, None].expand(count, pieces, between.shape[2]))  # (B, S, W)
    return rows.gather(2, words[:, None, :].expand(count, pieces, pieces))
