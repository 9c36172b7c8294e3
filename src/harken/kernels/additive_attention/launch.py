"""Runs the Triton kernels of additive attention: tiles, memory, and pieces where the whole would be too large.

The scores (G, T, S) are the only thing that grows with T x S; they are kept in float32 for the backward pass where they
fit into WORKSPACE, which saves a third of its work. Where they do not, queries are taken in pieces that do, and the
backward pass makes the scores again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from harken.kernels.additive_attention import backward as backward_kernels
from harken.kernels.additive_attention import forward as forward_kernels

WORKSPACE = 2**27  # bytes of scores held at once
WIDE = 17.0  # e^{2 * 17} squared, times the like of a neighbour, is still a float32
TILE = 64  # keys in a tile; queries too where there are that many
DEPTH = 32  # features in a tile of the backward pass
SCORES = 32  # queries at most in a tile of scores
WIDTH = 128  # of the values in a tile
BLOCK = 16  # keys or queries between two checks for gradients that are not 0


def whole(size: int, tile: int) -> int:
    """`size` rounded up to whole tiles."""
    return -(-size // tile) * tile


def tile_rows(targets: int) -> int:
    """Queries in a tile: 16 at least, which is what a matrix unit takes."""
    return next(size for size in (16, 32, TILE) if size >= targets or size == TILE)


@dataclass(frozen=True)
class Shape:
    """The sizes of one call."""

    groups: int  # G
    targets: int  # T
    sources: int  # S
    depth: int  # D
    width: int  # V

    @property
    def tile(self) -> int:
        return tile_rows(self.targets)

    @property
    def rows(self) -> int:
        """Tp."""
        return whole(self.targets, self.tile)

    @property
    def columns(self) -> int:
        """Sp."""
        return whole(self.sources, TILE)

    @property
    def padded(self) -> int:
        """Dp."""
        return whole(self.depth, DEPTH)

    def fits(self) -> bool:
        """Whether the scores of all groups and queries may be held at once."""
        return self.groups * self.rows * self.columns * 4 <= WORKSPACE

    def pieces(self) -> Iterator[tuple[slice, slice]]:
        """Groups and queries that may be held at once; the whole where that fits."""
        if self.fits():
            yield slice(0, self.groups), slice(0, self.targets)
            return
        rows = max(self.tile, WORKSPACE // (4 * self.columns) // self.tile * self.tile)  # of one group
        step = max(1, WORKSPACE // (4 * self.columns * self.rows))
        for group in range(0, self.groups, step):
            for row in range(0, self.targets, rows):
                yield (
                    slice(group, min(group + step, self.groups)),
                    slice(row, min(row + rows, self.targets)),
                )


def measure(queries: Tensor, keys: Tensor, vector: Tensor, values: Tensor) -> Shape:
    """Queries (G, T, D), keys (G, S, D), vectors (R, D), values (G, S, V)."""
    groups, targets, depth = queries.shape
    return Shape(groups, targets, keys.shape[1], depth, values.shape[2])


def precision(values: Tensor) -> str:
    """How matrix units multiply float32: as torch was told to."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "tf32x3"


def largest(queries: Tensor, keys: Tensor) -> Tensor:
    """(2,) the largest magnitude among queries and among keys, on the device."""
    norms = [torch.linalg.vector_norm(part, torch.inf, dtype=torch.float32) for part in (queries, keys)]
    return torch.stack(norms)


def padded_vector(vector: Tensor, depth: int) -> Tensor:
    """(R, D) -> (R, Dp) in float32, 0 beyond the end."""
    return torch.nn.functional.pad(vector.float(), (0, depth - vector.shape[1])).contiguous()


def exponentials(values: Tensor, limits: Tensor, rows: int, depth: int, tile: int, transposed: bool) -> Tensor:
    """(G, T, D) -> (G, Tp, Dp), or (G, Dp, Tp)."""
    groups, length, width = values.shape
    shape = (groups, depth, rows) if transposed else (groups, rows, depth)
    out = torch.empty(shape, device=values.device, dtype=torch.float32)
    forward_kernels.exponential_kernel[(groups * (rows // tile) * (depth // DEPTH),)](
        values, out, limits, length, width, values.stride(0), values.stride(1), rows, depth,
        TRANSPOSED=transposed, LIMIT=WIDE, ROWS=tile, COLUMNS=DEPTH,
    )  # fmt: skip
    return out


def make_scores(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    mask: Tensor | None,
    limits: Tensor,
    first: int,
    causal: bool,
    shape: Shape,
) -> Tensor:
    """Queries (G, t, D), exponentiated keys (G, Dp, Sp), padded vectors (R, Dp) -> scores (G, tp, Sp)."""
    groups, targets, _ = queries.shape
    rows = whole(targets, shape.tile)
    exponentiated = exponentials(queries, limits, rows, shape.padded, shape.tile, transposed=True)
    scores = torch.empty(groups, rows, shape.columns, device=queries.device, dtype=torch.float32)
    visible = scores if mask is None else mask
    strides = (0, 0, 0, 0) if mask is None else mask.stride()
    tile = min(SCORES, shape.tile)
    forward_kernels.score_kernel[(groups * (rows // tile) * (shape.columns // TILE),)](
        exponentiated, keys, vector, visible, scores, limits, targets, shape.sources, first, rows, shape.columns,
        shape.padded, vector.shape[0], 1 if mask is None else mask.shape[1], *strides,
        MASKED=mask is not None, CAUSAL=causal, LIMIT=WIDE, ROWS=tile, COLUMNS=TILE, num_warps=4,
    )  # fmt: skip
    return scores


def mask_of(mask: Tensor | None, groups: slice, targets: slice, whole_groups: bool) -> Tensor | None:
    """The mask (outer, inner, T, S) of a piece, as bytes; as (g, 1, t, S) where the piece has not all groups."""
    if mask is None:
        return None
    if not whole_groups:
        mask = mask.flatten(0, 1)[groups, None]
    return mask[:, :, targets].view(torch.uint8)


def vectors_of(vector: Tensor, groups: slice, whole_groups: bool) -> Tensor:
    """The vectors (R, Dp) of a piece, which are g % R for all groups g."""
    if whole_groups or vector.shape[0] == 1:
        return vector
    return vector[torch.arange(groups.start, groups.stop, device=vector.device) % vector.shape[0]]


def random_of(seed: Tensor | None, groups: slice, otherwise: Tensor) -> Tensor:
    """The seed of a piece's first group, one more for each that follows; anything where nothing is dropped."""
    return otherwise if seed is None else seed + groups.start


def forward(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    keep: bool,
    drop: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Contexts (G, T, V); for the backward pass also in float32, log-sum-exp (G, T), scores (G, Tp, Sp), maxima (2,).

    Scores, and contexts in float32, are empty where they are not kept, or where the contexts are in float32 already.
    """
    shape = measure(queries, keys, vector, values)
    context = torch.empty(shape.groups, shape.targets, shape.width, device=values.device, dtype=values.dtype)
    log_sum = torch.empty(shape.groups, shape.targets, device=values.device, dtype=torch.float32)
    limits, weights = largest(queries, keys), padded_vector(vector, shape.padded)
    scores = log_sum.new_empty(0)
    keeps = keep and values.dtype != torch.float32
    exact = log_sum.new_empty(context.shape if keeps else (0,))
    for groups, targets in shape.pieces():
        everyone = groups.stop - groups.start == shape.groups
        their_keys = exponentials(keys[groups], limits, shape.columns, shape.padded, TILE, transposed=True)
        piece_scores = make_scores(
            queries[groups, targets], their_keys, vectors_of(weights, groups, everyone),
            mask_of(mask, groups, targets, everyone), limits, targets.start, causal, shape,
        )  # fmt: skip
        count, rows, columns = piece_scores.shape
        part = min(WIDTH, max(16, 1 << (shape.width - 1).bit_length()))
        forward_kernels.context_kernel[(count * (rows // shape.tile) * -(-shape.width // part),)](
            piece_scores, values[groups], context[groups], exact[groups] if keeps else exact, log_sum[groups],
            random_of(seed, groups, log_sum), drop, targets.stop - targets.start, shape.sources, shape.width,
            targets.start, shape.targets, rows, columns, KEEPS=keeps, DROPS=seed is not None,
            PRECISION=precision(values), ROWS=shape.tile, COLUMNS=TILE, WIDTH=part, num_warps=4,
        )  # fmt: skip
        if keep and shape.fits():
            scores = piece_scores
    return context, exact, log_sum, scores, limits


def fold(
    own: Tensor,
    other: Tensor,
    grad_scores: Tensor,
    vector: Tensor,
    limits: Tensor,
    out: Tensor,
    sparse: bool,
    by_rows: bool,
    with_vector: bool,
    piece: tuple[int, int, int],
) -> Tensor | None:
    """Fills rows of `out` (G, X, D) from `grad_scores` (G, Tp, Sp): `own` are its rows if `by_rows`, else its columns.

    The piece: the first row, how many, and how many to a tile. With `with_vector`, dv (G, Dp) returns.
    """
    groups, rows, depth = own.shape
    first, length, tile = piece
    columns, tiles = grad_scores.shape[2], rows // tile
    parts = torch.empty(groups, tiles, depth, device=own.device, dtype=torch.float32) if with_vector else vector
    backward_kernels.fold_kernel[(groups * tiles * (depth // DEPTH),)](
        own, other, grad_scores, vector, out, parts, limits, length, out.shape[2], rows, other.shape[1], depth,
        vector.shape[0], columns if by_rows else 1, 1 if by_rows else columns, first, out.shape[1],
        VECTOR=with_vector, SPARSE=sparse, LIMIT=WIDE, ROWS=tile, DEPTH=DEPTH, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return parts.sum(1) if with_vector else None


def backward(
    grad_output: Tensor,
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    context: Tensor,
    log_sum: Tensor,
    scores: Tensor,
    limits: Tensor,
    drop: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of queries, keys, vectors and values, from that of the contexts (G, T, V)."""
    shape = measure(queries, keys, vector, values)
    inner = torch.empty_like(log_sum)
    count = shape.groups * shape.targets
    backward_kernels.inner_kernel[(-(-count // 16),)](
        grad_output, context, inner, count, shape.width, ROWS=16, WIDTH=WIDTH
    )
    amounts = padded_vector(vector, shape.padded)
    sparse = causal or mask is not None
    query_gradient = torch.empty_like(queries, memory_format=torch.contiguous_format)
    vector_gradient = torch.zeros(shape.groups, shape.padded, device=vector.device, dtype=torch.float32)
    whole_rows = shape.fits()
    first = torch.empty_like if whole_rows else torch.zeros_like
    key_gradient = first(keys, dtype=keys.dtype if whole_rows else torch.float32)
    value_gradient = first(values, dtype=values.dtype if whole_rows else torch.float32)
    part = min(WIDTH, max(16, 1 << (shape.width - 1).bit_length()))
    for groups, targets in shape.pieces():
        everyone = groups.stop - groups.start == shape.groups
        length, weight = targets.stop - targets.start, vectors_of(amounts, groups, everyone)
        piece_scores = scores
        if not scores.numel():
            their_keys = exponentials(keys[groups], limits, shape.columns, shape.padded, TILE, transposed=True)
            piece_scores = make_scores(
                queries[groups, targets], their_keys, weight, mask_of(mask, groups, targets, everyone), limits,
                targets.start, causal, shape,
            )  # fmt: skip
            del their_keys
        count, rows, columns = piece_scores.shape
        rest = (
            random_of(seed, groups, log_sum),
            drop,
            length,
            shape.sources,
            shape.width,
            targets.start,
            shape.targets,
            rows,
            columns,
        )
        tiles = {"DROPS": seed is not None, "PRECISION": precision(values), "ROWS": shape.tile, "COLUMNS": TILE}
        values_here = value_gradient[groups] if whole_rows else torch.empty_like(value_gradient[groups])
        backward_kernels.value_kernel[(count * (columns // TILE) * -(-shape.width // part),)](
            piece_scores, log_sum[groups], grad_output[groups], values_here, *rest, **tiles, WIDTH=part, num_warps=4
        )
        grad_scores = torch.empty_like(piece_scores)
        backward_kernels.score_gradient_kernel[(count * (rows // shape.tile) * (columns // TILE),)](
            piece_scores, log_sum[groups], inner[groups], grad_output[groups], values[groups], grad_scores, *rest,
            **tiles, WIDTH=min(64, part), num_warps=4,
        )  # fmt: skip
        del piece_scores
        own = exponentials(queries[groups, targets], limits, rows, shape.padded, shape.tile, transposed=False)
        other = exponentials(keys[groups], limits, columns, shape.padded, TILE, transposed=False)
        by_vectors = fold(
            own, other, grad_scores, weight, limits, query_gradient[groups], sparse, by_rows=True, with_vector=True,
            piece=(targets.start, length, shape.tile),
        )  # fmt: skip
        assert by_vectors is not None
        vector_gradient[groups] += by_vectors
        keys_here = key_gradient[groups] if whole_rows else torch.empty_like(key_gradient[groups])
        fold(
            other, own, grad_scores, weight, limits, keys_here, sparse, by_rows=False, with_vector=False,
            piece=(0, shape.sources, TILE),
        )  # fmt: skip
        if not whole_rows:  # one piece of the queries after the other
            value_gradient[groups] += values_here
            key_gradient[groups] += keys_here
    by_vector = vector_gradient.view(-1, *amounts.shape).sum(0)[:, : shape.depth].contiguous()
    return query_gradient, key_gradient.to(keys.dtype), by_vector.to(vector.dtype), value_gradient.to(values.dtype)


def key_gradients(queries: Tensor, keys: Tensor, vector: Tensor, grad_scores: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of keys (G, S, D) and vector (D,), from queries (G, T, D) and the gradient of scores (G, T, S)."""
    shape = measure(queries, keys, vector[None], keys)
    padding = (0, shape.columns - shape.sources, 0, shape.rows - shape.targets)
    grad_scores = torch.nn.functional.pad(grad_scores.float(), padding)
    limits, amounts = largest(queries, keys), padded_vector(vector[None], shape.padded)
    own = exponentials(keys, limits, shape.columns, shape.padded, TILE, transposed=False)
    other = exponentials(queries, limits, shape.rows, shape.padded, shape.tile, transposed=False)
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    by_vector = fold(
        own, other, grad_scores, amounts, limits, out, sparse=True, by_rows=False, with_vector=True,
        piece=(0, shape.sources, TILE),
    )  # fmt: skip
    assert by_vector is not None
    return out, by_vector.sum(0)[: shape.depth].to(vector.dtype)
