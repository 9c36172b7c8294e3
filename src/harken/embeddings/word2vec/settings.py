"""What word2vec may be told; the defaults are those of the papers and of the tools people know.

>>> round(Settings(method="cbow").rate_at(0.5), 6), Settings().rate_at(0.0)
(0.03005, 0.025)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from harken.embeddings.word2vec.subwords import Subwords
from harken.errors import UserError

# As in word2vec's own program, but for CBOW, which has 0.05 there: in gensim, which many compare with, threads that
# read a file let the rate fall by their own share of it alone, so that two of them have a tenth more of it on the mean.
RATES = {"skipgram": 0.025, "cbow": 0.06}
METHODS = tuple(RATES)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train word2vec."""

    method: str = "skipgram"  # neighbours one by one; "cbow": their mean
    width: int = 100  # D
    window: int = 5  # neighbours on each side at most; drawn from 1 to this for every word
    negatives: int = 5  # wrong answers a window; not used with a tree
    hierarchical: bool = False  # a Huffman tree in place of wrong answers
    sample: float = 1e-3  # words more frequent than this share are thinned out; 0: all stay
    epochs: int = 5
    rate: float | None = None  # learning rate; None: 0.025 for skip-gram, 0.06 for CBOW; falls along a line ...
    last_rate: float = 0.0001  # ... to this
    subwords: Subwords | None = None  # n-grams of characters, as in fastText
    threads: int | None = None  # None: all cores; 1 repeats to the bit
    device: str = "auto"  # cpu, cuda or cuda:N; auto: a GPU where it pays (`harken.embeddings.word2vec.device`)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UserError(f'method is "{self.method}", which is unknown: use {" or ".join(METHODS)}.')
        least: dict[str, Any] = {"width": 1, "window": 1, "epochs": 1, "negatives": 0 if self.hierarchical else 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least {bound}.")
        if self.threads is not None and self.threads < 1:
            raise UserError(f"threads is {self.threads}: it must be at least 1.")
        if self.device not in ("auto", "cpu") and self.device.split(":")[0] != "cuda":
            raise UserError(f'device is "{self.device}", which is unknown: use auto, cpu, cuda or cuda:N.')
        if not 0 <= self.sample <= 1:
            raise UserError(f"sample is {self.sample}: it is a share of the corpus, from 0 (off) to 1.")
        if not 0 < self.last_rate <= self.first_rate:
            raise UserError(f"rate is {self.first_rate} and the last {self.last_rate}: rates are above 0 and fall.")

    @property
    def first_rate(self) -> float:
        """What `rate` says, or the method's own: a mean of neighbours takes larger steps."""
        return self.rate if self.rate is not None else RATES[self.method]

    def rate_at(self, done: float) -> float:
        """The learning rate when `done` (0 to 1) of the training is behind."""
        return max(self.first_rate + (self.last_rate - self.first_rate) * done, self.last_rate)
