"""Token ids of a whole corpus in one flat array, and padded batches out of it.

>>> rows = TokenRows.from_lists([[5, 6, 7], [8]], eos=True)
>>> ids, lengths = rows.gather([1, 0])
>>> ids.tolist(), lengths.tolist()
([[8, 3, 0, 0], [5, 6, 7, 3]], [2, 4])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from harken.data.batching import Batches, Count, token_batches
from harken.data.io.ragged import Ragged
from harken.data.tokenizers.flat import encode_flat
from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.lazy_torch import torch

if TYPE_CHECKING:
    from torch import Tensor

    from harken.data.tokenizers.base import Tokenizer

CHUNK = 50_000  # lines encoded at once; bounds the memory that Python lists take


class TokenRows(Ragged):
    """Rows of ids. Arrays of unsigned ids, which `harken.data.prepared` maps from files, stay as they are."""

    def __init__(self, flat: np.ndarray, offsets: np.ndarray) -> None:
        super().__init__(flat if flat.dtype.kind == "u" else flat.astype(np.int32, copy=False), offsets)

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]], *, eos: bool = False) -> TokenRows:
        """Flatten lists of ids; `eos` ends every row with the end-of-sentence id."""
        extra = [EOS] if eos else []
        lengths = np.fromiter((len(row) + eos for row in rows), dtype=np.int64, count=len(rows))
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        ids = chain.from_iterable(chain(row, extra) for row in rows)
        return cls(np.fromiter(ids, dtype=np.int32, count=int(offsets[-1])), offsets)

    @classmethod
    def encode(cls, tokenizer: Tokenizer, texts: Sequence[str], *, eos: bool = True) -> TokenRows:
        """The ids of many texts, each ended by the end-of-sentence id."""
        starts = range(0, len(texts), CHUNK)
        parts = [cls.from_flat(*encode_flat(tokenizer, texts[start : start + CHUNK]), eos=eos) for start in starts]
        return cls.concatenate(parts) if len(parts) != 1 else parts[0]

    @classmethod
    def from_flat(cls, flat: np.ndarray, lengths: np.ndarray, *, eos: bool = False) -> TokenRows:
        """Rows of these lengths, one after another in `flat`; `eos` ends every row with the end-of-sentence id."""
        ends = np.cumsum(lengths)
        if not eos:
            return cls(flat, np.concatenate([[0], ends]))
        last = ends + np.arange(len(ends))  # where the ends of the rows go
        inside = np.ones(len(flat) + len(ends), dtype=bool)
        inside[last] = False
        ids = np.full(len(inside), EOS, dtype=np.int32)
        ids[inside] = flat
        return cls(ids, np.concatenate([[0], last + 1]))

    @classmethod
    def concatenate(cls, parts: Iterable[TokenRows]) -> TokenRows:
        """The rows of all parts, in order."""
        parts = list(parts)
        lengths = np.concatenate([np.zeros(1, dtype=np.int64), *(part.lengths for part in parts)])
        flat = np.concatenate([np.zeros(0, dtype=np.int32), *(part.flat for part in parts)])
        return cls(flat, np.cumsum(lengths))

    def gather(self, indices: Sequence[int] | np.ndarray) -> tuple[Tensor, Tensor]:
        """(ids (B, T) padded to the longest, lengths (B,)) of the chosen rows, both int64."""
        ids, lengths = self.padded(indices, PAD, np.int64)
        return torch.from_numpy(ids), torch.from_numpy(lengths)


def pad(rows: Sequence[Sequence[int]], *, eos: bool = False) -> tuple[Tensor, Tensor]:
    """(ids (B, T), lengths (B,)) of a few lists of ids; `eos` ends every row with the end-of-sentence id."""
    return TokenRows.from_lists(rows, eos=eos).gather(np.arange(len(rows)))


@dataclass(frozen=True)
class ParallelBatch:
    """One batch of sentence pairs. The decoder reads `target_input` and is to write `target_output`."""

    source: Tensor  # (B, S) ended by EOS
    source_lengths: Tensor  # (B,)
    target_input: Tensor  # (B, T) BOS, y1 ... yn
    target_output: Tensor  # (B, T) y1 ... yn, EOS
    target_lengths: Tensor  # (B,) the same for both

    def to(self, device: torch.device | str) -> ParallelBatch:
        """The batch on another device; from pinned memory the copy does not wait."""
        tensors = (self.source, self.source_lengths, self.target_input, self.target_output, self.target_lengths)
        return ParallelBatch(*(tensor.to(device, non_blocking=True) for tensor in tensors))

    def padded(self, rows: int, sources: int, targets: int) -> ParallelBatch:
        """The batch made larger by padding; added rows have a source of one token and no target.

        >>> batch = ParallelIds(*(TokenRows.from_lists([[5, 6], [7]], eos=True) for _ in range(2))).batch([0, 1])
        >>> wider = batch.padded(3, 4, 4)
        >>> wider.source.tolist(), wider.source_lengths.tolist(), wider.target_lengths.tolist()
        ([[5, 6, 3, 0], [7, 3, 0, 0], [0, 0, 0, 0]], [3, 2, 1], [3, 2, 0])
        """
        added = rows - len(self.source)

        def wider(ids: Tensor, size: int) -> Tensor:
            return torch.nn.functional.pad(ids, (0, size - ids.shape[1], 0, added), value=PAD)

        return ParallelBatch(
            wider(self.source, sources),
            torch.nn.functional.pad(self.source_lengths, (0, added), value=1),
            wider(self.target_input, targets),
            wider(self.target_output, targets),
            torch.nn.functional.pad(self.target_lengths, (0, added), value=0),
        )


class ParallelIds:
    """The ids of source and target of every pair, each row ended by EOS."""

    def __init__(self, source: TokenRows, target: TokenRows) -> None:
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source rows do not pair with {len(target)} target rows")
        self.source = source
        self.target = target

    @classmethod
    def encode(
        cls, sources: Sequence[str], targets: Sequence[str], source_tokenizer: Tokenizer, target_tokenizer: Tokenizer
    ) -> ParallelIds:
        """Encode both sides of a list of pairs."""
        return cls(TokenRows.encode(source_tokenizer, sources), TokenRows.encode(target_tokenizer, targets))

    def __len__(self) -> int:
        return len(self.source)

    def batches(self, budget: int, *, seed: int, epoch: int, shuffle: bool = True, count: Count = "max") -> Batches:
        """The row indices of every batch of an epoch, as `token_batches` cuts them."""
        lengths = self.source.lengths, self.target.lengths
        return token_batches(*lengths, budget, seed=seed, epoch=epoch, shuffle=shuffle, count=count)

    def batch(self, indices: Sequence[int] | np.ndarray) -> ParallelBatch:
        """The tensors of one batch."""
        source, source_lengths = self.source.gather(indices)
        output, lengths = self.target.gather(indices)
        begin = torch.full_like(output[:, :1], BOS)
        shifted = torch.cat([begin, output[:, :-1]], dim=1)  # (B, T)
        shifted[output == PAD] = PAD  # where a shorter row's EOS was moved to
        return ParallelBatch(source, source_lengths, shifted, output, lengths)
