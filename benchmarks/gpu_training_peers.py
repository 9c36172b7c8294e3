"""What a user writes in plain PyTorch for the models of `gpu_training.py`: the peers of `harken train` on a GPU.

Pairs are word ids, on bf16 autocast with fused AdamW and clipping. For the recurrent model they are sorted by length
and cut into padded batches of a token budget. The compiled Transformer gets what suits it best: the words of all
sentences in rows of one length, so that it is compiled for one shape, has no padding and needs no masks but the causal
one. (With padded batches and `dynamic=True`, torch 2.11 did not finish compiling it within five minutes.) The
language model reads pieces of one length. Speed is source + target tokens a second, padding counted as nothing,
collating included.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, EOS, UNKNOWN = 0, 2, 3, 1
Pair = tuple[list[int], list[int]]


def encode(sources: list[str], targets: list[str], size: int) -> list[Pair]:
    """Words as ids of one joint vocabulary, each sentence ended by EOS."""
    counts = Counter(word for line in (*sources, *targets) for word in line.split())
    ids = {word: number for number, (word, _) in enumerate(counts.most_common(size - 4), start=4)}

    def row(line: str) -> list[int]:
        return [*(ids.get(word, UNKNOWN) for word in line.split()), EOS]

    return [(row(source), row(target)) for source, target in zip(sources, targets, strict=True)]


def batches(pairs: list[Pair], budget: int) -> list[list[Pair]]:
    """Batches of like length, in random order."""
    ordered = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    groups: list[list[Pair]] = [[]]
    longest = 0
    for pair in ordered:
        longest = max(longest, *map(len, pair))
        if groups[-1] and longest * (len(groups[-1]) + 1) > budget:
            groups.append([])
            longest = max(map(len, pair))
        groups[-1].append(pair)
    random.Random(0).shuffle(groups)
    return groups


def full_rows(pairs: list[Pair], budget: int, length: int = 32) -> list[list[Pair]]:
    """The tokens of all pairs in batches of equal rows without padding."""
    sides = [[token for pair in pairs for token in pair[side]] for side in (0, 1)]
    starts = range(0, min(map(len, sides)) - length + 1, length)
    rows = [(sides[0][start : start + length], sides[1][start : start + length]) for start in starts]
    count = budget // length
    return [rows[first : first + count] for first in range(0, len(rows) - count + 1, count)]


def collate(batch: list[Pair]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source (B, S), lengths (B,), target input and output (B, T)."""

    def padded(rows: list[list[int]]) -> Tensor:
        return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)

    lengths = torch.tensor([len(source) for source, _ in batch])
    begun = padded([[BOS, *target[:-1]] for _, target in batch])
    return padded([source for source, _ in batch]), lengths, begun, padded([target for _, target in batch])


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` with tied embeddings, for rows without padding."""

    def __init__(self, vocabulary: int, width: int = 512, layers: int = 6, heads: int = 8, inner: int = 2048) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.network = nn.Transformer(width, heads, layers, layers, inner, 0.1, batch_first=True)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        """The summed label-smoothed loss."""
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden = self.network(
            self.embedding(source),
            self.embedding(target),
            tgt_mask=future,
            tgt_is_causal=True,
        )
        return cross_entropy(F.linear(hidden, self.embedding.weight), labels)


class PlainRecurrent(nn.Module):
    """A bidirectional LSTM, and an LSTM cell with additive attention and input feeding in a loop over the target."""

    def __init__(self, vocabulary: int, width: int = 512, embedding: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.encoder = nn.LSTM(embedding, width // 2, batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(embedding + width, width)
        self.key, self.query = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.energy, self.combine = nn.Linear(width, 1, bias=False), nn.Linear(2 * width, width)
        self.bridge, self.output = nn.Linear(width, width), nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(0.2)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        """The summed label-smoothed loss."""
        embedded = self.dropout(self.embedding(source))
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        memory, (last, _) = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True)
        hidden = torch.tanh(self.bridge(torch.cat((last[0], last[1]), -1)))
        cell, feed, keys = torch.zeros_like(hidden), torch.zeros_like(hidden), self.key(memory)
        padding, read, outputs = source == PAD, self.dropout(self.embedding(target)), []
        for step in range(target.shape[1]):
            hidden, cell = self.cell(torch.cat((read[:, step], feed), -1), (hidden, cell))
            scores = self.energy(torch.tanh(keys + self.query(hidden)[:, None]))[..., 0]
            weights = torch.softmax(scores.float().masked_fill(padding, -torch.inf), -1).to(memory.dtype)
            context = (weights[:, None] @ memory)[:, 0]
            feed = torch.tanh(self.combine(torch.cat((context, hidden), -1)))
            outputs.append(feed)
        return cross_entropy(self.output(self.dropout(torch.stack(outputs, 1))), labels)


class PlainLanguage(nn.Module):
    """A causal language model of the shape of GPT-2 small, with torch's attention and a tied output layer."""

    def __init__(self, vocabulary: int, length: int, width: int = 768, layers: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(width),
                    "project": nn.Linear(width, 3 * width),
                    "output": nn.Linear(width, width),
                    "second_norm": nn.LayerNorm(width),
                    "expand": nn.Linear(width, 4 * width),
                    "contract": nn.Linear(4 * width, width),
                }
            )
            for _ in range(layers)
        )
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """The summed loss."""
        values = self.embedding(tokens) + self.positions.weight
        for block in self.blocks:
            parts = block["project"](block["norm"](values)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)
            context = F.scaled_dot_product_attention(*parts.unbind(2), is_causal=True)
            values = values + block["output"](context.transpose(1, 2).flatten(2))
            inner = F.gelu(block["expand"](block["second_norm"](values)), approximate="tanh")
            values = values + block["contract"](inner)
        logits = F.linear(self.norm(values), self.embedding.weight).flatten(0, 1)
        return F.cross_entropy(logits, labels.flatten(), reduction="sum")


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Label-smoothed and summed."""
    flat = logits.float().flatten(0, 1)
    return F.cross_entropy(flat, labels.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum")


def tokens_per_second(model: nn.Module, data: list[list[Pair]], compiled: bool, seconds: float) -> dict[str, float]:
    """Train a translator for so many seconds after a warm-up."""

    def batch(number: int) -> tuple[list[Tensor], int, int]:
        pairs = data[number % len(data)]
        source, lengths, target, labels = collate(pairs)
        moved = [source.cuda(), lengths, target.cuda(), labels.cuda()]
        return moved, int((labels != PAD).sum()), sum(len(source) + len(target) for source, target in pairs)

    return _train(model, batch, compiled, seconds)


def language_tokens_per_second(
    model: nn.Module, ids: Tensor, rows: int, length: int, seconds: float
) -> dict[str, float]:
    """Train a compiled language model on pieces (rows, length) of a text (N,)."""

    def batch(number: int) -> tuple[list[Tensor], int, int]:
        tokens = rows * length
        start = number * tokens % (len(ids) - tokens - 1)
        piece = ids[start : start + tokens + 1].cuda(non_blocking=True)
        return [piece[:-1].view(rows, length), piece[1:].view(rows, length)], tokens, tokens

    return _train(model, batch, True, seconds)


def _train(
    model: nn.Module, batch: Callable[[int], tuple[list[Tensor], int, int]], compiled: bool, seconds: float
) -> dict[str, float]:
    """Updates in bf16, at least twelve of them before the clock starts; a batch is its tensors, the number of labels,
    and the number of tokens that count."""
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    run = torch.compile(model, dynamic=False) if compiled else model

    def step(number: int) -> int:
        arguments, labels, tokens = batch(number)
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(*arguments)
        (loss / labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return tokens

    start = time.perf_counter()
    for number in range(12):
        step(number)
    torch.cuda.synchronize()
    warm, start, tokens, steps = time.perf_counter() - start, time.perf_counter(), 0, 0
    while time.perf_counter() - start < seconds:
        tokens += step(steps)
        steps += 1
        torch.cuda.synchronize()
    taken = time.perf_counter() - start
    return {"tokens_per_second": tokens / taken, "ms": 1000 * taken / steps, "warm_up_seconds": warm}
