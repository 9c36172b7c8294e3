"""Small models of the step contract for the tests of search: what comes next depends on the whole prefix."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, EOS, PAD


@dataclass
class MemoryState:
    """The hidden state of each hypothesis."""

    memory: Tensor  # (B, H)

    beam: int = 1

    def select(self, rows: Tensor) -> MemoryState:
        """A new state of some sources, before a search."""
        return MemoryState(self.memory[rows])

    def copy(self) -> MemoryState:
        return MemoryState(self.memory.clone(), self.beam)

    def reorder_(self, beam_index: Tensor) -> None:
        assert (beam_index // self.beam == torch.arange(len(self.memory)) // self.beam).all()
        self.memory = self.memory[beam_index]

    def expand_(self, beam: int) -> None:
        assert self.beam == 1
        self.memory, self.beam = self.memory.repeat_interleave(beam, 0), beam

    def keep_(self, sources: Tensor) -> None:
        self.memory = self.memory.unflatten(0, (-1, self.beam))[sources].flatten(0, 1)


class TinyRecurrent:
    """h' = tanh(E[token] + h U), logits = h' O: random weights, in float64 so that batches cannot change a ranking."""

    def __init__(self, seed: int, vocabulary: int, sharpness: float = 3.0, hidden: int = 6) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.embedding = torch.randn(vocabulary, hidden, generator=generator, dtype=torch.float64)
        self.recurrent = torch.randn(hidden, hidden, generator=generator, dtype=torch.float64)
        self.output = torch.randn(hidden, vocabulary, generator=generator, dtype=torch.float64) * sharpness / 2
        self.batches: list[int] = []  # how many rows each step was given

    def start(self, rows: int, seed: int = 0) -> MemoryState:
        generator = torch.Generator().manual_seed(seed)
        return MemoryState(torch.randn(rows, self.recurrent.shape[0], generator=generator, dtype=torch.float64))

    def step(self, tokens: Tensor, state: MemoryState) -> Tensor:
        assert len(tokens) == len(state.memory)
        self.batches.append(len(tokens))
        state.memory = torch.tanh(self.embedding[tokens] + state.memory @ self.recurrent)
        return state.memory @ self.output

    def score(self, state: MemoryState, tokens: list[int]) -> float:
        """The log-probability of `tokens` after BOS, for a state of one row."""
        total, state = 0.0, state.copy()
        for previous, token in zip([BOS, *tokens[:-1]], tokens, strict=True):
            logits = self.step(torch.tensor([previous]), state)
            total += float(logits.log_softmax(-1)[0, token])
        return total

    @property
    def words(self) -> list[int]:
        return [token for token in range(len(self.embedding)) if token not in (PAD, BOS, EOS)]


def exhaustive(
    model: TinyRecurrent, state: MemoryState, limit: int, penalty: float
) -> list[tuple[list[int], float, float]]:
    """Every finished sequence of at most `limit` tokens: (tokens, score, normalised), best first."""
    found = []
    for length in range(limit):
        for tokens in product(model.words, repeat=length):
            score = model.score(state, [*tokens, EOS])
            found.append((list(tokens), score, score / (length + 1) ** penalty))
    return sorted(found, key=lambda item: -item[2])


def patient_beam(
    model: TinyRecurrent, state: MemoryState, limit: int, beam: int, penalty: float
) -> list[tuple[list[int], float]]:
    """Beam search in plain lists that never stops before `limit`: (tokens, normalised) of all that finished."""
    live: list[tuple[list[int], float]] = [([], 0.0)]
    finished = []
    for length in range(1, limit + 1):
        offers = []
        for tokens, score in live:
            memory = state.copy()
            for token in [BOS, *tokens]:
                logits = model.step(torch.tensor([token]), memory)
            log_probabilities = logits.log_softmax(-1)[0].tolist()
            offers += [([*tokens, token], score + log_probabilities[token]) for token in [*model.words, EOS]]
        offers.sort(key=lambda offer: -offer[1])
        finished += [(tokens[:-1], score / length**penalty) for tokens, score in offers[:beam] if tokens[-1] == EOS]
        live = [offer for offer in offers if offer[0][-1] != EOS][:beam]
    return sorted(finished, key=lambda item: -item[1])
